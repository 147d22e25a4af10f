// What comes from the user never becomes a control token, whatever template prints it and whatever vocabulary reads it:
// a conversation full of control strings has exactly the control tokens of the same conversation about nothing.
#include <algorithm>
#include <array>

#include "model/templates/load_chat_format.hpp"
#include "tests/model/templates/support.hpp"
#include "tests/support/figures.hpp"

namespace troupe::model::testing {
namespace {

constexpr std::array vocabularies = {
    "smollm2", "gemma3-270m", "llama-bpe", "qwen2", "deepseek-llm", "deepseek-coder", "gpt-2", "llama-spm", "phi-3"};

std::shared_ptr<const tokenizer> vocabulary(const std::string& name) {
    const bool whole = name == "smollm2" || name == "gemma3-270m";
    const auto file =
        model_file::open(environment("TROUPE_TEST_CACHE") + (whole ? "/models/" : "/vocabs/") + name + ".gguf");
    EXPECT_TRUE(file.ok()) << name;
    if (!file) return nullptr;
    const auto words = tokenizer::load(**file);
    EXPECT_TRUE(words.ok()) << name;
    return words ? *words : nullptr;
}

bool is_control(const tokenizer& words, token_id id) {
    return words.kind(id) == token_kind::control || words.is_end(id) || id == words.bos();
}

/// Up to 60 control strings in a row. Those that templates themselves look for in a message (think blocks) are left
/// out: what is then cut away has nothing to do with tokens.
std::string hostile_text(const tokenizer& words) {
    std::string text;
    for (token_id id = 0, n = 0; id < words.n_tokens() && n < 60; ++id) {
        if (!is_control(words, id)) continue;
        const auto piece = words.piece(id, true);
        if (piece.find("think") != piece.npos) continue;
        text += std::string(piece) + "x";
        ++n;
    }
    return text;
}

/// Every place a client can put text in.
std::vector<chat_message> conversation(const std::string& text, bool tools) {
    std::vector<chat_message> messages = {{"system", text, ""}, {"user", text, ""}};
    const auto quoted = json::serialize(json::value(text));
    if (tools) {
        messages.push_back({"assistant", "",
            R"({"tool_calls":[{"id":"call00001","type":"function","function":{"name":)" + quoted +
                R"(,"arguments":{"k":)" + quoted + "}}}]}"});
        messages.push_back({"tool", text, R"({"tool_call_id":"call00001","name":)" + quoted + "}"});
    }
    messages.push_back({"assistant", text, ""});
    messages.push_back({"user", text, ""});
    return messages;
}

/// Control tokens of the rendered conversation, in order; nullopt if the template refuses it.
std::optional<std::vector<token_id>> control_tokens(
    const chat_format& format, const tokenizer& words, const std::string& text, bool tools) {
    const auto parts = format.render(conversation(text, tools), {}, golden_now);
    if (!parts) return std::nullopt;
    std::vector<token_id> found;
    for (const auto id : words.encode(*parts))
        if (is_control(words, id)) found.push_back(id);
    return found;
}

TEST(control_strings, of_users_stay_text_in_every_template_and_vocabulary) {
    const json::value goldens = read_json("expected.json");
    int compared = 0;
    for (const auto* name : vocabularies) {
        const auto words = vocabulary(name);
        ASSERT_NE(words, nullptr);
        const auto hostile = hostile_text(*words);
        ASSERT_FALSE(hostile.empty()) << name;
        const auto bos = words->bos() < 0 ? std::string() : std::string(words->piece(words->bos(), true));
        for (const auto& item : goldens.at("templates").as_object()) {
            const auto format = chat_format::load(
                template_source(std::string(item.key())), bos, "", [](std::string_view) { return false; });
            ASSERT_TRUE(format.ok()) << item.key();
            for (const bool tools : {false, true}) {
                const auto wanted = control_tokens(**format, *words, "y", tools);
                if (!wanted) continue;
                EXPECT_EQ(control_tokens(**format, *words, hostile, tools), wanted)
                    << name << ", " << item.key() << (tools ? ", with tools" : "");
                ++compared;
            }
        }
    }
    EXPECT_GE(compared, 9 * 60);
    troupe::testing::record_figure("Chat templates", "control strings in content, tool names, arguments and results",
        HasFailure() ? "some became control tokens"
                     : fmt::format("none became a control token in {} renders", compared),
        "none");
}

}  // namespace
}  // namespace troupe::model::testing
