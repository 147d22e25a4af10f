// Replays the fuzz entry over a corpus made here: a small valid file cut at every length, with every bit flipped, and
// with every 8 bytes set to extreme values.
#include <gtest/gtest.h>

#include "tests/support/gguf_builder.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace troupe::model {

namespace {

/// A copy of exactly the input's size on the heap, so that the address sanitizer sees reads past its end.
void replay(const std::vector<std::byte>& bytes, std::size_t size) {
    const std::vector<std::byte> exact(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(exact.data()), exact.size());
}

std::vector<std::byte> small_file() {
    troupe::testing::gguf_builder w;
    w.set("general.architecture", "llama").set("general.alignment", std::uint32_t{32}).set("x.count", std::uint32_t{2});
    w.set("x.flag", true).set("x.scale", 0.5F);
    w.set_array("x.words", std::vector<std::string>{"a", "", "bc"})
        .set_array("x.types", std::vector<std::int32_t>{1, 3, 6});
    w.tensor("token_embd.weight", {32, 2}, 8, 68).tensor("norm.weight", {4}, 0, 16);
    return w.bytes();
}

TEST(gguf_fuzz, the_seed_is_valid) {
    const auto bytes = small_file();
    replay(bytes, bytes.size());
}

TEST(gguf_fuzz, cut_at_every_length) {
    const auto bytes = small_file();
    for (std::size_t size = 0; size <= bytes.size(); ++size) replay(bytes, size);
}

TEST(gguf_fuzz, every_bit_flipped) {
    auto bytes = small_file();
    for (auto& byte : bytes) {
        for (int bit = 0; bit < 8; ++bit) {
            const auto mask = std::byte{1} << bit;
            byte ^= mask;
            replay(bytes, bytes.size());
            byte ^= mask;
        }
    }
}

TEST(gguf_fuzz, extreme_values_everywhere) {
    const auto bytes = small_file();
    for (const std::uint64_t value : {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{1} << 63,
             std::uint64_t{1} << 32, (std::uint64_t{1} << 61) + 1, std::uint64_t{0x7fffffff}}) {
        for (std::size_t at = 0; at + sizeof value <= bytes.size(); ++at) {
            auto changed = bytes;
            std::memcpy(changed.data() + at, &value, sizeof value);
            replay(changed, changed.size());
        }
    }
}

}  // namespace

}  // namespace troupe::model
