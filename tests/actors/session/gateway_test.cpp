// Gateway and sessions, one message at a time in virtual time.
#include "tests/actors/session/front_fixture.hpp"

namespace troupe::test {
namespace {

class GatewayTest : public front_test {};

std::vector<std::uint64_t> numbers(const recording_client& c) {
    std::vector<std::uint64_t> r;
    for (const auto& t : c.events) r.push_back(t.e->seq);
    return r;
}

TEST_F(GatewayTest, AnAnswerIsToldInOrderAndKept) {
    start();
    model_ready();
    const auto s = create();
    const auto c = follow(s, 0);
    const auto r = say(s, "u1", "Hello there", c, "req-1");
    ASSERT_TRUE(r.ok());
    EXPECT_EQ(r->user_message, "u1");
    EXPECT_EQ(c->kinds(), "mmu");
    EXPECT_EQ(c->events[0].request_id, "req-1");
    EXPECT_EQ(c->events[1].request_id, "") << "only the first event answers the request";
    EXPECT_EQ(*latest().prompt, vocabulary->encode("u:Hello there\n", false, false));
    EXPECT_EQ(latest().client_key, "key");
    tell(generation_position{latest().id, 2, 100});
    tell(prompt_progress{latest().id, 7, 14, 0});
    tokens("Hi");
    tokens("!");
    finish_with(finish::stop);
    EXPECT_EQ(c->kinds(), "mmuqpddD");
    EXPECT_EQ(numbers(*c), (std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6, 7, 8}));
    EXPECT_EQ(c->text(), "Hi!");
    const auto snap = *snapshot_of(s);
    EXPECT_EQ(snap.seq, 8u);
    EXPECT_EQ(snap.info.title, "Hello there");
    ASSERT_EQ(snap.messages.size(), 2u);
    EXPECT_EQ(snap.messages[1].content, "Hi!");
    EXPECT_EQ(snap.messages[1].finish_reason, "stop");
    EXPECT_EQ(snap.leaf, r->assistant_message);
    EXPECT_FALSE(snap.generating);
}

TEST_F(GatewayTest, TokensAreJournaledBeforeAnybodySeesThem) {
    auto held = std::make_shared<held_store_state>();
    stored_session content;
    content.info.id = "ses_a";
    start(held, std::make_shared<const stored_session>(content));
    model_ready();
    const auto c = follow("ses_a", 0);
    const auto commit = [&] {
        ASSERT_FALSE(held->writes.empty());
        const auto w = held->writes.front();
        held->writes.erase(held->writes.begin());
        caf::anon_send(w.owner, store_ack{w.ticket, saved::durable});
        run();
    };
    auto got = std::make_shared<slot<posted>>();
    send("ses_a", command::message{{"u1", "Hi", {}, {}}, {"k", c, "r"}, into(got)});
    run();
    EXPECT_TRUE(got->got.empty()) << "answered before the message was committed";
    ASSERT_EQ(held->writes.size(), 1u);
    const auto& first = *held->writes[0].records;
    ASSERT_EQ(first.size(), 4u);
    const auto& g = std::get<put_generation>(first[3]).generation;
    EXPECT_EQ(g.prompt, *latest().prompt);
    EXPECT_EQ(resolved_from_json(g.params)->sequence.seed, latest().params.seed);
    tokens("A");
    EXPECT_EQ(c->kinds(), "");
    commit();  // the message
    EXPECT_EQ(got->got.size(), 1u);
    EXPECT_EQ(c->kinds(), "") << "event numbers are not reserved yet";
    // Next in the store: the journal of "A", then the reservation of numbers.
    ASSERT_EQ(held->writes.size(), 2u);
    EXPECT_TRUE(std::holds_alternative<append_tokens>(held->writes[0].records->at(0)));
    EXPECT_TRUE(std::holds_alternative<reserve_seq>(held->writes[1].records->at(0)));
    std::swap(held->writes[0], held->writes[1]);
    commit();
    EXPECT_EQ(c->kinds(), "mmu");
    tell(generation_stalled{latest().id, "executor_restart"});
    EXPECT_EQ(c->kinds(), "mmu") << "later events wait behind the tokens before them";
    commit();
    EXPECT_EQ(c->kinds(), "mmudP");
}

TEST_F(GatewayTest, StopEndsTheAnswerAndSaysByWhom) {
    start();
    model_ready();
    const auto s = create();
    const auto c = follow(s, 0);
    ASSERT_TRUE(say(s, "u1", "Hi").ok());
    tokens("one ");
    EXPECT_TRUE(*answered<bool>(s, [](auto a) { return command::stop{a}; }));
    EXPECT_EQ(scheduler_state->cancelled, std::vector<generation_id>{latest().id});
    finish_with(finish::cancelled);
    EXPECT_EQ(c->last<generation_done>().finish_reason, "stop");
    EXPECT_EQ(c->last<generation_done>().stopped_by, "user");
    EXPECT_FALSE(*answered<bool>(s, [](auto a) { return command::stop{a}; })) << "nothing runs any more";
    EXPECT_TRUE(say(s, "u2", "Again").ok());
}

TEST_F(GatewayTest, TheSameIdAgainChangesNothing) {
    start();
    model_ready();
    const auto s = create();
    const auto c = follow(s, 0);
    const auto first = say(s, "u1", "Hi");
    const auto again = say(s, "u1", "Hi");
    ASSERT_TRUE(again.ok());
    EXPECT_TRUE(again->duplicate);
    EXPECT_EQ(again->assistant_message, first->assistant_message);
    EXPECT_EQ(scheduler_state->submitted.size(), 1u);
    EXPECT_EQ(c->kinds(), "mmu");
    const auto busy = say(s, "u2", "Something else");
    ASSERT_FALSE(busy.ok());
    EXPECT_EQ(busy.error().code, errc::session_busy);
}

TEST_F(GatewayTest, ReplayGivesExactlyWhatWasMissedElseASnapshot) {
    start();
    model_ready();
    const auto s = create();
    ASSERT_TRUE(say(s, "u1", "Hi").ok());
    tokens("abc");
    tokens("def");
    const auto late = follow(s, 4);
    EXPECT_EQ(numbers(*late), (std::vector<std::uint64_t>{5}));
    const auto fresh = follow(s);
    EXPECT_EQ(fresh->kinds(), "S");
    EXPECT_EQ(fresh->last<snapshot_event>().seq, 5u);
    ASSERT_TRUE(fresh->last<snapshot_event>().generating);
    EXPECT_EQ(fresh->last<snapshot_event>().generating->text, "abcdef");
    const auto beyond = follow(s, 77);
    EXPECT_EQ(beyond->kinds(), "S");
    tokens("g");
    EXPECT_EQ(late->kinds(), "dd");
    EXPECT_EQ(fresh->kinds(), "Sd");
    EXPECT_EQ(fresh->events.back().e->seq, 6u);
}

TEST_F(GatewayTest, SubscribingAgainReplacesAndLeavingEnds) {
    start();
    model_ready();
    const auto s = create();
    const auto c = follow(s, 0);
    EXPECT_TRUE((answered<bool>(s, [&](auto a) { return command::subscribe{0, c, a}; }).ok()));
    ASSERT_TRUE(say(s, "u1", "Hi").ok());
    EXPECT_EQ(c->kinds(), "mmu") << "each event once";
    send({}, command::disconnect{c});
    tokens("x");
    EXPECT_EQ(c->kinds(), "mmu");
    EXPECT_TRUE(scheduler_state->cancelled.empty()) << "gone is not stop";
}

TEST_F(GatewayTest, ANotSubscribedClientGetsItsDirectAnswer) {
    start();
    model_ready();
    const auto s = create();
    const auto c = std::make_shared<recording_client>();
    ASSERT_TRUE(say(s, "u1", "Hi", c, "r9").ok());
    EXPECT_EQ(c->kinds(), "m");
    EXPECT_EQ(c->events[0].request_id, "r9");
}

TEST_F(GatewayTest, PausesAndGoesOn) {
    start();
    model_ready();
    const auto s = create();
    const auto c = follow(s, 0);
    ASSERT_TRUE(say(s, "u1", "Hi").ok());
    tokens("ab");
    tell(generation_stalled{latest().id, "executor_restart"});
    tell(generation_moving{latest().id, 700, false});
    tokens("cd");
    EXPECT_EQ(c->kinds(), "mmudPRd");
    EXPECT_EQ(c->text(), "abcd");
}

TEST_F(GatewayTest, AnErrorKeepsTheTextAndTheNextMessageWorks) {
    start();
    model_ready();
    const auto s = create();
    const auto c = follow(s, 0);
    ASSERT_TRUE(say(s, "u1", "Hi").ok());
    tokens("half");
    finish_with(finish::failed, fail(errc::executor_poisoned, "the executor died on this request"));
    EXPECT_EQ(c->last<generation_error>().err.code, errc::executor_poisoned);
    const auto snap = *snapshot_of(s);
    EXPECT_EQ(snap.messages[1].content, "half");
    ASSERT_TRUE(snap.messages[1].err);
    EXPECT_TRUE(say(s, "u2", "next").ok());
}

TEST_F(GatewayTest, WhatTheSchedulerRefusesIsNotStored) {
    start();
    model_ready();
    const auto s = create();
    const auto c = follow(s, 0);
    auto full = fail(errc::queue_full, "the queue is full");
    full.retry_after_ms = 1500;
    scheduler_state->refuse = full;
    const auto r = say(s, "u1", "Hi");
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.error().code, errc::queue_full);
    EXPECT_EQ(r.error().retry_after_ms, 1500);
    EXPECT_TRUE(snapshot_of(s)->messages.empty());
    EXPECT_EQ(c->kinds(), "");
    scheduler_state->refuse.reset();
    EXPECT_TRUE(say(s, "u1", "Hi").ok()) << "the same id may be tried again";
}

