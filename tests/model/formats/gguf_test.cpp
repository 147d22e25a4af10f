// Well-formed files: every value type, conversions, tensors, versions, and the real files of the test cache.
#include "model/formats/gguf.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "tests/support/gguf_builder.hpp"

namespace troupe::model {

namespace {

using troupe::testing::gguf_builder;

/// The bytes stay alive as long as the file.
struct opened {
    std::vector<std::byte> bytes;
    std::shared_ptr<const gguf_file> file;
    const gguf_file* operator->() const { return file.get(); }
};

opened parse(const gguf_builder& writer) {
    opened result{writer.bytes(), nullptr};
    auto file = gguf_file::parse(result.bytes);
    if (file) {
        result.file = *file;
    } else {
        ADD_FAILURE() << file.error().message;
    }
    return result;
}

template <class T> void expect_malformed(const result<T>& value, const std::string& key) {
    ASSERT_FALSE(value.ok()) << key;
    EXPECT_EQ(value.error().code, errc::model_malformed);
    EXPECT_NE(value.error().message.find(key), std::string::npos) << value.error().message;
}

opened every_type() {
    gguf_builder w;
    w.set("a.u8", std::uint8_t{200}).set("a.i8", std::int8_t{-3}).set("a.u16", std::uint16_t{60000});
    w.set("a.i16", std::int16_t{-300}).set("a.u32", std::uint32_t{4000000000u}).set("a.i32", std::int32_t{-5});
    w.set("a.f32", 1.5F).set("a.yes", true).set("a.no", false).set("a.text", "h\0i");
    w.set("a.u64", std::numeric_limits<std::uint64_t>::max()).set("a.i64", std::numeric_limits<std::int64_t>::min());
    w.set("a.f64", 0.1).set("a.words", std::string_view("a\0b", 3));
    w.set_array("b.strings", std::vector<std::string>{"", "one", "zwei"});
    w.set_array("b.u8", std::vector<std::uint8_t>{1, 255}).set_array("b.i32", std::vector<std::int32_t>{-1, 7});
    w.set_array("b.f32", std::vector<float>{0.5F, -2}).set_array("b.f64", std::vector<double>{0.1});
    w.set_array("b.u64", std::vector<std::uint64_t>{1, std::uint64_t{1} << 63});
    w.set_array("b.none", std::vector<std::int32_t>{});
    return parse(w);
}

TEST(gguf, reads_numbers_of_every_width) {
    const auto file = every_type();
    ASSERT_NE(file.file, nullptr);
    EXPECT_EQ(file->get_uint("a.u8").value(), 200u);
    EXPECT_EQ(file->get_int("a.i8").value(), -3);
    EXPECT_EQ(file->get_uint("a.u16").value(), 60000u);
    EXPECT_EQ(file->get_int("a.i16").value(), -300);
    EXPECT_EQ(file->get_int("a.u32").value(), 4000000000);
    EXPECT_EQ(file->get_int("a.i32").value(), -5);
    EXPECT_EQ(file->get_uint("a.u64").value(), std::numeric_limits<std::uint64_t>::max());
    EXPECT_EQ(file->get_int("a.i64").value(), std::numeric_limits<std::int64_t>::min());
    EXPECT_EQ(file->get_float("a.f32").value(), 1.5);
    EXPECT_EQ(file->get_float("a.f64").value(), 0.1);
    EXPECT_EQ(file->get_bool("a.yes").value(), true);
    EXPECT_EQ(file->get_bool("a.no").value(), false);
    EXPECT_EQ(file->get_string("a.words").value(), std::string_view("a\0b", 3));
}

TEST(gguf, reads_arrays) {
    const auto file = every_type();
    ASSERT_NE(file.file, nullptr);
    EXPECT_EQ(file->get_strings("b.strings").value(), (std::vector<std::string_view>{"", "one", "zwei"}));
    EXPECT_EQ(file->get_ints("b.u8").value(), (std::vector<std::int64_t>{1, 255}));
    EXPECT_EQ(file->get_ints("b.i32").value(), (std::vector<std::int64_t>{-1, 7}));
    EXPECT_EQ(file->get_ints("b.none").value(), std::vector<std::int64_t>{});
    EXPECT_EQ(file->get_floats("b.f32").value(), (std::vector<double>{0.5, -2}));
    EXPECT_EQ(file->get_floats("b.f64").value(), std::vector<double>{0.1});
}

TEST(gguf, absent_keys_are_no_error) {
    const auto file = every_type();
    ASSERT_NE(file.file, nullptr);
    EXPECT_EQ(file->get_uint("x").value(), std::nullopt);
    EXPECT_EQ(file->get_int("x").value(), std::nullopt);
    EXPECT_EQ(file->get_float("x").value(), std::nullopt);
    EXPECT_EQ(file->get_bool("x").value(), std::nullopt);
    EXPECT_EQ(file->get_string("x").value(), std::nullopt);
    EXPECT_EQ(file->get_strings("x").value(), std::nullopt);
    EXPECT_EQ(file->get_ints("x").value(), std::nullopt);
    EXPECT_EQ(file->get_floats("x").value(), std::nullopt);
    EXPECT_EQ(file->type_of("x"), std::nullopt);
    EXPECT_EQ(file->describe("x"), "(absent)");
}

TEST(gguf, unsuitable_types_and_values_name_the_key) {
    const auto file = every_type();
    ASSERT_NE(file.file, nullptr);
    expect_malformed(file->get_uint("a.i8"), "a.i8");
    expect_malformed(file->get_int("a.u64"), "a.u64");
    expect_malformed(file->get_uint("a.f32"), "a.f32");
    expect_malformed(file->get_uint("a.text"), "a.text");
    expect_malformed(file->get_uint("b.u8"), "b.u8");
    expect_malformed(file->get_float("a.u8"), "a.u8");
    expect_malformed(file->get_bool("a.u8"), "a.u8");
    expect_malformed(file->get_string("a.u8"), "a.u8");
    expect_malformed(file->get_string("b.strings"), "b.strings");
    expect_malformed(file->get_strings("a.text"), "a.text");
    expect_malformed(file->get_strings("b.u8"), "b.u8");
    expect_malformed(file->get_ints("b.f32"), "b.f32");
    expect_malformed(file->get_ints("b.strings"), "b.strings");
    expect_malformed(file->get_ints("a.u8"), "a.u8");
    expect_malformed(file->get_ints("b.u64"), "b.u64");
    expect_malformed(file->get_floats("b.u8"), "b.u8");
    expect_malformed(file->get_floats("a.f32"), "a.f32");
}

TEST(gguf, a_bool_is_zero_or_one) {
    gguf_builder w;
    w.begin_value("a", troupe::testing::gguf_tag::boolean).raw(std::uint8_t{2});
    const auto file = parse(w);
    ASSERT_NE(file.file, nullptr);
    expect_malformed(file->get_bool("a"), "a");
}

TEST(gguf, keys_keep_their_order_and_types) {
    gguf_builder w;
    w.set("z", std::uint8_t{1}).set("a", "text").set_array("m", std::vector<float>{1});
    const auto file = parse(w);
    ASSERT_NE(file.file, nullptr);
    EXPECT_EQ(file->keys(), (std::vector<std::string_view>{"z", "a", "m"}));
    EXPECT_EQ(file->type_of("z"), gguf_type::u8);
    EXPECT_EQ(file->type_of("a"), gguf_type::string);
    EXPECT_EQ(file->type_of("m"), gguf_type::array);
}

TEST(gguf, describes_values_for_a_person) {
    const auto file = every_type();
    ASSERT_NE(file.file, nullptr);
    EXPECT_EQ(file->describe("a.i8"), "-3");
    EXPECT_EQ(file->describe("a.u64"), "18446744073709551615");
    EXPECT_EQ(file->describe("a.f32"), "1.5");
    EXPECT_EQ(file->describe("a.f64"), "0.1");
    EXPECT_EQ(file->describe("a.yes"), "true");
    EXPECT_EQ(file->describe("b.i32"), "[-1, 7] (2 x i32)");
    EXPECT_EQ(file->describe("b.strings"), R"(["", "one", "zwei"] (3 x string))");
    gguf_builder w;
    w.set_array("long", std::vector<std::int32_t>(100, 4));
    EXPECT_EQ(parse(w)->describe("long"), "[4, 4, 4, 4, 4, 4, 4, 4, ...] (100 x i32)");
}

TEST(gguf, finds_tensors_and_their_bytes) {
    for (const std::size_t alignment : {std::size_t{32}, std::size_t{64}, std::size_t{1}}) {
        gguf_builder w;
        w.alignment = alignment;
        if (alignment != 32) w.set("general.alignment", static_cast<std::uint32_t>(alignment));
        w.tensor("norm", {3}, 0, 12).tensor("w", {64, 2, 3}, 8, 6 * 2 * 34).tensor("half", {5, 2}, 1, 20);
        const auto file = parse(w);
        ASSERT_NE(file.file, nullptr);
        EXPECT_EQ(file->file_bytes(), file.bytes.size());
        ASSERT_EQ(file->tensors().size(), 3u);
        const auto* matrix = file->tensor("w");
        ASSERT_NE(matrix, nullptr);
        EXPECT_EQ(matrix, &file->tensors()[1]);
        EXPECT_EQ(matrix->type, kernels::dtype::q8_0);
        EXPECT_EQ(matrix->shape, (std::vector<std::int64_t>{64, 2, 3}));
        EXPECT_EQ(matrix->cols(), 64);
        EXPECT_EQ(matrix->rows(), 6);
        ASSERT_EQ(matrix->data.size(), 6u * 2 * 34);
        for (const auto byte : matrix->data) ASSERT_EQ(byte, std::byte{2});
        EXPECT_EQ(file->tensor("half")->data.size(), 20u);
        EXPECT_EQ(file->tensor("half")->data[0], std::byte{3});
        EXPECT_EQ(file->tensor("norm")->rows(), 1);
        EXPECT_EQ(file->tensor("W"), nullptr);
    }
}

TEST(gguf, knows_every_supported_tensor_type) {
    struct expectation {
        std::uint32_t number;
        kernels::dtype type;
        std::size_t bytes;  ///< of 256 values
    };
    using kernels::dtype;
    for (const auto& [number, type, bytes] : {expectation{0, dtype::f32, 1024}, expectation{1, dtype::f16, 512},
             expectation{30, dtype::bf16, 512}, expectation{2, dtype::q4_0, 144}, expectation{3, dtype::q4_1, 160},
             expectation{6, dtype::q5_0, 176}, expectation{8, dtype::q8_0, 272}, expectation{12, dtype::q4_k, 144},
             expectation{13, dtype::q5_k, 176}, expectation{14, dtype::q6_k, 210}, expectation{7, dtype::q5_1, 192},
             expectation{10, dtype::q2_k, 84}, expectation{11, dtype::q3_k, 110}, expectation{20, dtype::iq4_nl, 144},
             expectation{23, dtype::iq4_xs, 136}, expectation{39, dtype::mxfp4, 136}}) {
        gguf_builder w;
        w.tensor("t", {256}, number, bytes);
        const auto file = parse(w);
        ASSERT_NE(file.file, nullptr) << number;
        EXPECT_EQ(file->tensor("t")->type, type);
        EXPECT_EQ(file->tensor("t")->data.size(), bytes);
    }
}

TEST(gguf, reads_version_2) {
    gguf_builder w;
    w.version = 2;
    EXPECT_EQ(parse(w)->version(), 2u);
    EXPECT_EQ(every_type()->version(), 3u);
}

TEST(gguf, opens_the_files_of_the_test_cache) {
    const char* cache = std::getenv("TROUPE_TEST_CACHE");
    ASSERT_NE(cache, nullptr);
    struct expectation {
        const char* name;
        std::size_t n_tensors;
        std::size_t n_tokens;
    };
    for (const auto& [name, n_tensors, n_tokens] :
        {expectation{"models/smollm2.gguf", 272, 49152}, expectation{"models/gemma3-270m.gguf", 236, 262144},
            expectation{"tiny/llama.gguf", 39, 320}, expectation{"tiny/gemma3.gguf", 80, 320},
            expectation{"vocabs/qwen2.gguf", 0, 151936}, expectation{"vocabs/phi-3.gguf", 0, 32064}}) {
        const auto file = gguf_file::open(std::filesystem::path(cache) / name);
        ASSERT_TRUE(file.ok()) << file.error().message;
        EXPECT_EQ((*file)->version(), 3u);
        EXPECT_EQ((*file)->tensors().size(), n_tensors) << name;
        const auto tokens = (*file)->get_strings("tokenizer.ggml.tokens");
        ASSERT_TRUE(tokens.ok() && tokens->has_value());
        EXPECT_EQ((*tokens)->size(), n_tokens) << name;
        std::size_t bytes = 0;
        for (const auto& tensor : (*file)->tensors()) bytes += tensor.data.size();
        EXPECT_LT(bytes, (*file)->file_bytes());
    }
}

TEST(gguf, open_names_what_is_missing) {
    const auto file = gguf_file::open("/nonexistent/model.gguf");
    ASSERT_FALSE(file.ok());
    EXPECT_EQ(file.error().code, errc::model_missing);
    EXPECT_NE(file.error().message.find("/nonexistent/model.gguf"), std::string::npos);
}

}  // namespace

}  // namespace troupe::model
