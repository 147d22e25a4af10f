#include "fake_disk.hpp"

#include <algorithm>

namespace troupe::actors::sim {

stored_generation* fake_disk::find(sessions& s, const std::string& generation) {
    for (auto& [name, session] : s)
        for (auto& g : session.unfinished)
            if (g.id == generation) return &g;
    return nullptr;
}

void fake_disk::apply_to(sessions& s, const record& r) {
    if (const auto* p = std::get_if<put_session>(&r)) {
        auto& session = s[p->info.id];
        session.info = p->info;
        session.leaf = p->leaf;
        session.seq_reserved = std::max(session.seq_reserved, p->seq_reserved);
    } else if (const auto* m = std::get_if<put_message>(&r)) {
        auto& messages = s[m->session].messages;
        const auto known = std::find_if(
            messages.begin(), messages.end(), [&](const auto& x) { return x.view.id == m->message.view.id; });
        if (known != messages.end())
            *known = m->message;
        else
            messages.push_back(m->message);
    } else if (const auto* g = std::get_if<put_generation>(&r)) {
        auto& unfinished = s[g->generation.session].unfinished;
        if (std::none_of(unfinished.begin(), unfinished.end(), [&](const auto& x) { return x.id == g->generation.id; }))
            unfinished.push_back(g->generation);
    } else if (const auto* a = std::get_if<append_tokens>(&r)) {
        auto* of = find(s, a->generation);
        if (!of) return;
        of->tokens.resize(std::max(of->tokens.size(), static_cast<std::size_t>(a->pos) + a->tokens.size()), -1);
        std::copy(a->tokens.begin(), a->tokens.end(), of->tokens.begin() + static_cast<std::ptrdiff_t>(a->pos));
        of->mu = a->mu;
    } else if (const auto* e = std::get_if<end_generation>(&r)) {
        for (auto& [name, session] : s)
            std::erase_if(session.unfinished, [&](const auto& x) { return x.id == e->generation; });
    } else if (const auto* q = std::get_if<reserve_seq>(&r)) {
        if (const auto found = s.find(q->session); found != s.end())
            found->second.seq_reserved = std::max(found->second.seq_reserved, q->up_to);
    } else if (const auto* d = std::get_if<delete_session>(&r)) {
        s.erase(d->session);
    }
}

result<void> fake_disk::apply(std::span<const record> records) {
    if (failing) return fail(errc::io, "the disk is full");
    for (const record& r : records) apply_to(sessions_, r);
    return {};
}

std::optional<stored_session> fake_disk::load(const std::string& session, std::span<const record> pending) const {
    sessions one;
    if (const auto found = sessions_.find(session); found != sessions_.end()) one.insert(*found);
    for (const record& r : pending) apply_to(one, r);
    const auto found = one.find(session);
    return found == one.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> fake_disk::unfinished() const {
    std::vector<std::string> names;
    for (const auto& [name, s] : sessions_)
        if (!s.unfinished.empty()) names.push_back(name);
    return names;
}

std::optional<std::int64_t> fake_disk::journaled(const std::string& generation) const {
    const auto* g = find(const_cast<sessions&>(sessions_), generation);
    if (!g) return std::nullopt;
    const auto hole = std::find(g->tokens.begin(), g->tokens.end(), -1);
    return hole - g->tokens.begin();
}

bool fake_disk::has_message(const std::string& session, const std::string& message) const {
    const auto s = sessions_.find(session);
    return s != sessions_.end() && std::any_of(s->second.messages.begin(), s->second.messages.end(),
                                       [&](const auto& m) { return m.view.id == message; });
}

}  // namespace troupe::actors::sim
