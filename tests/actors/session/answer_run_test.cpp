#include "actors/session/answer_run.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "tests/actors/session/fake_vocabulary.hpp"

namespace troupe::actors {
namespace {

answer_setup setup(std::vector<std::string> stop = {}) {
    answer_setup s;
    s.session = "ses_a";
    s.generation = "gen_a";
    s.assistant.view = {"msg_b", "msg_a", "assistant", "", 1, "", {}};
    s.vocabulary = std::make_shared<testing::fake_vocabulary>();
    s.stop = std::move(stop);
    return s;
}

generation_tokens tokens(std::int64_t n_before, const std::string& text) {
    generation_tokens t{7, n_before, {}, {}};
    for (char c : text) t.tokens.push_back({static_cast<unsigned char>(c), -1});
    return t;
}

template <class T> const T& only(const answer_run::step& s) {
    EXPECT_EQ(s.events.size(), 1u);
    return std::get<T>(s.events.at(0));
}

TEST(AnswerRun, JournalsEveryBatchAndTellsItsText) {
    answer_run run(setup());
    const auto s = run.on(tokens(0, "Hi"));
    ASSERT_EQ(s.records.size(), 1u);
    const auto& row = std::get<append_tokens>(s.records[0]);
    EXPECT_EQ(row.generation, "gen_a");
    EXPECT_EQ(row.pos, 0);
    EXPECT_EQ(row.tokens, (std::vector<std::int32_t>{'H', 'i'}));
    const auto& d = only<delta_event>(s);
    EXPECT_EQ(d.text, "Hi");
    EXPECT_EQ(d.offset, 0u);
    EXPECT_EQ(d.n_tokens, 2);
    EXPECT_EQ(only<delta_event>(run.on(tokens(2, "!"))).offset, 2u);
}

TEST(AnswerRun, ToolCallsLeaveTheText) {
    auto with = setup();
    with.generation.clear();
    with.calls = {model::call_style::hermes, {"add"}, ""};
    answer_run run(std::move(with));
    const std::string text = "Sure: <tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>";
    std::string content, arguments, name, id;
    std::int64_t n = 0;
    for (const char c : text)
        for (const auto& e : run.on(tokens(n++, std::string(1, c))).events) {
            const auto& d = std::get<delta_event>(e);
            EXPECT_EQ(d.offset, content.size());
            content += d.text;
            for (const auto& call : d.calls) {
                if (!call.id.empty()) id = call.id, name = call.name;
                EXPECT_TRUE(call.id.empty() || call.arguments.empty()) << "the first part has no arguments";
                arguments += call.arguments;
            }
        }
    EXPECT_EQ(content, "Sure: ");
    EXPECT_EQ(name, "add");
    EXPECT_TRUE(id.starts_with("call_"));
    EXPECT_EQ(arguments, "{\"a\": 1}");
    EXPECT_EQ(only<generation_done>(run.on(generation_finished{7, finish::stop})).finish_reason, "tool_calls");
}

TEST(AnswerRun, TheEndWritesTheWholeMessageAndForgetsTheJournal) {
    answer_run run(setup());
    (void)run.on(tokens(0, "Paris."));
    generation_finished f{7, finish::stop};
    f.usage = {10, 6, 4};
    const auto s = run.on(f);
    EXPECT_TRUE(s.over);
    EXPECT_EQ(only<generation_done>(s).finish_reason, "stop");
    EXPECT_EQ(only<generation_done>(s).stopped_by, "");
    ASSERT_EQ(s.records.size(), 2u);
    const auto& m = std::get<put_message>(s.records[0]).message;
    EXPECT_EQ(m.view.content, "Paris.");
    EXPECT_EQ(m.view.finish_reason, "stop");
    EXPECT_EQ(m.usage, f.usage);
    EXPECT_EQ(std::get<end_generation>(s.records[1]).generation, "gen_a");
}

TEST(AnswerRun, AStopStringEndsItAndNamesItsToken) {
    answer_run run(setup({"STOP"}));
    EXPECT_FALSE(run.on(tokens(0, "one ST")).stop_at);
    const auto s = run.on(tokens(6, "OPxx"));
    EXPECT_EQ(s.stop_at, 8);
    EXPECT_TRUE(s.events.empty());
    EXPECT_TRUE(run.on(tokens(10, "more")).events.empty());
    generation_finished f{7, finish::length};
    f.usage = {3, 14, 0};
    const auto end = run.on(f);
    EXPECT_EQ(only<generation_done>(end).finish_reason, "stop");
    EXPECT_EQ(only<generation_done>(end).usage.completion_tokens, 8);
    EXPECT_EQ(std::get<put_message>(end.records[0]).message.view.content, "one ");
}

TEST(AnswerRun, AnExplicitStopSaysWho) {
    answer_run run(setup());
    (void)run.on(tokens(0, "abc"));
    run.request_stop();
    const auto s = run.on(generation_finished{7, finish::cancelled});
    EXPECT_EQ(only<generation_done>(s).finish_reason, "stop");
    EXPECT_EQ(only<generation_done>(s).stopped_by, "user");
}

TEST(AnswerRun, AnErrorKeepsTheText) {
    answer_run run(setup({"zzz"}));
    (void)run.on(tokens(0, "half z"));
    generation_finished f{7, finish::failed, fail(errc::non_finite_logits, "not finite")};
    const auto s = run.on(f);
    ASSERT_EQ(s.events.size(), 2u);
    EXPECT_EQ(std::get<delta_event>(s.events[0]).text, "z") << "what was held back is part of what was generated";
    EXPECT_EQ(std::get<generation_error>(s.events[1]).err.code, errc::non_finite_logits);
    const auto& m = std::get<put_message>(s.records[0]).message.view;
    EXPECT_EQ(m.content, "half z");
    ASSERT_TRUE(m.err);
    EXPECT_EQ(m.err->code, errc::non_finite_logits);
    EXPECT_TRUE(run.on(f).events.empty()) << "it ends once";
}

TEST(AnswerRun, ResumesFromTheJournalWithTheSameText) {
    answer_run run(setup());
    const auto s = run.resume({'H', 'e'}, true);
    ASSERT_EQ(s.events.size(), 1u);
    EXPECT_TRUE(s.records.empty());
    EXPECT_EQ(std::get<delta_event>(s.events[0]).text, "He");
    const auto next = run.on(tokens(2, "y"));
    ASSERT_EQ(next.events.size(), 2u);
    EXPECT_TRUE(std::get<generation_resumed>(next.events[0]).numerics_changed);
    EXPECT_EQ(std::get<delta_event>(next.events[1]).offset, 2u);
    EXPECT_EQ(run.on(tokens(3, "!")).events.size(), 1u) << "said once";
}

TEST(AnswerRun, EchoStandsBeforeTheAnswerWithItsLogprobs) {
    auto a = setup();
    a.generation.clear();
    a.logprobs = true;
    a.echo = "ab";
    a.echo_ids = {'a', 'b'};
    answer_run run(a);
    auto t = tokens(0, "c");
    t.prompt_scores = {{-2.5f, {{'b', -2.5f}}}};
    const auto s = run.on(t);
    ASSERT_EQ(s.events.size(), 2u);
    const auto& echo = std::get<delta_event>(s.events[0]);
    EXPECT_EQ(echo.text, "ab");
    ASSERT_EQ(echo.logprobs.size(), 2u);
    EXPECT_TRUE(std::isnan(echo.logprobs[0].token.logprob));
    EXPECT_DOUBLE_EQ(echo.logprobs[1].token.logprob, -2.5);
    EXPECT_EQ(echo.logprobs[1].top.size(), 1u);
    EXPECT_EQ(echo.logprobs[1].n_chars, 1);
    EXPECT_EQ(std::get<delta_event>(s.events[1]).offset, 2u);
    EXPECT_TRUE(s.records.empty()) << "an ephemeral answer is not stored";
}

TEST(AnswerRun, SaysWhatStoppedIt) {
    const auto ended = [](answer_run& run, finish why) {
        generation_finished f{7, why, {}};
        f.end_token = accepted_token{'!', -0.5f, {}};
        return only<generation_done>(run.on(f));
    };
    answer_run word(setup({"zz", "yy"}));
    (void)word.on(tokens(0, "a yy"));
    EXPECT_EQ(ended(word, finish::stop).stop_type, "word");
    answer_run limit(setup());
    EXPECT_EQ(ended(limit, finish::length).stop_type, "limit");
    answer_run eos(setup());
    EXPECT_EQ(ended(eos, finish::stop).stop_type, "eos");
}

TEST(AnswerRun, TheEndTokenHasLogprobsButNoText) {
    auto a = setup();
    a.logprobs = true;
    answer_run run(a);
    (void)run.on(tokens(0, "x"));
    generation_finished f{7, finish::stop, {}};
    f.end_token = accepted_token{'!', -0.5f, {}};
    const auto s = run.on(f);
    const auto& d = std::get<delta_event>(s.events.at(0));
    EXPECT_TRUE(d.text.empty());
    ASSERT_EQ(d.logprobs.size(), 1u);
    EXPECT_TRUE(d.logprobs[0].end);
    EXPECT_EQ(d.logprobs[0].n_chars, 0);
}

TEST(AnswerRun, TheJournalKeepsMirostatsMu) {
    answer_run run(setup());
    auto t = tokens(0, "x");
    t.mu = 3.25f;
    EXPECT_EQ(std::get<append_tokens>(run.on(t).records.at(0)).mu, 3.25f);
}

}  // namespace
}  // namespace troupe::actors