TEST_F(GatewayTest, ContextErrorsCarryTheNumbersAndStoreNothing) {
    start();
    model_ready("cpu/1", 10);
    const auto s = create();
    const auto r = say(s, "u1", "far too long for this");
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.error().code, errc::context_length_exceeded);
    EXPECT_EQ(r.error().n_ctx, 10);
    EXPECT_EQ(r.error().n_prompt_tokens, 24);
    EXPECT_TRUE(snapshot_of(s)->messages.empty());
}

TEST_F(GatewayTest, RegenerateAndEditAreBranches) {
    start();
    model_ready();
    const auto s = create();
    const auto first = say(s, "u1", "one");
    tokens("A");
    finish_with(finish::stop);
    const auto again = answered<posted>(s, [&](auto a) {
        return command::regenerate{first->assistant_message, {}, {}, a};
    });
    ASSERT_TRUE(again.ok());
    tokens("B");
    finish_with(finish::stop);
    const auto edited = answered<posted>(s, [&](auto a) { return command::edit{"u1", "two", {}, {}, a}; });
    ASSERT_TRUE(edited.ok());
    EXPECT_EQ(*latest().prompt, vocabulary->encode("u:two\n", false, false));
    finish_with(finish::stop);
    const auto snap = *snapshot_of(s);
    ASSERT_EQ(snap.messages.size(), 5u);
    EXPECT_EQ(snap.messages[2].parent, "u1");
    EXPECT_EQ(snap.messages[3].parent, "");
    EXPECT_EQ(snap.leaf, edited->assistant_message);
    EXPECT_EQ(answered<posted>(s,
                  [&](auto a) {
                      return command::edit{"nope", "x", {}, {}, a};
                  })
                  .error()
                  .code,
        errc::not_found);
    EXPECT_EQ(answered<posted>(s,
                  [&](auto a) {
                      return command::regenerate{"u1", {}, {}, a};
                  })
                  .error()
                  .code,
        errc::invalid_request);
}

