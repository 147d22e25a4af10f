// Every oracle of tests/data/tokenizers against every vocabulary: ids, pieces, special ids, end tokens.
#include <algorithm>
#include <set>

#include "tests/model/tokenizers/tokenizer_data.hpp"
#include "tests/support/figures.hpp"

namespace troupe::model::testing {

namespace {

class golden : public ::testing::TestWithParam<const char*> {
 protected:
    void SetUp() override {
        words_ = load(GetParam());
        ASSERT_NE(words_, nullptr);
        lines_ = parser_.load_many(data_path(std::string(GetParam()) + ".jsonl")).value();
    }

    /// Calls `use` with the id, text and expectations of each corpus string; returns how many there were.
    template <class Use> int each_string(Use use) {
        int n = 0;
        for (auto line : lines_) {
            const simdjson::dom::element entry = line.value();
            std::string_view id;
            if (entry["id"].get(id) != simdjson::SUCCESS) continue;  // the header
            use(std::string(id), corpus().at(std::string(id)), entry);
            ++n;
        }
        return n;
    }

    /// One row of docs/correctness.md about `n` cases.
    static void record(const std::string& what, int n) {
        troupe::testing::record_figure("Tokenizers", std::string(GetParam()) + ": " + what,
            HasFailure() ? "not all equal" : fmt::format("{0} of {0} equal", n), "all");
    }

    simdjson::dom::parser parser_;
    simdjson::dom::document_stream lines_;
    std::shared_ptr<const tokenizer> words_;
};

/// The strings where mainline and the models' own tokenizers disagree because mainline takes "</s>" for a control token
/// by its text. We believe the type stored in the file, so there the second implementation is right.
const std::set<std::string> end_of_string_tag = {"markers-04", "markers-06", "markers-19", "markers-20"};

bool has(simdjson::dom::element entry, const char* field) { return entry[field].error() == simdjson::SUCCESS; }

/// In Phi-3 "</s>" is user-defined, so plain text holds it too; what surrounds it then follows mainline's rules for
/// special tokens (a space before the first text only, white space on the right dropped), which sentencepiece does not
/// know.
bool tag_follows_special_rules(std::string_view vocabulary, std::string_view id) {
    return vocabulary == "phi-3" && (id == "markers-06" || id == "markers-20");
}

ids expected_ids(std::string_view vocabulary, const std::string& id, simdjson::dom::element entry, const char* mode) {
    if (tag_follows_special_rules(vocabulary, id)) return to_ids(entry["special"].value());
    if (end_of_string_tag.contains(id)) {
        for (const std::string source : {"sentencepiece_", "hf_"}) {
            simdjson::dom::element other;
            if (entry["other"][source + mode].get(other) == simdjson::SUCCESS) return to_ids(other);
        }
    }
    return to_ids(entry[has(entry, mode) ? mode : "plain"].value());
}

std::string expected_bytes(simdjson::dom::element entry, const char* field, const std::string& otherwise) {
    std::string_view encoded;
    return entry[field].get(encoded) == simdjson::SUCCESS ? from_base64(encoded) : otherwise;
}

TEST_P(golden, plain_ids) {
    const int n = each_string([&](const std::string& id, const std::string& text, simdjson::dom::element entry) {
        EXPECT_EQ(words_->encode(text, false, false), expected_ids(GetParam(), id, entry, "plain")) << id;
    });
    EXPECT_EQ(n, 367);
    record("ids of plain text", n);
}

TEST_P(golden, special_ids) {
    const int n = each_string([&](const std::string& id, const std::string& text, simdjson::dom::element entry) {
        EXPECT_EQ(words_->encode(text, true, false), expected_ids(GetParam(), id, entry, "special")) << id;
    });
    EXPECT_EQ(n, 367);
    record("ids of text with special tokens", n);
}

TEST_P(golden, pieces_give_the_text_back) {
    const int n = each_string([&](const std::string& id, const std::string& text, simdjson::dom::element entry) {
        const auto plain_pieces = expected_bytes(entry, "plain_pieces", text);
        if (!tag_follows_special_rules(GetParam(), id)) {
            EXPECT_EQ(pieces_of(*words_, words_->encode(text, false, false)), plain_pieces) << id;
        }
        const auto special = words_->encode(text, true, false);
        const auto shown = expected_bytes(entry, "special_pieces", has(entry, "special") ? text : plain_pieces);
        EXPECT_EQ(pieces_of(*words_, special), shown) << id;
        if (!end_of_string_tag.contains(id)) {
            EXPECT_EQ(pieces_of(*words_, special, false), expected_bytes(entry, "special_hidden", shown)) << id;
        }
    });
    EXPECT_EQ(n, 367);
    record("pieces, control tokens shown and hidden", n);
}

TEST_P(golden, header) {
    const simdjson::dom::element header = (*lines_.begin()).value();
    EXPECT_EQ(words_->n_tokens(), header["n_tokens"].get_int64().value());
    EXPECT_EQ(words_->type_name(), header["type"].get_int64().value() == 1 ? "spm" : "bpe");
    EXPECT_EQ(words_->pre_name(), header["pre"].get_string().value());
    EXPECT_EQ(words_->bos(), header["bos"].get_int64().value());
    EXPECT_EQ(words_->eos(), header["eos"].get_int64().value());
    EXPECT_EQ(words_->add_bos(), header["add_bos"].get_bool().value());
    EXPECT_EQ(words_->add_eos(), header["add_eos"].get_bool().value());
    for (const auto entry : header["add_special"].get_array())
        EXPECT_EQ(words_->encode(text_of(entry), true, true), to_ids(entry["ids"].value())) << text_of(entry);
}

TEST_P(golden, end_tokens) {
    // Ends by text alone in mainline: "</s>" of Qwen2 (a merge product), Gemma 3 (an HTML tag) and Phi-3
    // (user-defined),
    // "<reponame>" of SmolLM2 (a file name marker).
    const std::map<std::string, token_id> doubtful = {
        {"qwen2", 128247}, {"gemma-3", 212}, {"phi-3", 2}, {"smollm2", 4}};
    const simdjson::dom::element header = (*lines_.begin()).value();
    auto expected = to_ids(header["eog"].value());
    if (const auto found = doubtful.find(GetParam()); found != doubtful.end()) std::erase(expected, found->second);
    const auto ends = words_->end_tokens();
    EXPECT_EQ(ids(ends.begin(), ends.end()), expected);
    for (token_id id = 0; id < words_->n_tokens(); ++id)
        ASSERT_EQ(words_->is_end(id), std::find(expected.begin(), expected.end(), id) != expected.end()) << id;
}

TEST_P(golden, ill_formed_text_is_replaced) {
    simdjson::dom::parser parser;
    const simdjson::dom::element expected = parser.load(data_path("invalid_replaced.json")).value();
    int n = 0;
    for (const auto [id, tokens] : expected["ids"][GetParam()].get_object()) {
        EXPECT_EQ(words_->encode(corpus().at(std::string(id)), false, false), to_ids(tokens)) << id;
        ++n;
    }
    EXPECT_EQ(n, 17);
    record("ids of ill-formed text", n);
}

INSTANTIATE_TEST_SUITE_P(vocabularies, golden, ::testing::ValuesIn(vocabulary_names), case_name);

}  // namespace

}  // namespace troupe::model::testing
