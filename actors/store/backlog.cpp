#include "actors/store/backlog.hpp"

#include <algorithm>
#include <unordered_set>

#include "core/limits.hpp"

namespace troupe::actors {
namespace {

std::size_t size_of(const record& r) {
    if (const auto* m = std::get_if<put_message>(&r)) return sizeof(record) + m->message.view.content.size();
    if (const auto* a = std::get_if<append_tokens>(&r)) return sizeof(record) + a->tokens.size() * 4;
    if (const auto* g = std::get_if<put_generation>(&r)) return sizeof(record) + g->generation.prompt.size() * 4;
    return sizeof(record);
}

/// The records that make up what is stored of a session.
std::vector<record> records_of(const stored_session& s) {
    std::vector<record> rows{put_session{s.info, s.leaf, s.seq_reserved}};
    for (const auto& m : s.messages) rows.emplace_back(put_message{s.info.id, m});
    for (const auto& g : s.unfinished) {
        rows.emplace_back(put_generation{g});
        rows.emplace_back(append_tokens{g.id, 0, g.tokens});
    }
    return rows;
}

/// Picks the records of one session. Those of a generation name only it, so the generations seen are remembered.
struct session_filter {
    const std::string& session;
    std::unordered_set<std::string> generations;

    bool operator()(const put_session& r) { return r.info.id == session; }
    bool operator()(const put_message& r) { return r.session == session; }
    bool operator()(const put_generation& r) {
        if (r.generation.session != session) return false;
        generations.insert(r.generation.id);
        return true;
    }
    bool operator()(const append_tokens& r) { return generations.contains(r.generation); }
    bool operator()(const end_generation& r) { return generations.contains(r.generation); }
    bool operator()(const reserve_seq& r) { return r.session == session; }
    bool operator()(const delete_session& r) { return r.session == session; }
};

bool contains_text(std::string_view text, std::string_view what) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
    return std::search(text.begin(), text.end(), what.begin(), what.end(),
               [&](char a, char b) { return lower(a) == lower(b); }) != text.end() ||
           what.empty();
}

}  // namespace

bool store_backlog::add(const std::vector<record>& records) {
    std::size_t more = 0;
    for (const auto& r : records) more += size_of(r);
    if (bytes_ + more > limits::store_backlog_bytes) return false;
    bytes_ += more;
    for (const auto& r : records)
        if (const auto* a = std::get_if<append_tokens>(&r)) tokens_ += a->tokens.size();
    records_.insert(records_.end(), records.begin(), records.end());
    return true;
}

result<void> store_backlog::write_to(const apply_records& disk) {
    TROUPE_TRYV(disk(records_));
    records_.clear();
    bytes_ = tokens_ = 0;
    return {};
}

result<std::optional<stored_session>> store_backlog::load(database& db, const std::string& session) const {
    TROUPE_TRY(auto known, db.load(session));
    session_filter of_session{session, {}};
    std::vector<record> rows;
    if (known) {
        for (const auto& g : known->unfinished) of_session.generations.insert(g.id);
        rows = records_of(*known);
    }
    const auto n_known = rows.size();
    for (const auto& r : records_)
        if (std::visit(of_session, r)) rows.push_back(r);
    if (rows.size() == n_known) return known;
    // The rules for what a record does to a session are those of the database: let one apply them.
    TROUPE_TRY(const auto memory, database::open_in_memory());
    TROUPE_TRYV(memory->apply(rows));
    return memory->load(session);
}

result<session_page> store_backlog::list(
    database& db, std::int64_t limit, const std::string& after, const std::string& search) const {
    TROUPE_TRY(auto page, db.list(limit, after, search));
    auto& sessions = page.sessions;
    for (const auto& r : records_) {
        if (const auto* p = std::get_if<put_session>(&r)) {
            const auto known = std::find_if(
                sessions.begin(), sessions.end(), [&](const session_view& v) { return v.id == p->info.id; });
            if (known != sessions.end())
                *known = p->info;
            else if (after.empty() && contains_text(p->info.title, search))
                sessions.insert(sessions.begin(), p->info);
        } else if (const auto* d = std::get_if<delete_session>(&r)) {
            std::erase_if(sessions, [&](const session_view& v) { return v.id == d->session; });
        }
    }
    if (static_cast<std::int64_t>(sessions.size()) > limit) {
        sessions.resize(static_cast<std::size_t>(limit));
        page.has_more = true;
    }
    return page;
}

}  // namespace troupe::actors
