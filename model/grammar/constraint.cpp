// Masks: a walk over the vocabulary's tree for each state. What lies inside one rule is walked once for all places that
// call it; only tokens that leave the rule are walked with the real stack.
#include "model/grammar/constraint.hpp"

#include <algorithm>

#include "core/limits.hpp"

namespace troupe::model {
namespace {

error stuck(std::string message) { return fail(errc::constraint_failed, std::move(message)); }

}  // namespace

result<std::shared_ptr<constraint>> constraint::compile(
    std::string_view source, std::shared_ptr<const token_trie> vocabulary) {
    TROUPE_TRY(const auto parsed, parse_gbnf(source));
    TROUPE_TRY(auto machine, build_automaton(parsed));
    return std::shared_ptr<constraint>(new constraint(std::move(machine), std::move(vocabulary)));
}

constraint::constraint(automaton machine, std::shared_ptr<const token_trie> vocabulary)
    : machine_(std::move(machine)), vocabulary_(std::move(vocabulary)), space_(machine_),
      path_(vocabulary_->longest() + 1) {}

void constraint::forget() {
    space_.clear();
    masks_.clear();
    views_.clear();
    mask_bytes_ = 0;
    ++epoch_;
}

/// Masks are a cache of their own: dropping them voids no state.
void constraint::make_room() {
    mask_bytes_ += vocabulary_->n_tokens() / 8;
    if (mask_bytes_ <= limits::grammar_cache_bytes) return;
    masks_.clear();
    views_.clear();
    mask_bytes_ = vocabulary_->n_tokens() / 8;
}

bool constraint::mask(state s, token_mask& out) {
    if (const auto known = masks_.find(s); known != masks_.end()) {
        out = known->second;
        return true;
    }
    out = token_mask(vocabulary_->n_tokens());
    // The space grows while groups are looked at, so they are copied. One rule called from one place is a group.
    const auto here = space_.configs(s);
    std::vector<std::pair<std::uint32_t, state_space::config>> by_caller;
    for (const auto& c : here) by_caller.emplace_back(caller_of(c.stack), c);
    std::sort(by_caller.begin(), by_caller.end());
    std::vector<state_space::config> group;
    for (std::size_t i = 0; i < by_caller.size();) {
        const auto caller = by_caller[i].first;
        group.clear();
        for (; i < by_caller.size() && by_caller[i].first == caller; ++i) group.push_back(by_caller[i].second);
        add_group(group, caller, out);
    }
    if (space_.overflowed()) return false;
    make_room();
    masks_.emplace(s, out);
    return true;
}

/// The frame below the loops that the innermost rule is in.
std::uint32_t constraint::caller_of(std::uint32_t stack) const {
    while (space_.at(stack).count >= 0) stack = space_.at(stack).parent;
    return stack;
}

/// A turn that no token can bring near the loop's ends is as good as any other such turn.
std::int32_t constraint::usual_count(const automaton::loop& loop, std::int32_t count) const {
    const auto reach = static_cast<std::int32_t>(vocabulary_->longest()) + 1;
    const bool far_from_max = loop.max < 0 || loop.max - count > reach;
    if (!far_from_max) return count;
    if (count >= loop.min) return loop.min;
    return loop.min - count > reach ? 0 : count;
}

/// The loops of a stack on top of `base`.
std::uint32_t constraint::local_stack(std::uint32_t stack, std::uint32_t base) {
    const auto f = space_.at(stack);
    if (f.count < 0) return base;
    const auto below = local_stack(f.parent, base);
    return space_.push(f.link, usual_count(machine_.loops[f.link], f.count), below);
}

void constraint::add_group(std::span<const state_space::config> group, std::uint32_t caller, token_mask& out) {
    const bool leaves_rule = caller != state_space::bottom;
    const auto f = space_.at(caller);
    if (f.depth > limits::max_grammar_depth / 2) {
        // Near the limit of depth the place matters.
        const auto exact = space_.intern({group.begin(), group.end()});
        walk(0, vocabulary_->size(), exact, [&](std::uint32_t n, state) { allow(n, out); });
        return;
    }
    std::vector<state_space::config> alone;
    for (const auto& c : group)
        alone.push_back({c.node, local_stack(c.stack, leaves_rule ? state_space::local_bottom : state_space::bottom)});
    std::sort(alone.begin(), alone.end());
    alone.erase(std::unique(alone.begin(), alone.end()), alone.end());
    const auto& view = view_of(space_.intern(std::move(alone)), leaves_rule);
    out |= view.inside;
    if (!leaves_rule) return;
    const state after = space_.reach({f.link, f.parent});
    if (after == state_space::dead) return;
    for (const auto n : view.exits) {
        allow(n, out);
        walk_below(n, after, out);
    }
}

const constraint::local_view& constraint::view_of(state local, bool leaves_rule) {
    if (const auto known = views_.find(local); known != views_.end()) return known->second;
    local_view view{token_mask(vocabulary_->n_tokens()), {}};
    walk(0, vocabulary_->size(), local, [&](std::uint32_t n, state s) {
        if (!leaves_rule || space_.open(s)) allow(n, view.inside);
        if (leaves_rule && space_.accepting(s)) view.exits.push_back(n);
    });
    make_room();
    mask_bytes_ += view.exits.size() * sizeof(std::uint32_t);
    return views_.emplace(local, std::move(view)).first->second;
}

void constraint::walk_below(std::uint32_t node, state s, token_mask& out) {
    walk(node + 1, vocabulary_->end(node), s, [&](std::uint32_t n, state) { allow(n, out); });
}

/// Visits the nodes of [first, last) that `s` gets to; `first` is a child of the node `s` stands at.
template <class Visit> void constraint::walk(std::uint32_t first, std::uint32_t last, state s, Visit&& visit) {
    if (first >= last || s == state_space::dead) return;
    path_[vocabulary_->depth(first) - 1] = s;
    for (auto n = first; n < last;) {
        const auto depth = vocabulary_->depth(n);
        const state to = space_.next(path_[depth - 1], vocabulary_->byte(n));
        if (to == state_space::dead) {
            if (space_.overflowed()) return;
            n = vocabulary_->end(n);
            continue;
        }
        path_[depth] = to;
        visit(n, to);
        ++n;
    }
}

void constraint::allow(std::uint32_t node, token_mask& out) const {
    for (const auto id : vocabulary_->tokens(node)) out.set(static_cast<std::size_t>(id));
}

// -- cursor -----------------------------------------------------------------------------------------------------------

result<state_space::state> constraint_cursor::locate() {
    auto& space = grammar_->space_;
    for (int tries = 0; epoch_ != grammar_->epoch_; ++tries) {
        if (tries == 2) return stuck("the grammar is too ambiguous for this text");
        epoch_ = grammar_->epoch_;
        state_ = space.start();
        for (const char c : text_) state_ = space.next(state_, static_cast<std::uint8_t>(c));
        if (space.overflowed()) grammar_->forget();
    }
    return state_;
}

result<void> constraint_cursor::mask(token_mask& out) {
    const std::lock_guard lock(grammar_->mutex_);
    for (int tries = 0; tries < 2; ++tries) {
        TROUPE_TRY(const auto s, locate());
        if (grammar_->mask(s, out)) return {};
        grammar_->forget();
    }
    return stuck("the grammar is too ambiguous for this text");
}

result<void> constraint_cursor::accept(std::string_view bytes) {
    const std::lock_guard lock(grammar_->mutex_);
    for (int tries = 0; tries < 2; ++tries) {
        TROUPE_TRY(auto s, locate());
        for (const char c : bytes) s = grammar_->space_.next(s, static_cast<std::uint8_t>(c));
        if (grammar_->space_.overflowed()) {
            grammar_->forget();
            continue;
        }
        if (s == state_space::dead) return stuck("the grammar does not allow this token here");
        text_ += bytes;
        state_ = s;
        return {};
    }
    return stuck("the grammar is too ambiguous for this text");
}

result<void> constraint_cursor::accept(token_id id) {
    const auto bytes = grammar_->vocabulary_->piece(id);
    if (bytes.empty()) return stuck("the grammar does not allow this token here");
    return accept(bytes);
}

result<bool> constraint_cursor::accepting() {
    const std::lock_guard lock(grammar_->mutex_);
    TROUPE_TRY(const auto s, locate());
    return grammar_->space_.accepting(s);
}

}  // namespace troupe::model
