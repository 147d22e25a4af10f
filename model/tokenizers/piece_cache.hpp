// Remembers the ids of pieces seen before in the same text: words repeat, and looking one up is cheaper than merging
// it. Lives as long as one encode() of a long text. Internal to tokenizers/.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "model/tokenizers/flat_map.hpp"
#include "model/tokenizers/tokenizer.hpp"

namespace troupe::model {

class piece_cache {
 public:
    /// Short texts get no cache: it would cost more than it saves.
    explicit piece_cache(std::size_t text_bytes) : entries_(text_bytes < worthwhile_bytes ? 0 : n_entries) {}

    /// Appends the ids of `piece` (not empty): those remembered, or those that merge(piece, out) appends.
    template <class Merge> void append(std::string_view piece, std::vector<token_id>& out, const Merge& merge) {
        if (entries_.empty() || piece.size() > longest_piece) return merge(piece, out);
        auto& slot = entries_[hash_bytes(piece) % n_entries];
        if (slot.text() == piece) {
            out.insert(out.end(), slot.ids.begin(), slot.ids.begin() + slot.count);
            return;
        }
        const auto before = out.size();
        merge(piece, out);
        const auto count = out.size() - before;
        if (count > slot.ids.size()) return;
        slot.length = static_cast<std::uint8_t>(piece.size());
        slot.count = static_cast<std::uint8_t>(count);
        std::memcpy(slot.bytes.data(), piece.data(), piece.size());
        std::copy(out.begin() + static_cast<std::ptrdiff_t>(before), out.end(), slot.ids.begin());
    }

 private:
    static constexpr std::size_t worthwhile_bytes = 4096;
    static constexpr std::size_t n_entries = 4096;
    static constexpr std::size_t longest_piece = 34;

    /// One cache line: a hit touches nothing else.
    struct alignas(64) entry {
        std::array<char, longest_piece> bytes{};
        std::uint8_t length = 0;  ///< 0: free
        std::uint8_t count = 0;
        std::array<token_id, 7> ids{};
        std::string_view text() const { return {bytes.data(), length}; }
    };
    static_assert(sizeof(entry) == 64);
    std::vector<entry> entries_;
};

}  // namespace troupe::model
