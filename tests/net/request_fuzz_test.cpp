// Replays the fuzz entry of requests over tests/data/requests: whole, cut at every length and with bits flipped.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/fuzz/replay.hpp"

extern "C" int request_fuzz_input(const std::uint8_t* data, std::size_t size);

namespace troupe::net {
namespace {

std::vector<std::string> seeds() {
    const char* root = std::getenv("TROUPE_SOURCE_DIR");
    if (root == nullptr) throw std::runtime_error("TROUPE_SOURCE_DIR is not set; run the tests through ctest");
    std::vector<std::string> texts;
    for (const auto& entry : std::filesystem::directory_iterator(std::string(root) + "/tests/data/requests")) {
        std::ifstream in(entry.path(), std::ios::binary);
        texts.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    }
    return texts;
}

TEST(request_fuzz, cut_at_every_length) {
    const auto texts = seeds();
    ASSERT_GE(texts.size(), 20u);
    for (const auto& text : texts) fuzz::cut_at_every_length(request_fuzz_input, text);
}

TEST(request_fuzz, every_bit_flipped) {
    for (const auto& text : seeds()) fuzz::flip_every_bit(request_fuzz_input, text);
}

}  // namespace
}  // namespace troupe::net
