// Answers of the OpenAI routes: ephemeral sessions, prompts as text or ids, echo, and their end.
#include "tests/actors/session/front_fixture.hpp"

namespace troupe::test {
namespace {

class CompleteTest : public front_test {
 protected:
    CompleteTest() {
        start();
        model_ready();
    }
    result<generation_ticket> complete(completion_request r) {
        return answered<generation_ticket>(r.session_id, [&](auto a) { return command::complete{r, client, a}; });
    }
    static completion_request chat(const std::string& text) {
        completion_request r;
        r.messages = {{"user", text, {}}};
        r.client_key = "key";
        return r;
    }
    std::shared_ptr<recording_client> client = std::make_shared<recording_client>();
};

TEST_F(CompleteTest, AChatIsAnsweredAndLeavesNothing) {
    const auto t = complete(chat("Hi"));
    ASSERT_TRUE(t.ok());
    EXPECT_EQ(t->model, "tiny");
    tokens("Hel");
    tokens("lo");
    finish_with(finish::length);
    EXPECT_EQ(client->kinds(), "ddD");
    EXPECT_EQ(client->text(), "Hello");
    EXPECT_EQ(client->events[0].e->session, t->session);
    EXPECT_EQ(client->last<generation_done>().finish_reason, "length");
    EXPECT_TRUE((answered<session_page>({}, [](auto a) { return command::list{10, "", "", a}; })->sessions.empty()));
    EXPECT_EQ(snapshot_of(t->session).error().code, errc::not_found);
}

TEST_F(CompleteTest, AnAbandonedOneIsCancelled) {
    const auto t = complete(chat("Hi"));
    tokens("x");
    send(t->session, command::cancel{});
    run();
    EXPECT_EQ(scheduler_state->cancelled, std::vector<generation_id>{latest().id});
    finish_with(finish::cancelled);
    EXPECT_EQ(client->kinds(), "dD");
}

TEST_F(CompleteTest, TextPromptsAndIds) {
    completion_request r;
    r.what = completion_request::kind::text;
    r.prompt = "abc";
    ASSERT_TRUE(complete(r).ok());
    EXPECT_EQ(*latest().prompt, (std::vector<token_id>{'a', 'b', 'c'}));
    r.prompt_ids = {{1, 2, 3}};
    ASSERT_TRUE(complete(r).ok());
    EXPECT_EQ(*latest().prompt, (std::vector<token_id>{1, 2, 3}));
    r.prompt_name = "prompt";
    r.prompt_ids = {{1, -1}};
    EXPECT_EQ(complete(r).error().param, "prompt");
    r.prompt_ids = {{100000}};
    EXPECT_EQ(complete(r).error().code, errc::invalid_request);
}

TEST_F(CompleteTest, EchoGivesThePromptWithItsLogprobs) {
    completion_request r;
    r.what = completion_request::kind::text;
    r.prompt = "ab";
    r.echo = true;
    r.params.max_tokens = 0;
    r.params.n_logprobs = 1;
    ASSERT_TRUE(complete(r).ok());
    EXPECT_TRUE(latest().params.prompt_logprobs);
    EXPECT_EQ(latest().params.max_tokens, 0);
    generation_tokens t{latest().id, 0, {}, {{-1.5f, {}}}};
    tell(t);
    finish_with(finish::length);
    EXPECT_EQ(client->kinds(), "dD");
    EXPECT_EQ(client->text(), "ab");
    EXPECT_EQ(std::get<delta_event>(client->events[0].e->payload).logprobs.size(), 2u);
}

TEST_F(CompleteTest, AStopStringIsCutAndReported) {
    auto r = chat("Hi");
    r.params.stop = {{"\nUser:"}};
    ASSERT_TRUE(complete(r).ok());
    tokens("Yes.\nUs");
    EXPECT_EQ(client->text(), "Yes.");
    tokens("er: and more");
    ASSERT_EQ(scheduler_state->stopped_at.size(), 1u);
    EXPECT_EQ(scheduler_state->stopped_at[0].second, 10);
    finish_with(finish::stop);
    EXPECT_EQ(client->text(), "Yes.");
    EXPECT_EQ(client->last<generation_done>().usage.completion_tokens, 10);
}

TEST_F(CompleteTest, RefusalsComeAsAnswersAndNothingIsLeft) {
    scheduler_state->refuse = fail(errc::queue_full, "full");
    EXPECT_EQ(complete(chat("Hi")).error().code, errc::queue_full);
    EXPECT_EQ(ask<std::string>(gateway, state_atom::value).find("ses_"), std::string::npos);
}

TEST_F(CompleteTest, AStoredSessionCanBeContinued) {
    const auto s = create();
    auto r = chat("Hello");
    r.session_id = s;
    const auto t = complete(r);
    ASSERT_TRUE(t.ok());
    EXPECT_EQ(t->session, s);
    tokens("Yes");
    send(s, command::cancel{});
    run();
    EXPECT_TRUE(scheduler_state->cancelled.empty()) << "the answer belongs to the session";
    finish_with(finish::stop);
    EXPECT_EQ(client->text(), "Yes");
    EXPECT_EQ(snapshot_of(s)->messages.size(), 2u);
    r.messages.push_back({"user", "more", {}});
    EXPECT_EQ(complete(r).error().param, "messages");
}

TEST_F(CompleteTest, ShutdownEndsItWithAnErrorAndNoReplyIsForgotten) {
    ASSERT_TRUE(complete(chat("Hi")).ok());
    tokens("x");
    bool done = false;
    caf::anon_send(gateway, gateway_shutdown{[&] { done = true; }});
    run();
    EXPECT_TRUE(done);
    EXPECT_EQ(client->last<generation_error>().err.code, errc::shutting_down);
    const auto before = client->events.size();
    EXPECT_EQ(complete(chat("Hi")).error().code, errc::shutting_down);
    EXPECT_EQ(client->events.size(), before);
    auto lost = std::make_shared<slot<bool>>();
    caf::anon_send_exit(gateway, caf::exit_reason::kill);
    send("ses_a", command::stop{into(lost)});
    run();
    ASSERT_EQ(lost->got.size(), 1u);
    EXPECT_EQ(lost->got[0].error().code, errc::shutting_down);
}

TEST_F(CompleteTest, DrainWaitsForWhatRunsAndRefusesTheRest) {
    ASSERT_TRUE(complete(chat("Hi")).ok());
    bool idle = false;
    caf::anon_send(gateway, gateway_drain{[&] { idle = true; }});
    run();
    EXPECT_FALSE(idle);
    EXPECT_EQ(complete(chat("more")).error().code, errc::shutting_down);
    tokens("x");
    finish_with(finish::stop);
    EXPECT_TRUE(idle);
    EXPECT_EQ(client->kinds(), "dD");
}

TEST_F(CompleteTest, BeforeAStopOnlyTheAnswersNobodyCanGoOnWithAreWaitedFor) {
    const auto s = create();
    ASSERT_TRUE(say(s, "u1", "Hi").ok());
    bool idle = false, ended = false;
    caf::anon_send(gateway, gateway_drain{[&] { ended = true; }, false});
    run();
    EXPECT_TRUE(ended) << "this one is in the journal";
    caf::anon_send(gateway, gateway_drain{[&] { idle = true; }});
    run();
    EXPECT_FALSE(idle);
    finish_with(finish::stop);
    EXPECT_TRUE(idle);
}

TEST_F(CompleteTest, BeforeAStopAnAnswerWithoutASessionMayEnd) {
    ASSERT_TRUE(complete(chat("Hi")).ok());
    bool ended = false;
    caf::anon_send(gateway, gateway_drain{[&] { ended = true; }, false});
    run();
    EXPECT_FALSE(ended);
    finish_with(finish::stop);
    EXPECT_TRUE(ended);
}

TEST_F(CompleteTest, AnEmbeddingIsAPromptWithoutAnAnswer) {
    completion_request r;
    r.what = completion_request::kind::embedding;
    r.pool = pooling::last;
    r.prompt = "ab";
    r.prompt_name = "input";
    ASSERT_TRUE(complete(r).ok());
    EXPECT_EQ(latest().params.pool, pooling::last);
    EXPECT_EQ(latest().params.max_tokens, 0);
    generation_tokens t{latest().id};
    t.embedding = {0.6f, 0.8f};
    tell(t);
    finish_with(finish::length);
    EXPECT_EQ(std::get<embedding_ready>(client->events.at(0).e->payload).values, t.embedding);
    r.prompt.clear();
    EXPECT_EQ(complete(r).error().param, "input");
}

}  // namespace
}  // namespace troupe::test
