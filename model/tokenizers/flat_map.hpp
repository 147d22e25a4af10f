// Two open-addressing tables built once at load and then only read: from 64-bit keys, and from strings to token ids.
// Internal to tokenizers/.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace troupe::model {

/// Spreads the bits of `key` (a multiply and a fold of the 128-bit product).
inline std::uint64_t mix(std::uint64_t key) {
    const auto product = static_cast<unsigned __int128>(key ^ 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

inline std::uint64_t hash_bytes(std::string_view bytes) {
    std::uint64_t hash = bytes.size();
    std::size_t at = 0;
    for (std::uint64_t word; at + 8 <= bytes.size(); at += 8) {
        std::memcpy(&word, bytes.data() + at, 8);
        hash = mix(hash ^ word);
    }
    std::uint64_t tail = 0;
    for (unsigned shift = 0; at < bytes.size(); ++at, shift += 8)
        tail |= static_cast<std::uint64_t>(static_cast<std::uint8_t>(bytes[at])) << shift;
    return mix(hash ^ tail ^ 0xa0761d6478bd642fu);
}

/// Keys are anything but all ones.
template <class Value> class flat_map {
 public:
    explicit flat_map(std::size_t capacity = 0) : slots_(std::bit_ceil(capacity * 2 + 2)) {}

    /// False if the key was there before; its value stays.
    bool insert(std::uint64_t key, Value value) {
        if ((used_ + 1) * 2 > slots_.size()) grow();
        const auto mask = slots_.size() - 1;
        for (auto i = mix(key) & mask;; i = (i + 1) & mask) {
            if (slots_[i].key == key) return false;
            if (slots_[i].key != no_key) continue;
            slots_[i] = {key, value};
            ++used_;
            return true;
        }
    }

    const Value* find(std::uint64_t key) const {
        const auto mask = slots_.size() - 1;
        for (auto i = mix(key) & mask;; i = (i + 1) & mask) {
            if (slots_[i].key == key) return &slots_[i].value;
            if (slots_[i].key == no_key) return nullptr;
        }
    }

 private:
    static constexpr std::uint64_t no_key = ~std::uint64_t{0};
    struct slot {
        std::uint64_t key = no_key;
        Value value{};
    };

    void grow() {
        flat_map wider(slots_.size());
        for (const auto& entry : slots_)
            if (entry.key != no_key) wider.insert(entry.key, entry.value);
        *this = std::move(wider);
    }

    std::vector<slot> slots_;
    std::size_t used_ = 0;
};

/// Holds as many strings as it was made for. They are not copied: they must outlive the table.
class string_index {
 public:
    explicit string_index(std::size_t capacity = 0) : slots_(std::bit_ceil(capacity * 2 + 2)) {}

    /// Of equal strings the last one stays.
    void insert(std::string_view text, std::int32_t id) {
        const auto hash = hash_bytes(text);
        auto i = hash & (slots_.size() - 1);
        while (slots_[i].id >= 0 && !(slots_[i].check == check_of(hash) && slots_[i].text == text))
            i = (i + 1) & (slots_.size() - 1);
        slots_[i] = {text, id, check_of(hash)};
    }

    /// -1: not there.
    std::int32_t find(std::string_view text) const {
        const auto hash = hash_bytes(text);
        for (auto i = hash & (slots_.size() - 1);; i = (i + 1) & (slots_.size() - 1)) {
            if (slots_[i].id < 0) return -1;
            if (slots_[i].check == check_of(hash) && slots_[i].text == text) return slots_[i].id;
        }
    }

 private:
    static std::uint32_t check_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 32); }
    struct slot {
        std::string_view text;
        std::int32_t id = -1;
        std::uint32_t check = 0;
    };
    std::vector<slot> slots_;
};

}  // namespace troupe::model
