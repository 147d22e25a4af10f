// Replays a fuzz entry over what can be made of one seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace troupe::fuzz {

using entry = int(const std::uint8_t* data, std::size_t size);

/// The first `size` bytes, as a copy of exactly that size on the heap: the address sanitizer sees reads past its end.
inline void replay(entry run, const std::string& seed, std::size_t size) {
    const std::vector<std::uint8_t> exact(seed.begin(), seed.begin() + static_cast<std::ptrdiff_t>(size));
    run(exact.data(), exact.size());
}

inline void cut_at_every_length(entry run, const std::string& seed) {
    for (std::size_t size = 0; size <= seed.size(); ++size) replay(run, seed, size);
}

inline void flip_every_bit(entry run, std::string seed) {
    for (auto& c : seed) {
        for (int bit = 0; bit < 8; ++bit) {
            c = static_cast<char>(c ^ (1 << bit));
            replay(run, seed, seed.size());
            c = static_cast<char>(c ^ (1 << bit));
        }
    }
}

}  // namespace troupe::fuzz
