// The tokenizer's actor over the tiny model's own vocabulary.
#include "actors/tokenizer/text_model.hpp"

#include <cstdlib>

#include "tests/support/actor_fixture.hpp"

namespace troupe::actors {
namespace {

class TokenizerActorTest : public test::actor_test {
 protected:
    TokenizerActorTest() {
        const char* cache = std::getenv("TROUPE_TEST_CACHE");
        auto m = load_text_model({"tiny", std::string(cache ? cache : "") + "/tiny/llama.gguf"}, 128);
        EXPECT_TRUE(m.ok()) << (m.ok() ? "" : m.error().message);
        if (m.ok()) text = *m;
    }
    std::shared_ptr<const text_model> text;
};

TEST_F(TokenizerActorTest, RendersAndEncodesInOneStep) {
    ASSERT_TRUE(text);
    const auto t = spawn(tokenizer_actor, text->tools);
    const auto r = ask<rendered_chat>(t, render_chat{{{"user", "Hi there", {}}}, {}, true});
    EXPECT_NE(r.text.find("Hi there"), std::string::npos);
    ASSERT_TRUE(r.ids);
    EXPECT_FALSE(r.ids->empty());
    const auto e = ask<rendered_chat>(t, encode_atom::value, std::string("abc"), false, false);
    EXPECT_EQ(*e.ids, text->tools->vocabulary->encode("abc", false, false));
}

TEST_F(TokenizerActorTest, TemplateVariablesMustBeAnObject) {
    ASSERT_TRUE(text);
    const auto t = spawn(tokenizer_actor, text->tools);
    EXPECT_EQ(ask_error<rendered_chat>(t, render_chat{{{"user", "x", {}}}, "[1]", true}).param, "chat_template_kwargs");
    EXPECT_EQ(ask_error<rendered_chat>(t, render_chat{{{"user", "x", {}}}, "{", true}).code, errc::invalid_request);
}

TEST_F(TokenizerActorTest, TheCardSaysWhatTheFileIs) {
    ASSERT_TRUE(text);
    EXPECT_EQ(text->card.id, "tiny");
    EXPECT_EQ(text->card.architecture, "llama");
    EXPECT_LE(text->card.n_ctx, 128);
    EXPECT_GT(text->card.n_params, 0);
    EXPECT_EQ(text->card.n_vocab, text->tools->vocabulary->n_tokens());
    EXPECT_EQ(load_text_model({"x", "/nowhere.gguf"}, 0).error().code, errc::model_missing);
}

TEST(ModelSpec, ANameMayStandBeforeThePath) {
    EXPECT_EQ(parse_model_spec("/a/b/model.gguf").name, "model");
    EXPECT_EQ(parse_model_spec("mine=/a/b/model.gguf").name, "mine");
    EXPECT_EQ(parse_model_spec("mine=/a/b/model.gguf").path, "/a/b/model.gguf");
    EXPECT_EQ(parse_model_spec("/a=b/model.gguf").path, "/a=b/model.gguf");
}

}  // namespace
}  // namespace troupe::actors