TEST_F(GatewayTest, DeletingWhileGeneratingStopsAndTellsFollowers) {
    start();
    model_ready();
    const auto s = create();
    const auto c = follow(s, 0);
    ASSERT_TRUE(say(s, "u1", "Hi").ok());
    tokens("x");
    EXPECT_TRUE((answered<bool>(s, [](auto a) { return command::remove{a}; }).ok()));
    EXPECT_EQ(c->kinds(), "mmudEx") << "an answer that began ends, also when its session goes";
    EXPECT_EQ(std::get<generation_error>(c->events[4].e->payload).err.code, errc::not_found);
    EXPECT_EQ(scheduler_state->cancelled.size(), 1u);
    EXPECT_EQ(snapshot_of(s).error().code, errc::not_found);
}

TEST_F(GatewayTest, UnknownSessionsAreNotFound) {
    start();
    model_ready();
    EXPECT_EQ(snapshot_of("ses_none").error().code, errc::not_found);
    EXPECT_EQ(say("ses none", "u1", "x").error().code, errc::not_found);
    EXPECT_EQ(answered<bool>("ses_none", [](auto a) { return command::stop{a}; }).error().code, errc::not_found);
}

TEST_F(GatewayTest, ExportAndImportMakeATwin) {
    start();
    model_ready();
    const auto s = create("My title");
    ASSERT_TRUE(say(s, "u1", "Hi").ok());
    tokens("Yes");
    finish_with(finish::stop);
    const auto json = *answered<std::string>(s, [](auto a) { return command::export_json{a}; });
    const auto twin = answered<session_view>({}, [&](auto a) { return command::import_json{json, a}; });
    ASSERT_TRUE(twin.ok());
    EXPECT_NE(twin->id, s) << "the id is taken";
    EXPECT_EQ(twin->title, "My title");
    EXPECT_EQ(snapshot_of(twin->id)->messages, snapshot_of(s)->messages);
    const auto page = answered<session_page>({}, [](auto a) { return command::list{10, "", "", a}; });
    EXPECT_EQ(page->sessions.size(), 2u);
}

TEST_F(GatewayTest, UntilTheModelIsReadyMessagesAreRefused) {
    start();
    const auto s = create();
    const auto r = say(s, "u1", "Hi");
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.error().code, errc::not_ready);
    model_ready();
    EXPECT_TRUE(say(s, "u1", "Hi").ok());
}

}  // namespace
}  // namespace troupe::test
