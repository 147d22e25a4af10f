// A grammar bound to a vocabulary: which tokens may come next, and where one has got to. The compiled form and what it
// has learned are shared by all sequences with the same grammar.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/result.hpp"
#include "model/grammar/state_space.hpp"
#include "model/grammar/token_trie.hpp"
#include "model/sampling/token_mask.hpp"

namespace troupe::model {

/// Thread-safe through constraint_cursor.
class constraint {
 public:
    /// `source`: GBNF. Errors as parse_gbnf and build_automaton.
    static result<std::shared_ptr<constraint>> compile(
        std::string_view source, std::shared_ptr<const token_trie> vocabulary);

 private:
    friend class constraint_cursor;
    using state = state_space::state;
    /// What a rule allows looked at by itself: tokens that stay inside, and the trie nodes at which it may be left.
    struct local_view {
        token_mask inside;
        std::vector<std::uint32_t> exits;
    };

    constraint(automaton machine, std::shared_ptr<const token_trie> vocabulary);
    /// False: the space overflowed. All under mutex_.
    bool mask(state s, token_mask& out);
    void add_group(std::span<const state_space::config> group, std::uint32_t caller, token_mask& out);
    const local_view& view_of(state local, bool leaves_rule);
    void walk_below(std::uint32_t node, state s, token_mask& out);
    template <class Visit> void walk(std::uint32_t first, std::uint32_t last, state s, Visit&& visit);
    void allow(std::uint32_t node, token_mask& out) const;
    std::uint32_t caller_of(std::uint32_t stack) const;
    std::uint32_t local_stack(std::uint32_t stack, std::uint32_t base);
    std::int32_t usual_count(const automaton::loop& loop, std::int32_t count) const;
    void forget();
    void make_room();

    const automaton machine_;
    const std::shared_ptr<const token_trie> vocabulary_;
    std::mutex mutex_;
    state_space space_;
    std::uint64_t epoch_ = 1;  ///< states of earlier epochs are void
    std::unordered_map<state, token_mask> masks_;
    std::unordered_map<state, local_view> views_;
    std::size_t mask_bytes_ = 0;
    std::vector<state> path_;  ///< of a walk: the state at each depth
};

/// One sequence's place in its grammar. Rebuilt by accepting its tokens again.
class constraint_cursor {
 public:
    explicit constraint_cursor(std::shared_ptr<constraint> grammar) : grammar_(std::move(grammar)) {}

    /// Tokens that may come next, end tokens not among them. constraint_failed: the grammar is too ambiguous here.
    result<void> mask(token_mask& out);
    /// Goes on by a token's bytes. constraint_failed: the grammar does not allow it here (the cursor stays).
    result<void> accept(token_id id);
    /// The text so far is complete.
    result<bool> accepting();
    /// For texts without tokens.
    result<void> accept(std::string_view bytes);
    bool empty() const { return text_.empty(); }

 private:
    /// The state now, made anew if the space was cleared meanwhile. Under the grammar's mutex.
    result<state_space::state> locate();
    std::shared_ptr<constraint> grammar_;
    std::string text_;  ///< accepted so far
    state_space::state state_ = state_space::dead;
    std::uint64_t epoch_ = 0;
};

}  // namespace troupe::model
