// Replays the fuzz entry of requests over tests/data/requests: whole, cut at every length and with bits flipped.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" int request_fuzz_input(const std::uint8_t* data, std::size_t size);

namespace troupe::net {
namespace {

/// A copy of exactly the input's size on the heap, so that the address sanitizer sees reads past its end.
void replay(const std::string& text, std::size_t size) {
    const std::vector<std::uint8_t> exact(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(size));
    request_fuzz_input(exact.data(), exact.size());
}

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
    for (const auto& text : texts)
        for (std::size_t size = 0; size <= text.size(); ++size) replay(text, size);
}

TEST(request_fuzz, every_bit_flipped) {
    for (auto text : seeds())
        for (auto& c : text)
            for (int bit = 0; bit < 8; ++bit) {
                c = static_cast<char>(c ^ (1 << bit));
                replay(text, text.size());
                c = static_cast<char>(c ^ (1 << bit));
            }
}

}  // namespace
}  // namespace troupe::net
