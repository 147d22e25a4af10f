// safetensors files: what is read, and one test a class of what is refused before use.
#include "model/formats/safetensors.hpp"

#include <gtest/gtest.h>

#include "tests/support/safetensors_writer.hpp"

namespace troupe::model {
namespace {

using troupe::testing::bytes_of;
using troupe::testing::safetensors_text;
using troupe::testing::safetensors_writer;

void expect_error(const std::string& file, errc code, const std::string& part) {
    const auto bytes = bytes_of(file);
    const auto contents = parse_safetensors(bytes);
    ASSERT_FALSE(contents.ok()) << "accepted; expected: " << part;
    EXPECT_EQ(contents.error().code, code) << contents.error().message;
    EXPECT_NE(contents.error().message.find(part), std::string::npos) << contents.error().message;
}
void expect_malformed(const std::string& header, std::size_t data, const std::string& part) {
    expect_error(safetensors_text(header, data), errc::model_malformed, part);
}

std::string entry(const std::string& type, const std::string& shape, const std::string& offsets) {
    return R"({"a":{"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

TEST(safetensors, reads_names_types_shapes_and_data) {
    const auto bytes =
        safetensors_writer().add("w", "BF16", "2,3", 12).add("one", "F32", "", 4).add("none", "I32", "0,7", 0).bytes();
    const auto file = parse_safetensors(bytes);
    ASSERT_TRUE(file.ok()) << file.error().message;
    ASSERT_EQ(file->tensors.size(), 3u);
    EXPECT_EQ(file->tensors[0].name, "w");
    EXPECT_EQ(file->tensors[0].type, "BF16");
    EXPECT_EQ(file->tensors[0].shape, (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(file->tensors[0].data.data(), bytes.data() + file->header_bytes);
    EXPECT_EQ(file->tensors[1].data.size(), 4u);
    EXPECT_TRUE(file->tensors[2].data.empty());
}

TEST(safetensors, takes_padding_and_metadata) {
    EXPECT_TRUE(parse_safetensors(bytes_of(safetensors_text(R"({"__metadata__":{"format":"pt"}}   )", 0))).ok());
}

TEST(safetensors, headers_that_do_not_fit) {
    expect_error("1234567", errc::model_malformed, "shorter than its header's length");
    for (const std::uint64_t claimed : {std::uint64_t{3}, std::uint64_t{1} << 62, ~std::uint64_t{0}})
        expect_error(safetensors_text("{}", 0, claimed), errc::model_malformed, "does not fit");
    expect_malformed("{", 0, "no JSON");
    expect_malformed("[1]", 0, "no JSON object");
    expect_malformed(std::string(100, '[') + std::string(100, ']'), 0, "no JSON");
}

TEST(safetensors, entries_that_are_no_tensors) {
    expect_malformed(R"({"a":1})", 0, "is no object");
    expect_malformed(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4, "has no 'dtype'");
    expect_malformed(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4, "has no 'shape'");
    expect_malformed(entry("F32", "[-1]", "[0,4]"), 4, "no plain size");
    expect_malformed(entry("F32", "[1.5]", "[0,4]"), 4, "no plain size");
    expect_malformed(entry("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, "too many entries");
    expect_error(safetensors_text(entry("F4", "[1]", "[0,4]"), 4), errc::model_unsupported, "'F4'");
}

TEST(safetensors, offsets_outside_the_file) {
    for (const char* offsets : {"[0,5]", "[4,0]", "[5,9]", "[0,9223372036854775807]", "[0]", "[0,1,2]"})
        expect_malformed(entry("F32", "[1]", offsets), 4, "lies outside the file");
    expect_malformed(entry("F32", "[1]", "[0,18446744073709551615]"), 4, "no plain size");
}

TEST(safetensors, sizes_that_do_not_match) {
    expect_malformed(entry("F32", "[2]", "[0,4]"), 4, "has 4 bytes where type and shape need 8");
    expect_malformed(entry("BF16", "[2]", "[0,8]"), 8, "has 8 bytes where type and shape need 4");
    expect_malformed(entry("F32", "[4611686018427387904,4]", "[0,4]"), 4, "overflow");
}

TEST(safetensors, data_that_is_shared_or_belongs_to_nobody) {
    const std::string a = R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
    expect_malformed("{" + a + R"(,"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})", 6, "overlaps");
    expect_malformed("{" + a + R"(,"b":{"dtype":"U8","shape":[4],"data_offsets":[5,9]}})", 9, "follows a gap");
    expect_malformed("{" + a + "}", 5, "belong to no tensor");
    expect_malformed("{" + a + "," + a + "}", 4, "occurs twice");
}

}  // namespace
}  // namespace troupe::model
