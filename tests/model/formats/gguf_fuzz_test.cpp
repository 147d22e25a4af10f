// Replays the fuzz entry over a corpus made here: a small valid file cut at every length, with every bit flipped, and
// with every 8 bytes set to extreme values.
#include <gtest/gtest.h>

#include "tests/fuzz/replay.hpp"
#include "tests/support/gguf_builder.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace troupe::model {

namespace {

std::string small_file() {
    troupe::testing::gguf_builder w;
    w.set("general.architecture", "llama").set("general.alignment", std::uint32_t{32}).set("x.count", std::uint32_t{2});
    w.set("x.flag", true).set("x.scale", 0.5F);
    w.set_array("x.words", std::vector<std::string>{"a", "", "bc"})
        .set_array("x.types", std::vector<std::int32_t>{1, 3, 6});
    w.tensor("token_embd.weight", {32, 2}, 8, 68).tensor("norm.weight", {4}, 0, 16);
    const auto bytes = w.bytes();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(gguf_fuzz, cut_at_every_length) { fuzz::cut_at_every_length(LLVMFuzzerTestOneInput, small_file()); }

TEST(gguf_fuzz, every_bit_flipped) { fuzz::flip_every_bit(LLVMFuzzerTestOneInput, small_file()); }

TEST(gguf_fuzz, extreme_values_everywhere) {
    const auto bytes = small_file();
    for (const std::uint64_t value : {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{1} << 63,
             std::uint64_t{1} << 32, (std::uint64_t{1} << 61) + 1, std::uint64_t{0x7fffffff}}) {
        for (std::size_t at = 0; at + sizeof value <= bytes.size(); ++at) {
            auto changed = bytes;
            std::memcpy(changed.data() + at, &value, sizeof value);
            fuzz::replay(LLVMFuzzerTestOneInput, changed, changed.size());
        }
    }
}

}  // namespace

}  // namespace troupe::model
