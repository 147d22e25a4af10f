// Hostile files, one test a class. Each fails with a typed error that says what is wrong, and none makes the parser
// allocate by a length the file merely claims.
#include <gtest/gtest.h>

#include <limits>

#include "model/formats/gguf.hpp"
#include "tests/support/gguf_builder.hpp"

namespace troupe::model {

namespace {

using troupe::testing::gguf_builder;
using troupe::testing::gguf_tag;

constexpr auto huge = std::numeric_limits<std::uint64_t>::max();

void expect_error(std::vector<std::byte> bytes, errc code, const std::string& part) {
    const auto file = gguf_file::parse(bytes);
    ASSERT_FALSE(file.ok()) << "accepted; expected: " << part;
    EXPECT_EQ(file.error().code, code) << file.error().message;
    EXPECT_NE(file.error().message.find(part), std::string::npos) << file.error().message;
}
void expect_malformed(const gguf_builder& w, const std::string& part) {
    expect_error(w.bytes(), errc::model_malformed, part);
}
void expect_unsupported(const gguf_builder& w, const std::string& part) {
    expect_error(w.bytes(), errc::model_unsupported, part);
}

gguf_builder with_tensor(std::initializer_list<std::uint64_t> shape, std::uint32_t type = 0, std::size_t bytes = 32) {
    gguf_builder w;
    w.tensor("bad.weight", shape, type, bytes);
    return w;
}

TEST(gguf_malformed, only_the_magic_number) {
    auto bytes = gguf_builder().bytes();
    bytes.resize(4);
    expect_error(bytes, errc::model_malformed, "ends inside the version");
}

TEST(gguf_malformed, no_bytes) { expect_error({}, errc::model_malformed, "ends inside the magic number"); }

TEST(gguf_malformed, wrong_magic) {
    gguf_builder w;
    w.magic = "GGML";
    expect_malformed(w, "does not begin with 'GGUF'");
}

TEST(gguf_malformed, versions_that_are_not_read) {
    gguf_builder w;
    for (const std::uint32_t version : {0u, 1u, 4u, 1000u}) {
        w.version = version;
        expect_unsupported(w, "version " + std::to_string(version) + "; this build reads versions 2 and 3");
    }
    w.version = 0x03000000;
    expect_unsupported(w, "big-endian");
}

TEST(gguf_malformed, a_dimension_of_zero) {
    expect_malformed(with_tensor({0}), "'bad.weight' has a dimension that is zero");
    expect_malformed(with_tensor({32, 0}), "'bad.weight' has a dimension that is zero");
}

TEST(gguf_malformed, a_dimension_beyond_63_bits) {
    expect_malformed(with_tensor({huge}), "zero or too large");
    expect_malformed(with_tensor({std::uint64_t{1} << 63}), "zero or too large");
}

TEST(gguf_malformed, dimensions_whose_product_wraps) {
    const auto dim = (std::uint64_t{1} << 42) + 1;
    expect_malformed(with_tensor({dim, dim}), "overflow when multiplied");
    expect_malformed(with_tensor({std::uint64_t{1} << 32, std::uint64_t{1} << 32}), "overflow when multiplied");
    expect_malformed(with_tensor({1u << 16, 1u << 16, 1u << 16, 1u << 16}), "overflow when multiplied");
}

TEST(gguf_malformed, a_size_in_bytes_that_wraps) {
    expect_malformed(with_tensor({std::uint64_t{1} << 62}), "size of tensor 'bad.weight' overflows");
    expect_malformed(with_tensor({std::uint64_t{1} << 61, 2}, 1), "size of tensor 'bad.weight' overflows");
}

TEST(gguf_malformed, a_tensor_longer_than_the_file) {
    expect_malformed(with_tensor({std::uint64_t{1} << 40}), "past the end of the file");
    expect_malformed(with_tensor({1000}), "past the end of the file");
}

TEST(gguf_malformed, an_offset_plus_size_that_wraps) {
    gguf_builder w;
    w.tensor("bad.weight", {8}, 0, 32, huge - 31);
    expect_malformed(w, "past the end of the file");
}

TEST(gguf_malformed, sizes_that_each_fit_but_not_together) {
    gguf_builder w;
    w.tensor("first", {16}, 0, 64, 0).tensor("second", {16}, 0, 32, 32);
    expect_malformed(w, "tensors 'first' and 'second' overlap");
}

TEST(gguf_malformed, an_offset_off_the_alignment) {
    gguf_builder w;
    w.tensor("bad.weight", {1}, 0, 64, 4);
    expect_malformed(w, "not a multiple of the alignment 32");
}

TEST(gguf_malformed, padding_that_reaches_past_the_end) {
    gguf_builder w;
    w.set("general.alignment", std::uint32_t{1} << 31);
    w.tensor("bad.weight", {1}, 0, 4, 0);
    expect_malformed(w, "ends before its tensor data");
}

TEST(gguf_malformed, more_tensors_than_the_file_can_hold) {
    for (const std::uint64_t claimed : {huge, std::uint64_t{1} << 60, std::uint64_t{1000}}) {
        gguf_builder w;
        w.claimed_tensors = claimed;
        expect_malformed(w, "tensor count " + std::to_string(claimed));
    }
}

TEST(gguf_malformed, one_tensor_more_than_there_are) {
    auto w = with_tensor({64}, 0, 256);
    w.claimed_tensors = 2;
    EXPECT_FALSE(gguf_file::parse(w.bytes()).ok());
}

TEST(gguf_malformed, more_keys_than_the_file_can_hold) {
    for (const std::uint64_t claimed : {huge, std::uint64_t{1} << 60, std::uint64_t{1000}}) {
        gguf_builder w;
        w.claimed_values = claimed;
        expect_malformed(w, "metadata count " + std::to_string(claimed));
    }
}

TEST(gguf_malformed, no_dimensions_or_more_than_four) {
    expect_malformed(with_tensor({}), "has 0 dimensions");
    expect_malformed(with_tensor({1, 1, 1, 1, 1}), "has 5 dimensions");
}

TEST(gguf_malformed, a_tensor_type_that_is_not_supported_is_named) {
    const auto part = [](int number, const char* name) {
        return "tensor 'bad.weight' has type " + std::to_string(number) + " (" + name +
               "); supported are f32, f16, bf16";
    };
    const std::pair<std::uint32_t, const char*> known[] = {{16, "iq2_xxs"}, {17, "iq2_xs"}, {18, "iq3_xxs"},
        {19, "iq1_s"}, {21, "iq3_s"}, {22, "iq2_s"}, {29, "iq1_m"}, {34, "tq1_0"}, {35, "tq2_0"}, {40, "nvfp4"}};
    for (const auto& [number, name] : known) expect_unsupported(with_tensor({256}, number), part(number, name));
    expect_unsupported(with_tensor({256}, 4), part(4, "q4_2"));
    expect_unsupported(with_tensor({256}, 26), part(26, "i32"));
    expect_unsupported(with_tensor({256}, 1000), part(1000, "unknown"));
    expect_unsupported(with_tensor({256}, 0xffffffff), "has type 4294967295 (unknown)");
}

TEST(gguf_malformed, rows_that_are_no_whole_blocks) {
    expect_malformed(with_tensor({33}, 8), "no whole number of q8_0 blocks");
    expect_malformed(with_tensor({640}, 12), "no whole number of q4_k blocks");
}

TEST(gguf_malformed, a_value_type_out_of_range) {
    gguf_builder w;
    w.begin_value("a.key", static_cast<gguf_tag>(13));
    w.raw(std::uint64_t{0});
    expect_malformed(w, "key 'a.key' has unknown value type 13");
    gguf_builder array;
    array.begin_array("an.array", static_cast<gguf_tag>(77), 1);
    array.raw(std::uint64_t{0});
    expect_malformed(array, "key 'an.array' has unknown value type 77");
}

TEST(gguf_malformed, strings_longer_than_the_file) {
    for (const std::uint64_t length : {huge, huge - 7, std::uint64_t{1} << 40, std::uint64_t{100}}) {
        gguf_builder w;
        w.begin_value("a", gguf_tag::string).raw(length);
        expect_malformed(w, "ends inside a string value");
    }
}

TEST(gguf_malformed, arrays_longer_than_the_file) {
    for (const auto element : {gguf_tag::u8, gguf_tag::i16, gguf_tag::f32, gguf_tag::f64}) {
        for (const std::uint64_t count :
            {huge, std::uint64_t{1} << 61, (std::uint64_t{1} << 62) + 1, std::uint64_t{9}}) {
            gguf_builder w;
            w.begin_array("a", element, count);
            expect_malformed(w, "array of key 'a' is longer than the file");
        }
    }
    gguf_builder strings;
    strings.begin_array("a", gguf_tag::string, huge);
    expect_malformed(strings, "strings is longer than the file");
    gguf_builder inner;
    inner.begin_array("a", gguf_tag::string, 2).raw(std::uint64_t{0}).raw(huge);
    expect_malformed(inner, "ends inside a string array");
}

TEST(gguf_malformed, an_array_of_arrays) {
    gguf_builder w;
    w.begin_array("a", gguf_tag::array, 1).raw(std::uint64_t{0}).raw(std::uint64_t{0});
    expect_unsupported(w, "key 'a' is an array of arrays");
}

TEST(gguf_malformed, an_array_of_a_narrower_type_than_is_read) {
    gguf_builder w;
    w.set_array("tokenizer.ggml.scores", std::vector<std::uint8_t>{1, 2, 3});
    w.set_array("tokenizer.ggml.token_type", std::vector<float>{1, 2, 3});
    const auto bytes = w.bytes();
    const auto file = gguf_file::parse(bytes);
    ASSERT_TRUE(file.ok());
    EXPECT_EQ((*file)->get_floats("tokenizer.ggml.scores").error().code, errc::model_malformed);
    EXPECT_EQ((*file)->get_strings("tokenizer.ggml.scores").error().code, errc::model_malformed);
    EXPECT_EQ((*file)->get_ints("tokenizer.ggml.token_type").error().code, errc::model_malformed);
    EXPECT_EQ((*file)->get_ints("tokenizer.ggml.scores").value(), (std::vector<std::int64_t>{1, 2, 3}));
}

TEST(gguf_malformed, alignments) {
    for (const std::uint32_t alignment : {0u, 3u, 48u, 0xffffffffu}) {
        gguf_builder w;
        w.set("general.alignment", alignment);
        expect_malformed(w, "general.alignment " + std::to_string(alignment) + " is not a power of two");
    }
    gguf_builder wide;
    wide.set("general.alignment", std::uint64_t{32});
    expect_malformed(wide, "general.alignment has type u64, not u32");
    gguf_builder text;
    text.set("general.alignment", "32");
    expect_malformed(text, "general.alignment has type string, not u32");
}

TEST(gguf_malformed, names_that_occur_twice) {
    gguf_builder tensors;
    tensors.tensor("same", {8}, 0, 32).tensor("same", {8}, 0, 32);
    expect_malformed(tensors, "tensor 'same' occurs twice");
    gguf_builder keys;
    keys.set("same", 1).set("same", "text");
    expect_malformed(keys, "key 'same' occurs twice");
}

TEST(gguf_malformed, empty_names) {
    gguf_builder keys;
    keys.set("", 1);
    expect_malformed(keys, "a key is empty");
    gguf_builder tensors;
    tensors.tensor("", {8}, 0, 32);
    expect_malformed(tensors, "a tensor name is empty");
}

TEST(gguf_malformed, a_key_of_100000_bytes) {
    gguf_builder w;
    w.set(std::string(100000, 'k'), 1);
    expect_malformed(w, "a key is longer than 65535 bytes");
}

TEST(gguf_malformed, names_in_messages_are_short_and_printable) {
    gguf_builder w;
    w.tensor("evil\n\x1b[31m" + std::string(1000, 'x'), {0}, 0, 32);
    const auto bytes = w.bytes();
    const auto file = gguf_file::parse(bytes);
    ASSERT_FALSE(file.ok());
    EXPECT_LT(file.error().message.size(), 200u);
    for (const char c : file.error().message) EXPECT_GE(c, 0x20);
}

}  // namespace

}  // namespace troupe::model
