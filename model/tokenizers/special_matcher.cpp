// A trie finds the longest candidate at each position; candidates are then taken by length from the longest down, and
// one that collides with a longer match is replaced by the next shorter candidate at its position.
#include "model/tokenizers/special_matcher.hpp"

#include <algorithm>

namespace troupe::model {

special_matcher::special_matcher(std::span<const special_token> tokens) : nodes_(1) {
    std::size_t bytes = 0;
    for (const auto& token : tokens) bytes += token.text.size();
    edges_ = flat_map<std::uint32_t>(bytes);
    for (const auto& token : tokens) {
        if (token.text.empty()) continue;
        auto& root = roots_[static_cast<std::uint8_t>(token.text[0])];
        if (root == 0) {
            root = static_cast<std::uint32_t>(nodes_.size());
            nodes_.emplace_back();
        }
        std::uint32_t at = root;
        for (const char c : token.text.substr(1)) {
            const auto next = static_cast<std::uint32_t>(nodes_.size());
            const auto key = static_cast<std::uint64_t>(at) << 8 | static_cast<std::uint8_t>(c);
            if (edges_.insert(key, next)) nodes_.emplace_back();
            at = *edges_.find(key);
        }
        // Of equal texts the first id stays.
        if (nodes_[at].id < 0) nodes_[at] = {token.id, token.trusted_only};
        longest_ = std::max(longest_, static_cast<std::uint32_t>(token.text.size()));
    }
}

special_matcher::found_token special_matcher::longest(
    std::string_view text, std::size_t position, std::size_t trusted_end, std::uint32_t below) const {
    found_token best;
    std::uint32_t at = roots_[static_cast<std::uint8_t>(text[position])];
    const std::size_t limit = std::min<std::size_t>(text.size() - position, below - 1);
    for (std::uint32_t length = 1; at != 0 && length <= limit; ++length) {
        const node& here = nodes_[at];
        if (here.id >= 0 && (!here.trusted_only || position + length <= trusted_end)) best = {here.id, length};
        if (length == limit) break;
        const auto* next =
            edges_.find(static_cast<std::uint64_t>(at) << 8 | static_cast<std::uint8_t>(text[position + length]));
        at = next ? *next : 0;
    }
    return best;
}

/// The state of one find().
struct special_matcher::scan {
    const special_matcher& matcher;
    std::string_view text;
    std::span<const text_stretch> stretches;
    std::vector<std::vector<candidate>> by_length;
    std::vector<special_match> matches;
    std::vector<bool> taken;

    /// End of the trusted stretch that holds `position`; 0 where text is not trusted.
    std::size_t trusted_end(std::size_t position) const {
        const auto* stretch = std::upper_bound(stretches.data(), stretches.data() + stretches.size(), position,
            [](std::size_t p, const text_stretch& s) { return p < s.end; });
        return stretch->trusted ? stretch->end : 0;
    }

    void add(std::size_t position, std::uint32_t below) {
        const auto token = matcher.longest(text, position, trusted_end(position), below);
        if (token.id < 0) return;
        if (by_length.size() <= token.length) by_length.resize(token.length + 1);
        by_length[token.length].push_back({static_cast<std::uint32_t>(position), token.id});
    }

    void settle(std::uint32_t length) {
        // Shorter candidates may be added while this runs, never to this bucket.
        auto bucket = std::move(by_length[length]);
        std::sort(bucket.begin(), bucket.end(), [](const candidate& a, const candidate& b) {
            return a.id != b.id ? a.id < b.id : a.position < b.position;
        });
        for (const auto& [position, id] : bucket) {
            if (taken[position]) continue;
            // Matches taken so far are no shorter, so one that overlaps from the right covers the last byte.
            if (taken[position + length - 1]) {
                add(position, length);
                continue;
            }
            std::fill_n(taken.begin() + position, length, true);
            matches.push_back({position, position + length, id});
        }
    }
};

std::vector<special_match> special_matcher::find(std::string_view text, std::span<const text_stretch> stretches) const {
    scan state{*this, text, stretches, {}, {}, {}};
    for (std::size_t position = 0; position < text.size(); ++position)
        if (roots_[static_cast<std::uint8_t>(text[position])] != 0) state.add(position, longest_ + 1);
    if (state.by_length.empty()) return {};
    state.taken.resize(text.size());
    for (auto length = static_cast<std::uint32_t>(state.by_length.size()); --length > 0;) state.settle(length);
    std::sort(state.matches.begin(), state.matches.end(),
        [](const special_match& a, const special_match& b) { return a.begin < b.begin; });
    return std::move(state.matches);
}

}  // namespace troupe::model
