// A grammar as a machine over bytes: nodes, byte edges, calls of rules and counted loops. Immutable; what it can do
// from some point on is found by state_space.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/result.hpp"
#include "model/grammar/gbnf.hpp"

namespace troupe::model {

struct automaton {
    enum class op : std::uint8_t {
        bytes,  ///< reads a byte: edges [a, b)
        split,  ///< goes on at each of targets [a, b) without reading
        call,   ///< runs from node a, then goes on at node b; b = end_node: in place of this rule's own end
        enter,  ///< begins loop a with count 0
        again,  ///< one turn of the innermost loop (which is a) is done
        end     ///< the rule is done: back to whoever called it
    };
    struct node {
        op what{};
        std::uint32_t a = 0, b = 0;
    };
    struct edge {
        std::uint8_t lo = 0, hi = 0;
        std::uint32_t to = 0;
    };
    struct loop {
        std::int32_t min = 0, max = -1;  ///< max -1: without end
        std::uint32_t body = 0, after = 0;
    };
    static constexpr std::uint32_t end_node = 0;

    std::vector<node> nodes;
    std::vector<edge> edges;
    std::vector<std::uint32_t> targets;
    std::vector<loop> loops;
    std::uint32_t start = 0;

    /// Bytes that no edge tells apart are one class.
    std::array<std::uint8_t, 256> class_of{};
    std::vector<std::uint8_t> byte_of_class;
};

/// invalid_request (param "grammar"): larger than limits::max_grammar_nodes.
result<automaton> build_automaton(const grammar& g);

}  // namespace troupe::model
