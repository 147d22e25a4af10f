// The merge loop both tokenizer families share: of all neighbouring pairs that make a token the best one is joined, the
// leftmost first among equals, until none is left. Internal to tokenizers/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "model/tokenizers/tokenizer.hpp"

namespace troupe::model {

/// A stretch of the text being tokenized; id -1: it is no token.
struct symbol {
    std::uint32_t begin = 0;
    std::uint32_t length = 0;
    token_id id = -1;
};

/// What a pair of symbols makes. Lower ranks merge first.
struct merge_target {
    static constexpr std::uint32_t never = std::numeric_limits<std::uint32_t>::max();
    std::uint32_t rank = never;
    token_id id = -1;
};

/// Buffers that survive from one piece of text to the next.
struct merge_scratch {
    struct queued {
        std::uint32_t rank;
        std::uint32_t left;    ///< index of the left symbol
        std::uint32_t length;  ///< of both together: tells whether either has changed since
        token_id id;
        /// std heaps keep the largest in front, so "less" is "merges later".
        bool operator<(const queued& other) const { return rank != other.rank ? rank > other.rank : left > other.left; }
    };
    std::vector<symbol> symbols;
    std::vector<merge_target> targets;
    std::vector<queued> heap;
    std::vector<std::int32_t> previous;
    std::vector<std::int32_t> next;
};

/// For a word: scanning a few pairs is faster than keeping a heap.
template <class Target> void merge_short(merge_scratch& scratch, const Target& target_of) {
    auto& symbols = scratch.symbols;
    auto& targets = scratch.targets;  // targets[i]: what symbols i and i + 1 make
    targets.clear();
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) targets.push_back(target_of(symbols[i], symbols[i + 1]));
    while (!targets.empty()) {
        const auto best = std::min_element(
            targets.begin(), targets.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
        if (best->rank == merge_target::never) break;
        const auto i = static_cast<std::size_t>(best - targets.begin());
        symbols[i].length += symbols[i + 1].length;
        symbols[i].id = best->id;
        symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        targets.erase(best);
        if (i > 0) targets[i - 1] = target_of(symbols[i - 1], symbols[i]);
        if (i < targets.size()) targets[i] = target_of(symbols[i], symbols[i + 1]);
    }
}

/// For text of any length: a linked list of symbols and a heap of pairs, n log n.
template <class Target> void merge_long(merge_scratch& scratch, const Target& target_of) {
    auto& symbols = scratch.symbols;
    const auto n = static_cast<std::int32_t>(symbols.size());
    auto& previous = scratch.previous;
    auto& next = scratch.next;
    previous.resize(symbols.size());
    next.resize(symbols.size());
    scratch.heap.clear();
    const auto target_at = [&](std::int32_t left) {
        const auto& a = symbols[static_cast<std::size_t>(left)];
        const auto& b = symbols[static_cast<std::size_t>(next[static_cast<std::size_t>(left)])];
        const auto target = target_of(a, b);
        return merge_scratch::queued{target.rank, static_cast<std::uint32_t>(left), a.length + b.length, target.id};
    };
    for (std::int32_t i = 0; i < n; ++i) {
        previous[static_cast<std::size_t>(i)] = i - 1;
        next[static_cast<std::size_t>(i)] = i + 1 < n ? i + 1 : -1;
    }
    for (std::int32_t i = 0; i + 1 < n; ++i)
        if (const auto pair = target_at(i); pair.rank != merge_target::never) scratch.heap.push_back(pair);
    std::make_heap(scratch.heap.begin(), scratch.heap.end());
    const auto enqueue = [&](std::int32_t left) {
        if (left < 0 || next[static_cast<std::size_t>(left)] < 0) return;
        const auto pair = target_at(left);
        if (pair.rank == merge_target::never) return;
        scratch.heap.push_back(pair);
        std::push_heap(scratch.heap.begin(), scratch.heap.end());
    };
    while (!scratch.heap.empty()) {
        std::pop_heap(scratch.heap.begin(), scratch.heap.end());
        const auto pair = scratch.heap.back();
        scratch.heap.pop_back();
        const auto left = pair.left;
        const auto right = next[left];
        if (symbols[left].length == 0 || right < 0) continue;
        auto& absorbed = symbols[static_cast<std::size_t>(right)];
        if (symbols[left].length + absorbed.length != pair.length) continue;
        symbols[left].length = pair.length;
        symbols[left].id = pair.id;
        absorbed.length = 0;
        next[left] = next[static_cast<std::size_t>(right)];
        if (next[left] >= 0) previous[static_cast<std::size_t>(next[left])] = static_cast<std::int32_t>(left);
        enqueue(previous[left]);
        enqueue(static_cast<std::int32_t>(left));
    }
    std::erase_if(symbols, [](const symbol& s) { return s.length == 0; });
}

/// Merges scratch.symbols in place. target_of(left, right) tells what two neighbours make.
template <class Target> void merge_symbols(merge_scratch& scratch, const Target& target_of) {
    constexpr std::size_t short_enough = 32;
    if (scratch.symbols.size() <= short_enough) {
        merge_short(scratch, target_of);
    } else {
        merge_long(scratch, target_of);
    }
}

}  // namespace troupe::model
