#include "actors/session/conversation.hpp"

#include <algorithm>
#include <unordered_set>

#include "core/check.hpp"
#include "core/ids.hpp"

namespace troupe::actors {

conversation::conversation(std::vector<stored_message> messages, std::string leaf) {
    for (auto& m : messages) {
        index_.emplace(m.view.id, messages_.size());
        messages_.push_back(std::move(m));
    }
    leaf_ = find(leaf) || messages_.empty() ? std::move(leaf) : messages_.back().view.id;
}

const stored_message* conversation::find(const std::string& id) const {
    const auto it = index_.find(id);
    return it == index_.end() ? nullptr : &messages_[it->second];
}

stored_message* conversation::find(const std::string& id) {
    return const_cast<stored_message*>(std::as_const(*this).find(id));
}

std::string conversation::first_child(const std::string& id) const {
    for (const auto& m : messages_)
        if (m.view.parent == id) return m.view.id;
    return {};
}

void conversation::add(stored_message m) {
    CHECK(m.view.parent.empty() || find(m.view.parent), "a message without its parent");
    CHECK(!find(m.view.id), "a message id twice in one session");
    leaf_ = m.view.id;
    index_.emplace(m.view.id, messages_.size());
    messages_.push_back(std::move(m));
}

result<std::string> conversation::parent_for(const std::optional<std::string>& asked) const {
    if (!asked) return leaf_;
    if (!asked->empty() && !find(*asked))
        return fail(errc::not_found, "parent names no message of this session", "parent");
    return *asked;
}

std::vector<chat_message> conversation::context(const std::string& id, const std::string& system) const {
    std::vector<chat_message> r;
    for (const auto* m = find(id); m; m = find(m->view.parent)) r.push_back({m->view.role, m->view.content, {}});
    if (!system.empty()) r.push_back({"system", system, {}});
    std::reverse(r.begin(), r.end());
    return r;
}

result<void> conversation::check(const std::vector<stored_message>& messages, const std::string& leaf) {
    static const std::unordered_set<std::string> roles{"system", "developer", "user", "assistant", "tool"};
    std::unordered_set<std::string> seen;
    for (const auto& m : messages) {
        const auto& v = m.view;
        if (!is_client_id(v.id)) return fail(errc::invalid_request, "a message id is malformed", "messages");
        if (!v.parent.empty() && !seen.contains(v.parent))
            return fail(
                errc::invalid_request, "message " + v.id + " stands before its parent, or has none", "messages");
        if (!roles.contains(v.role))
            return fail(errc::invalid_request, "message " + v.id + " has an unknown role", "messages");
        if (!seen.insert(v.id).second)
            return fail(errc::invalid_request, "message id " + v.id + " is there twice", "messages");
    }
    if (!leaf.empty() && !seen.contains(leaf)) return fail(errc::invalid_request, "leaf names no message", "leaf");
    return {};
}

}  // namespace troupe::actors
