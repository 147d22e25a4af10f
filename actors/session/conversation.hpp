// The messages of one session as a tree: an edit or a regenerated answer is a branch, nothing is ever deleted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/store/records.hpp"
#include "core/requests.hpp"
#include "core/result.hpp"

namespace troupe::actors {

class conversation {
 public:
    conversation() = default;
    explicit conversation(std::vector<stored_message> messages, std::string leaf);

    const std::vector<stored_message>& messages() const { return messages_; }
    const std::string& leaf() const { return leaf_; }
    /// Null: unknown.
    const stored_message* find(const std::string& id) const;
    stored_message* find(const std::string& id);
    /// The answer given to a user message first; empty: none.
    std::string first_child(const std::string& id) const;

    /// The parent must be there (or empty: a root), the id must not. The new message is the leaf.
    void add(stored_message m);

    /// Where a new user message goes: `asked` absent: the leaf; empty: a new root. errc::not_found if it is unknown.
    result<std::string> parent_for(const std::optional<std::string>& asked) const;
    /// Messages from the root to `id` (empty: none), as the template wants them, after `system` if that is not empty.
    std::vector<chat_message> context(const std::string& id, const std::string& system) const;
    /// Checks of a tree that comes from outside: ids well formed and unique, parents before children, known roles.
    static result<void> check(const std::vector<stored_message>& messages, const std::string& leaf);

 private:
    std::vector<stored_message> messages_;
    std::unordered_map<std::string, std::size_t> index_;
    std::string leaf_;
};

}  // namespace troupe::actors
