// Replacement of ill-formed text and the streaming decoder, against the oracles of streaming.json and
// invalid_replaced.json.
#include "model/tokenizers/utf8.hpp"

#include "tests/model/tokenizers/tokenizer_data.hpp"
#include "tests/support/figures.hpp"

namespace troupe::model::testing {

namespace {

std::string stream_bytewise(std::string_view bytes) {
    utf8_stream stream;
    std::string text;
    for (const char byte : bytes) {
        const auto delta = stream.push(std::string_view(&byte, 1));
        EXPECT_TRUE(utf8::well_formed(delta));
        text += delta;
    }
    return text + stream.flush();
}

TEST(utf8, streams_token_pieces_as_the_oracle_says) {
    simdjson::dom::parser parser;
    int n = 0;
    for (const auto entry : parser.load(data_path("streaming.json")).get_array()) {
        const std::string what(entry["what"].get_string().value());
        utf8_stream stream;
        const auto pieces = entry["pieces"].get_array().value();
        const auto deltas = entry["deltas"].get_array().value();
        ASSERT_EQ(pieces.size(), deltas.size());
        for (std::size_t i = 0; i < pieces.size(); ++i)
            EXPECT_EQ(stream.push(from_base64(pieces.at(i).get_string().value())), deltas.at(i).get_string().value())
                << what << " delta " << i;
        EXPECT_EQ(stream.flush(), entry["flush"].get_string().value()) << what;
        EXPECT_EQ(stream.flush(), "");
        ++n;
    }
    EXPECT_EQ(n, 45);
    troupe::testing::record_figure("Tokenizers", "streaming decodes, text of every delta",
        ::testing::Test::HasFailure() ? "not all equal" : fmt::format("{0} of {0} equal", n), "all");
}

TEST(utf8, pieces_of_ids_are_those_of_the_streaming_oracle) {
    simdjson::dom::parser parser;
    for (const auto entry : parser.load(data_path("streaming.json")).get_array()) {
        const auto words = load(std::string(entry["vocab"].get_string().value()));
        ASSERT_NE(words, nullptr);
        const auto tokens = to_ids(entry["ids"].value());
        const auto pieces = entry["pieces"].get_array().value();
        for (std::size_t i = 0; i < tokens.size(); ++i)
            EXPECT_EQ(words->piece(tokens[i]), from_base64(pieces.at(i).get_string().value())) << tokens[i];
    }
}

TEST(utf8, replaces_maximal_subparts) {
    simdjson::dom::parser parser;
    const simdjson::dom::element expected = parser.load(data_path("invalid_replaced.json")).value();
    int n = 0;
    for (const auto [id, text] : expected["texts"].get_object()) {
        const auto& bytes = corpus().at(std::string(id));
        EXPECT_FALSE(utf8::well_formed(bytes)) << id;
        EXPECT_EQ(utf8::replace_ill_formed(bytes), text.get_string().value()) << id;
        EXPECT_EQ(stream_bytewise(bytes), text.get_string().value()) << id;
        ++n;
    }
    EXPECT_EQ(n, 17);
}

TEST(utf8, well_formed_text_passes_unchanged) {
    for (const auto& [id, text] : corpus()) {
        if (id.starts_with("invalid")) continue;
        EXPECT_TRUE(utf8::well_formed(text)) << id;
        EXPECT_EQ(utf8::replace_ill_formed(text), text) << id;
        EXPECT_EQ(stream_bytewise(text), text) << id;
    }
}

TEST(utf8, every_code_point_and_no_surrogate) {
    for (char32_t value = 0; value <= 0x10ffff; ++value) {
        std::string bytes;
        if (value < 0x80) {
            bytes = {static_cast<char>(value)};
        } else if (value < 0x800) {
            bytes = {static_cast<char>(0xc0 | value >> 6), static_cast<char>(0x80 | (value & 0x3f))};
        } else if (value < 0x10000) {
            bytes = {static_cast<char>(0xe0 | value >> 12), static_cast<char>(0x80 | (value >> 6 & 0x3f)),
                static_cast<char>(0x80 | (value & 0x3f))};
        } else {
            bytes = {static_cast<char>(0xf0 | value >> 18), static_cast<char>(0x80 | (value >> 12 & 0x3f)),
                static_cast<char>(0x80 | (value >> 6 & 0x3f)), static_cast<char>(0x80 | (value & 0x3f))};
        }
        const bool surrogate = value >= 0xd800 && value <= 0xdfff;
        ASSERT_EQ(utf8::well_formed(bytes), !surrogate) << std::hex << static_cast<std::uint32_t>(value);
        if (surrogate) continue;
        const auto [decoded, length] = utf8::decode(bytes.data());
        ASSERT_EQ(decoded, value);
        ASSERT_EQ(length, bytes.size());
    }
}

TEST(utf8, a_byte_order_mark_is_text) {
    utf8_stream stream;
    EXPECT_EQ(stream.push("\xef\xbb\xbf x"), "\xef\xbb\xbf x");
}

}  // namespace

}  // namespace troupe::model::testing
