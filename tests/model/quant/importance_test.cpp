// Both formats of importance matrices, and files that are not what they say.
#include "model/quant/importance.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/model/quant/quant_support.hpp"

namespace troupe::model {
namespace {

using troupe::testing::gguf_builder;

template <class T> void put(std::vector<std::byte>& out, T value) {
    const auto* p = reinterpret_cast<const std::byte*>(&value);
    out.insert(out.end(), p, p + sizeof value);
}
void put(std::vector<std::byte>& out, const std::string& text) {
    put(out, static_cast<std::int32_t>(text.size()));
    for (const char c : text) out.push_back(static_cast<std::byte>(c));
}

/// Two entries in the old format: sums over 4 calls.
std::vector<std::byte> old_file() {
    std::vector<std::byte> out;
    put(out, std::int32_t{2});
    for (const std::string name : {"a.weight", "b.weight"}) {
        put(out, name);
        put(out, std::int32_t{4});
        put(out, std::int32_t{3});
        for (const float v : {4.0f, 8.0f, name[0] == 'a' ? 2.0f : 0.0f}) put(out, v);
    }
    put(out, std::int32_t{17});
    put(out, std::string("prose.txt"));
    return out;
}

/// A GGUF with experts x cols sums and their counts.
std::vector<std::byte> new_file(const std::vector<float>& sums, const std::vector<float>& counts) {
    gguf_builder w;
    w.set("general.type", "imatrix").set("imatrix.chunk_count", 5u);
    w.set_array("imatrix.datasets", std::vector<std::string>{"prose.txt"});
    // Data comes in the order of the tensors, each padded to 32 bytes.
    w.tensor("a.weight.in_sum2", {sums.size() / counts.size(), counts.size()}, 0, 4 * sums.size());
    w.tensor("a.weight.counts", {1, counts.size()}, 0, 4 * counts.size());
    auto bytes = w.bytes();
    const auto padded = [](std::size_t n) { return (4 * n + 31) / 32 * 32; };
    std::byte* data = bytes.data() + bytes.size() - padded(sums.size()) - padded(counts.size());
    std::memcpy(data, sums.data(), 4 * sums.size());
    std::memcpy(data + padded(sums.size()), counts.data(), 4 * counts.size());
    return bytes;
}

void expect_refused(const std::vector<std::byte>& bytes, const std::string& part) {
    const auto m = parse_importance(bytes);
    ASSERT_FALSE(m.ok()) << part;
    EXPECT_EQ(m.error().code, errc::model_malformed);
    EXPECT_NE(m.error().message.find(part), std::string::npos) << m.error().message;
}

TEST(importance, the_old_format) {
    const auto m = parse_importance(old_file());
    ASSERT_TRUE(m.ok()) << m.error().message;
    EXPECT_EQ(m->entries.size(), 2u);
    EXPECT_EQ(m->entries.at("a.weight"), (std::vector<float>{1.0f, 2.0f, 0.5f}));
    EXPECT_EQ(m->entries.at("b.weight"), (std::vector<float>{1.0f, 2.0f, 0.0f}));
    EXPECT_EQ(m->chunks, 17u);
    EXPECT_EQ(m->dataset, "prose.txt");
    EXPECT_TRUE(m->find("c.weight").empty());
}

TEST(importance, the_gguf_format_divides_by_the_counts_of_each_expert) {
    const auto m = parse_importance(new_file({4, 8, 12, 3, 6, 9, 5, 5, 5}, {4, 3, 0}));
    ASSERT_TRUE(m.ok()) << m.error().message;
    EXPECT_EQ(m->entries.at("a.weight"), (std::vector<float>{1, 2, 3, 1, 2, 3, 1, 1, 1}))
        << "an unused expert: all alike";
    EXPECT_EQ(m->chunks, 5u);
    EXPECT_EQ(m->dataset, "prose.txt");
}

TEST(importance, an_old_file_cut_anywhere_is_refused_or_lacks_only_its_ending) {
    const auto whole = old_file();
    const std::size_t entries_end = whole.size() - 4 - 4 - 9;
    for (std::size_t n = 0; n < whole.size(); ++n) {
        const auto m = parse_importance({whole.data(), n});
        const bool complete = n == entries_end || n == entries_end + 4;
        EXPECT_EQ(m.ok(), complete) << n;
    }
}

TEST(importance, hostile_lengths_and_values) {
    std::vector<std::byte> huge;
    put(huge, std::int32_t{1});
    put(huge, std::string("a"));
    put(huge, std::int32_t{1});
    put(huge, std::int32_t{0x7fffffff});
    expect_refused(huge, "ends too early");
    std::vector<std::byte> negative;
    put(negative, std::int32_t{-5});
    expect_refused(negative, "a length of -5");
    expect_refused(new_file({1, NAN, 1}, {1}), "no mean square");
    expect_refused(new_file({1, -1, 1}, {1}), "no mean square");
    expect_refused(new_file({INFINITY, 2}, {1}), "no mean square");
    gguf_builder model;
    model.set("general.type", "model");
    expect_refused(model.bytes(), "is a 'model'");
    expect_refused(gguf_builder().bytes(), "no '*.in_sum2' tensor");
    gguf_builder half;
    half.tensor("a.in_sum2", {8}, 0, 32);
    expect_refused(half.bytes(), "no counts for 'a'");
}

}  // namespace
}  // namespace troupe::model
