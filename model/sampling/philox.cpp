// Philox4x32-10 and the uniform draw made of it.
#include "model/sampling/philox.hpp"

#include "model/sampling/sampler.hpp"

namespace troupe::model {

std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
    constexpr std::uint64_t multiplier_0 = 0xD2511F53, multiplier_1 = 0xCD9E8D57;
    constexpr std::uint32_t weyl_0 = 0x9E3779B9, weyl_1 = 0xBB67AE85;  // golden ratio, sqrt(3) - 1
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t a = multiplier_0 * counter[0], b = multiplier_1 * counter[2];
        counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
            static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
        key = {key[0] + weyl_0, key[1] + weyl_1};
    }
    return counter;
}

float uniform(std::uint64_t seed, std::uint32_t choice, std::uint64_t position, std::uint32_t draw) {
    const auto words =
        philox4x32_10({static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32), choice, draw},
            {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
    return static_cast<float>(words[0] >> 8) * 0x1p-24f;  // 24 bits: every value is exact and below 1
}

}  // namespace troupe::model
