// Closures: everything that can be reached without reading a byte.
#include "model/grammar/state_space.hpp"

#include <algorithm>

#include "core/limits.hpp"

namespace troupe::model {
namespace {

using op = automaton::op;

std::size_t mix(std::size_t h, std::uint64_t x) {
    x += 0x9E3779B97F4A7C15 + h;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    return static_cast<std::size_t>(x ^ (x >> 29));
}

constexpr std::size_t index_cost = 40;  ///< bytes of a hash set's entry

}  // namespace

std::size_t state_space::frame_hash::operator()(std::uint32_t i) const {
    const auto& f = (*frames)[i];
    return mix(mix(f.link, static_cast<std::uint32_t>(f.count)), f.parent);
}

std::size_t state_space::state_hash::operator()(state s) const {
    std::size_t h = space->states_[s].accepting;
    for (const auto& c : space->configs(s)) h = mix(mix(h, c.node), c.stack);
    return h;
}

bool state_space::state_equal::operator()(state a, state b) const {
    const auto x = space->configs(a), y = space->configs(b);
    return space->accepting(a) == space->accepting(b) && std::equal(x.begin(), x.end(), y.begin(), y.end());
}

state_space::state_space(const automaton& machine)
    : machine_(machine), n_classes_(machine.byte_of_class.size()),
      frame_index_(16, frame_hash{&frames_}, frame_equal{&frames_}),
      state_index_(16, state_hash{this}, state_equal{this}) {
    clear();
}

void state_space::clear() {
    frame_index_.clear();
    state_index_.clear();
    // What a hostile grammar grew is given back.
    frames_ = {frame{0, -1, 0, 0}, frame{1, -1, 1, limits::max_grammar_depth / 2}};
    configs_ = {};
    states_ = {};
    rows_ = {};
    overflowed_ = false;
    found_.clear();
    intern_pending(false);  // the dead state is number 0
    start_ = reach({machine_.start, bottom});
}

std::size_t state_space::bytes() const {
    return frames_.size() * (sizeof(frame) + index_cost) + configs_.size() * sizeof(config) +
           states_.size() * (sizeof(entry) + index_cost) + rows_.size() * sizeof(state);
}

std::uint32_t state_space::push(std::uint32_t link, std::int32_t count, std::uint32_t parent) {
    const frame f{link, count, parent, frames_[parent].depth + 1};
    if (f.depth > limits::max_grammar_depth) return bottom;
    frames_.push_back(f);
    const auto [it, fresh] = frame_index_.insert(static_cast<std::uint32_t>(frames_.size() - 1));
    if (!fresh) frames_.pop_back();
    return *it;
}

state_space::state state_space::reach(config c) {
    todo_.push_back(c);
    return close();
}

state_space::state state_space::intern(std::vector<config> configs) {
    found_ = std::move(configs);
    return intern_pending(false);
}

state_space::state state_space::compute(state s, std::uint8_t byte_class) {
    const auto byte = machine_.byte_of_class[byte_class];
    for (const auto& c : configs(s)) {
        const auto& n = machine_.nodes[c.node];
        for (auto e = n.a; e < n.b; ++e)
            if (machine_.edges[e].lo <= byte && byte <= machine_.edges[e].hi)
                todo_.push_back({machine_.edges[e].to, c.stack});
    }
    const state to = todo_.empty() ? dead : close();
    rows_[s * n_classes_ + byte_class] = to;
    return to;
}

void state_space::visit(config c) {
    const auto& n = machine_.nodes[c.node];
    switch (n.what) {
    case op::bytes:
        found_.push_back(c);
        break;
    case op::split:
        for (auto t = n.a; t < n.b; ++t) todo_.push_back({machine_.targets[t], c.stack});
        break;
    case op::call: {
        const auto stack = n.b == automaton::end_node ? c.stack : push(n.b, -1, c.stack);
        if (n.b == automaton::end_node || stack != bottom) todo_.push_back({n.a, stack});
        break;
    }
    case op::enter: {
        const auto& loop = machine_.loops[n.a];
        if (const auto stack = push(n.a, 0, c.stack); stack != bottom) todo_.push_back({loop.body, stack});
        if (loop.min == 0) todo_.push_back({loop.after, c.stack});
        break;
    }
    case op::again:
        end_of_turn(c);
        break;
    case op::end:
        end_of_rule(c);
        break;
    }
}

void state_space::end_of_rule(config c) {
    if (c.stack == bottom || c.stack == local_bottom) {
        accepts_ = true;
        return;
    }
    const auto f = frames_[c.stack];
    todo_.push_back({f.link, f.parent});
}

void state_space::end_of_turn(config c) {
    const auto f = frames_[c.stack];
    const auto& loop = machine_.loops[f.link];
    // Without an upper end, turns beyond the least number are all alike.
    const auto count = loop.max < 0 ? std::min(f.count + 1, loop.min) : f.count + 1;
    if (loop.max < 0 || count < loop.max) todo_.push_back({loop.body, push(f.link, count, f.parent)});
    if (count >= loop.min) todo_.push_back({loop.after, f.parent});
}

state_space::state state_space::close() {
    seen_.clear();
    found_.clear();
    accepts_ = false;
    while (!todo_.empty()) {
        const auto c = todo_.back();
        todo_.pop_back();
        if (!seen_.insert(static_cast<std::uint64_t>(c.node) << 32 | c.stack).second) continue;
        if (seen_.size() > 64 * limits::max_grammar_threads || found_.size() > limits::max_grammar_threads) {
            overflowed_ = true;
            todo_.clear();
            return dead;
        }
        visit(c);
    }
    return intern_pending(accepts_);
}

state_space::state state_space::intern_pending(bool accepting) {
    if (bytes() > limits::grammar_cache_bytes) {
        overflowed_ = true;
        return dead;
    }
    std::sort(found_.begin(), found_.end());
    const auto first = static_cast<std::uint32_t>(configs_.size());
    configs_.insert(configs_.end(), found_.begin(), found_.end());
    states_.push_back({first, static_cast<std::uint32_t>(found_.size()), accepting});
    const auto [it, fresh] = state_index_.insert(static_cast<state>(states_.size() - 1));
    if (fresh) {
        rows_.resize(states_.size() * n_classes_, unknown);
    } else {
        states_.pop_back();
        configs_.resize(first);
    }
    return *it;
}

}  // namespace troupe::model
