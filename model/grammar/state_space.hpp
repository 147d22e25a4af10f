// The states an automaton goes through, found as they are needed and remembered: from then on a step is a table
// look-up.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

#include "model/grammar/automaton.hpp"

namespace troupe::model {

/// States are sets of (node, stack); stacks are shared lists of frames. Not thread-safe.
class state_space {
 public:
    using state = std::uint32_t;
    static constexpr state dead = 0;

    /// A rule's caller (count -1: link is the node to go on at) or a turn of a loop (link is the loop).
    struct frame {
        std::uint32_t link = 0;
        std::int32_t count = -1;
        std::uint32_t parent = 0;
        std::int32_t depth = 0;
        bool operator==(const frame&) const = default;
    };
    static constexpr std::uint32_t bottom = 0;        ///< the end of the root rule: the text is complete
    static constexpr std::uint32_t local_bottom = 1;  ///< the end of a rule looked at by itself
    struct config {
        std::uint32_t node = 0, stack = 0;
        auto operator<=>(const config&) const = default;
    };

    explicit state_space(const automaton& machine);

    state start() const { return start_; }
    state next(state s, std::uint8_t byte) {
        const state known = rows_[s * n_classes_ + machine_.class_of[byte]];
        return known != unknown ? known : compute(s, machine_.class_of[byte]);
    }
    /// The text may end here.
    bool accepting(state s) const { return states_[s].accepting; }
    /// Something may follow.
    bool open(state s) const { return states_[s].n > 0; }
    std::span<const config> configs(state s) const { return {configs_.data() + states_[s].first, states_[s].n}; }
    const frame& at(std::uint32_t stack) const { return frames_[stack]; }

    /// The state of going on at `node` with `stack`.
    state reach(config c);
    /// The state of exactly these configs, all of them at nodes that read bytes.
    state intern(std::vector<config> configs);
    /// A stack; 0 if it would be deeper than limits::max_grammar_depth.
    std::uint32_t push(std::uint32_t link, std::int32_t count, std::uint32_t parent);

    /// Memory or ambiguity went past its limit since the last clear(): what was computed since is not reliable.
    bool overflowed() const { return overflowed_; }
    std::size_t bytes() const;
    /// Forgets everything; states of before are void.
    void clear();

 private:
    static constexpr state unknown = 0xFFFFFFFF;
    struct entry {
        std::uint32_t first = 0, n = 0;
        bool accepting = false;
    };
    struct frame_hash {
        const std::vector<frame>* frames;
        std::size_t operator()(std::uint32_t i) const;
    };
    struct frame_equal {
        const std::vector<frame>* frames;
        bool operator()(std::uint32_t a, std::uint32_t b) const { return (*frames)[a] == (*frames)[b]; }
    };
    struct state_hash {
        const state_space* space;
        std::size_t operator()(state s) const;
    };
    struct state_equal {
        const state_space* space;
        bool operator()(state a, state b) const;
    };

    state compute(state s, std::uint8_t byte_class);
    void visit(config c);
    void end_of_rule(config c);
    void end_of_turn(config c);
    state close();
    state intern_pending(bool accepting);

    const automaton& machine_;
    std::size_t n_classes_;
    std::vector<frame> frames_;
    std::unordered_set<std::uint32_t, frame_hash, frame_equal> frame_index_;
    std::vector<config> configs_;
    std::vector<entry> states_;
    std::vector<state> rows_;
    std::unordered_set<state, state_hash, state_equal> state_index_;
    state start_ = dead;
    bool overflowed_ = false;

    // of one closure
    std::vector<config> todo_, found_;
    std::unordered_set<std::uint64_t> seen_;
    bool accepts_ = false;
};

}  // namespace troupe::model
