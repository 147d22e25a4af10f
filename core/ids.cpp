#include "core/ids.hpp"

#include <array>
#include <cstdint>

#include <openssl/rand.h>

#include "core/check.hpp"
#include "core/clock.hpp"
#include "core/limits.hpp"

namespace troupe {

unsigned long long random_u64() {
    unsigned long long x = 0;
    CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(&x), sizeof x) == 1, "the system has no randomness");
    return x;
}

std::string make_id(std::string_view prefix) {
    std::array<std::uint8_t, 16> uuid;
    CHECK(RAND_bytes(uuid.data(), uuid.size()) == 1, "the system has no randomness");
    const auto ms = static_cast<std::uint64_t>(unix_ms());
    for (int i = 0; i < 6; ++i) uuid[i] = static_cast<std::uint8_t>(ms >> (40 - 8 * i));
    uuid[6] = static_cast<std::uint8_t>(0x70 | (uuid[6] & 0x0f));
    uuid[8] = static_cast<std::uint8_t>(0x80 | (uuid[8] & 0x3f));

    // Crockford's alphabet is in ASCII order, so that the text sorts as the bytes do.
    static constexpr char alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";
    std::string text(prefix);
    unsigned buffer = 0;
    int bits = 0;
    for (const auto byte : uuid) {
        buffer = buffer << 8 | byte;
        for (bits += 8; bits >= 5; bits -= 5) text += alphabet[buffer >> (bits - 5) & 31];
    }
    text += alphabet[buffer << (5 - bits) & 31];
    return text;
}

bool is_client_id(std::string_view id) {
    if (id.empty() || id.size() > limits::max_client_id) return false;
    for (const char c : id)
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-'))
            return false;
    return true;
}

}  // namespace troupe
