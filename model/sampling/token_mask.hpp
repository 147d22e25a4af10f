// Which tokens of a vocabulary may come next: one bit each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace troupe::model {

class token_mask {
 public:
    token_mask() = default;
    explicit token_mask(std::size_t n_tokens) : words_((n_tokens + 63) / 64) {}

    bool test(std::size_t id) const { return (words_[id / 64] >> (id % 64) & 1) != 0; }
    void set(std::size_t id) { words_[id / 64] |= std::uint64_t{1} << (id % 64); }
    void assign(std::size_t id, bool on) {
        const auto bit = std::uint64_t{1} << (id % 64);
        words_[id / 64] = on ? words_[id / 64] | bit : words_[id / 64] & ~bit;
    }
    void clear() { std::fill(words_.begin(), words_.end(), 0); }
    bool any() const {
        return std::any_of(words_.begin(), words_.end(), [](std::uint64_t w) { return w != 0; });
    }
    void operator|=(const token_mask& other) {
        for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
    }
    /// Bit i of word w is token 64 * w + i.
    const std::vector<std::uint64_t>& words() const { return words_; }
    bool operator==(const token_mask&) const = default;

 private:
    std::vector<std::uint64_t> words_;
};

}  // namespace troupe::model
