// The scheduler's actor message by message, in virtual time, with scripted executor and owner.
#include "actors/scheduler/scheduler_actor.hpp"

#include <deque>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include "layouts.hpp"
#include "tests/support/actor_fixture.hpp"

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;
using test::full_layout;
using test::info_of;
using test::tokens_from;

/// What the executor was sent.
struct mailbox {
    std::deque<plan> plans;
    std::vector<sequence_id> cancelled;
    std::vector<std::string> order;  ///< "plan", "cancel"
};

/// What an owner heard, in order, as short words.
struct ear {
    std::vector<std::string> heard;
    std::vector<token_id> tokens;
    generation_finished end;
};

caf::behavior fake_executor(caf::event_based_actor*, std::shared_ptr<mailbox> box) {
    return {
        [box](plan& p) {
            box->plans.push_back(std::move(p));
            box->order.emplace_back("plan");
        },
        [box](cancel_atom, const std::vector<sequence_id>& ids) {
            box->cancelled.insert(box->cancelled.end(), ids.begin(), ids.end());
            box->order.emplace_back("cancel");
        },
    };
}

caf::behavior fake_owner(caf::event_based_actor* self, std::shared_ptr<ear> e, caf::actor scheduler) {
    return {
        [self, e, scheduler](submit_generation& g) {
            g.owner = caf::actor_cast<caf::actor>(self);
            self->request(scheduler, caf::infinite, std::move(g))
                .then([e](bool) { e->heard.emplace_back("accepted"); },
                    [e](const caf::error& x) {
                        e->heard.push_back("refused " + std::string(info(from_caf_error(x).code).name));
                    });
        },
        [e](const generation_position& p) { e->heard.push_back("position " + std::to_string(p.position)); },
        [e](const prompt_progress& p) { e->heard.push_back("progress " + std::to_string(p.processed)); },
        [e](const generation_tokens& t) {
            e->heard.emplace_back("tokens");
            for (const auto& a : t.tokens) e->tokens.push_back(a.id);
        },
        [e](const generation_stalled& s) { e->heard.push_back("stalled " + s.reason); },
        [e](const generation_moving&) { e->heard.emplace_back("moving"); },
        [e](const generation_finished& f) {
            e->heard.emplace_back("finished");
            e->end = f;
        },
    };
}

class SchedulerActor : public troupe::test::actor_test {
 protected:
    SchedulerActor() {
        policy_settings s;
        s.max_seqs = 1;
        s.queue_limit = 2;
        s.queue_timeout_s = 30;
        meters = std::make_shared<metrics>("");
        scheduler_ = own(spawn_scheduler(system, {s, meters}));
        executor = spawn(fake_executor, box);
        run();
    }
    void up(std::uint64_t epoch = 1) {
        caf::anon_send(scheduler_, executor_up{executor, info_of(full_layout(), 16, epoch)});
        run();
    }
    std::shared_ptr<ear> submit(generation_id id, int prompt = 20, std::int64_t max_tokens = 3) {
        auto e = std::make_shared<ear>();
        owners[id] = spawn(fake_owner, e, scheduler_);
        submit_generation g;
        g.id = id;
        g.client_key = "a";
        g.prompt = std::make_shared<const std::vector<token_id>>(tokens_from(static_cast<token_id>(100 * id), prompt));
        g.params.max_tokens = max_tokens;
        g.prompt_text = "tell me about otters";
        caf::anon_send(owners[id], std::move(g));
        run();
        return e;
    }
    /// Answers the oldest plan: every row sampled gives `token`.
    void answer(token_id token = 42, bool ended = false) {
        ASSERT_FALSE(box->plans.empty());
        const plan p = box->plans.front();
        box->plans.pop_front();
        plan_result r{p.epoch, p.id, {}, 10'000, std::vector<std::uint8_t>(p.ops.size(), 1)};
        for (const plan_row& row : p.rows) {
            row_result x{row.seq, row.pos, row.n};
            x.sampled = row.sample;
            x.token = token;
            x.ended = ended;
            r.rows.push_back(x);
        }
        advance(10ms);
        caf::anon_send(scheduler_, std::move(r));
        run();
    }
    std::string metrics_text() { return meters->text(); }

    std::shared_ptr<mailbox> box = std::make_shared<mailbox>();
    std::shared_ptr<metrics> meters;
    caf::actor scheduler_, executor;
    std::map<generation_id, caf::actor> owners;
};

TEST_F(SchedulerActor, TheExactMessagesOfOneGeneration) {
    up();
    const auto e = submit(1);
    EXPECT_EQ(e->heard, (std::vector<std::string>{"accepted", "progress 0"}))
        << "the answer comes before what follows from it";
    ASSERT_EQ(box->plans.size(), 1u);
    answer();  // the segment
    ASSERT_EQ(box->plans.size(), 2u);
    EXPECT_EQ(box->plans[0].opens.size(), 1u);
    EXPECT_EQ(box->plans[0].rows[0].n, 20);
    answer(7);
    answer(8);
    answer(9, true);
    EXPECT_EQ(e->tokens, (std::vector<token_id>{7, 8, 9}));
    EXPECT_EQ(e->heard,
        (std::vector<std::string>{"accepted", "progress 0", "progress 20", "tokens", "tokens", "tokens", "finished"}));
    EXPECT_EQ(e->end.why, finish::length);
    EXPECT_EQ(e->end.usage, (usage_counts{20, 3, 0}));
    ASSERT_EQ(box->plans.size(), 1u) << "the sequence is closed";
    EXPECT_EQ(box->plans[0].closes.size(), 1u);
    answer();
    EXPECT_TRUE(box->plans.empty());
    EXPECT_EQ(box->order, (std::vector<std::string>(5, "plan")));
}

TEST_F(SchedulerActor, WhatWaitsForTheExecutorStartsWhenItIsUp) {
    const auto e = submit(1);
    EXPECT_EQ(e->heard, (std::vector<std::string>{"accepted", "position 1"}));
    EXPECT_TRUE(box->plans.empty());
    up();
    EXPECT_EQ(box->plans.size(), 1u);
}

TEST_F(SchedulerActor, CancelGoesPastThePlansAndTheOwnerHearsAtOnce) {
    up();
    const auto e = submit(1, 200, 50);
    answer();
    ASSERT_EQ(box->plans.size(), 2u);
    caf::anon_send(scheduler_, cancel_atom::value, generation_id{1});
    run();
    EXPECT_EQ(e->heard.back(), "finished");
    EXPECT_EQ(e->end.why, finish::cancelled);
    EXPECT_EQ(box->cancelled.size(), 1u);
    EXPECT_EQ(box->order.back(), "cancel");
}

TEST_F(SchedulerActor, AnOwnerThatDiesIsCancelled) {
    up();
    submit(1, 200, 50);
    answer();
    caf::anon_send_exit(owners[1], caf::exit_reason::kill);
    run();
    EXPECT_EQ(box->cancelled.size(), 1u);
}

TEST_F(SchedulerActor, AFullQueueIsATypedErrorWithATime) {
    up();
    submit(1, 20, 50);
    submit(2);
    submit(3);
    const auto e = submit(4);
    EXPECT_EQ(e->heard, (std::vector<std::string>{"refused queue_full"}));
    submit_generation g;
    g.id = 5;
    g.prompt = std::make_shared<const std::vector<token_id>>(tokens_from(10, 5));
    g.params.max_tokens = 1;
    g.owner = owners[1];
    const error err = ask_error<bool>(scheduler_, std::move(g));
    EXPECT_EQ(err.code, errc::queue_full);
    EXPECT_GE(err.retry_after_ms, 1000);
}

TEST_F(SchedulerActor, PressureIsForgottenWithTheCompactorThatToldOfIt) {
    up();
    caf::anon_send(scheduler_, memory_pressure{true, 1 << 20});
    EXPECT_EQ(submit(1)->heard, (std::vector<std::string>{"refused out_of_memory"}));
    const auto successor = spawn([](caf::event_based_actor*) -> caf::behavior { return {[](const kv_usage&) {}}; });
    caf::anon_send(scheduler_, compactor_atom::value, successor);
    const auto taken = submit(2)->heard;
    EXPECT_TRUE(taken.empty() || taken.front() != "refused out_of_memory");
}

TEST_F(SchedulerActor, QueueTimeoutInVirtualTime) {
    up();
    submit(1, 20, 50);
    const auto e = submit(2);
    advance(29'900ms);
    EXPECT_EQ(e->heard, (std::vector<std::string>{"accepted", "position 1"}));
    advance(200ms);
    EXPECT_EQ(e->heard.back(), "finished");
    EXPECT_EQ(e->end.err.code, errc::queue_timeout);
}

TEST_F(SchedulerActor, AnExecutorThatDiesPausesAndItsSuccessorGoesOn) {
    up(1);
    const auto e = submit(1);
    answer();
    answer(7);
    caf::anon_send(scheduler_, executor_down{1, "crash", box->plans.front().id});
    run();
    EXPECT_EQ(e->heard.back(), "stalled executor_restart");
    const auto old = box->plans;
    box->plans.clear();
    advance(500ms);
    up(2);
    ASSERT_EQ(box->plans.size(), 1u);
    EXPECT_EQ(box->plans[0].epoch, 2u);
    // A result of the dead one arrives late.
    caf::anon_send(scheduler_,
        plan_result{1, old.front().id, {{old.front().rows[0].seq, 20, 1, row_status::ok, true, 66}}, 1, {}});
    run();
    answer();
    const auto reopened = box->plans.front().opens;
    ASSERT_EQ(reopened.size(), 1u);
    auto known = tokens_from(100, 20);
    known.push_back(7);
    EXPECT_EQ(unpack_ids(reopened[0].tokens), known) << "prompt + accepted";
    answer(8);
    EXPECT_EQ(e->tokens, (std::vector<token_id>{7, 8}));
    EXPECT_EQ(e->heard[e->heard.size() - 2], "moving");
    const auto text = metrics_text();
    EXPECT_NE(text.find("troupe_requests_resumed_total 1"), std::string::npos);
    EXPECT_NE(text.find("troupe_recovery_seconds_count 1"), std::string::npos);
}

TEST_F(SchedulerActor, AStopStringArrivesAsATokenCount) {
    up();
    const auto e = submit(1, 20, 50);
    for (const token_id t : {0, 7, 8, 9}) answer(t);
    caf::anon_send(scheduler_, stop_at_atom::value, generation_id{1}, std::int64_t{2});
    run();
    EXPECT_EQ(e->end.why, finish::stop);
    EXPECT_EQ(e->end.n_tokens, 2);
    EXPECT_EQ(box->cancelled.size(), 1u);
}

TEST_F(SchedulerActor, ArmedFaultsMarkThePromptsTheyLookFor) {
    fault_spec f;
    f.request_contains = "otters";
    caf::anon_send(scheduler_, f);
    up();
    submit(1);
    answer();
    EXPECT_TRUE(box->plans.front().opens[0].watch_text);
}

TEST_F(SchedulerActor, NothingTicksWhenIdle) {
    up();
    submit(1);
    for (int i = 0; i < 5; ++i) answer(7, i == 3);
    EXPECT_TRUE(box->plans.empty());
    advance(1s);  // what a timer had left
    EXPECT_FALSE(scheduler().has_job());
    std::size_t woken = 0;
    for (int minute = 0; minute < 60; ++minute) {
        scheduler().advance_time(60s);
        woken += scheduler().has_job();
        run();
    }
    EXPECT_EQ(woken, 0u);
}

TEST_F(SchedulerActor, TellsWhoFollowsWhenThereIsWork) {
    auto told = std::make_shared<std::string>();
    const auto follower = spawn([told](caf::event_based_actor*) -> caf::behavior {
        return {[told](const work_state& w) { *told += w.idle ? 'i' : 'w'; }};
    });
    caf::anon_send(scheduler_, activity_atom::value, follower);
    run();
    EXPECT_EQ(*told, "i");
    submit(1);
    EXPECT_EQ(*told, "iw") << "also when nobody can compute it yet";
    up();
    answer();
    answer(7);
    answer(8);
    answer(9, true);
    while (!box->plans.empty()) answer();
    EXPECT_EQ(*told, "iwi");
}

TEST_F(SchedulerActor, AnExecutorPutToSleepIsNoDeath) {
    up();
    caf::anon_send(scheduler_, executor_down{1, "unloaded", 0});
    const auto e = submit(1);
    EXPECT_EQ(e->heard.front(), "accepted");
    EXPECT_TRUE(box->plans.empty()) << "it waits";
    EXPECT_NE(ask<std::string>(scheduler_, state_atom::value).find("\"executor_deaths\":0"), std::string::npos);
    up(2);
    answer();
    answer(7);
    EXPECT_EQ(e->tokens, std::vector<token_id>{7});
}

TEST_F(SchedulerActor, AnOperatorsUnloadEndsWhatWaitsAndRuns) {
    up();
    const auto runs = submit(1), waits = submit(2);
    answer();
    answer(7);
    EXPECT_TRUE(ask<bool>(scheduler_, unload_atom::value));
    for (const auto& e : {runs, waits}) {
        EXPECT_EQ(e->heard.back(), "finished");
        EXPECT_EQ(e->end.why, finish::failed);
        EXPECT_EQ(e->end.err.code, errc::not_ready);
    }
    EXPECT_EQ(runs->tokens, std::vector<token_id>{7}) << "what was made is kept";
    caf::anon_send(scheduler_, executor_down{1, "unloaded", 0});
    run();
    EXPECT_EQ(submit(3)->heard.front(), "accepted") << "the next request is taken";
}

TEST_F(SchedulerActor, ADegradedEngineSendsOnePlanAtATimeAndSmallOnes) {
    up();
    caf::anon_send(scheduler_, step_bounds{1, 1, 8});
    const auto e = submit(1);
    answer();
    for (int sent = 0; sent < 20; sent += 8) {
        ASSERT_EQ(box->plans.size(), 1u);
        EXPECT_EQ(box->plans[0].rows.at(0).n, std::min(8, 20 - sent));
        answer(7);
    }
    EXPECT_EQ(e->tokens, std::vector<token_id>{7});
    EXPECT_EQ(box->plans.size(), 1u) << "nothing is sent ahead";
    caf::anon_send(scheduler_, step_bounds{});
    run();
    EXPECT_EQ(box->plans.size(), 2u);
}

TEST_F(SchedulerActor, StateAndCompactAnswerJsonAndDrainCloses) {
    up();
    submit(1);
    for (int i = 0; i < 5; ++i) answer(7, i == 3);
    EXPECT_NE(ask<std::string>(scheduler_, state_atom::value).find("\"prefix_cache_nodes\":1"), std::string::npos);
    EXPECT_NE(ask<std::string>(scheduler_, compact_atom::value).find("{\"segments_before\":1,\"segments\":1,"),
        std::string::npos);
    caf::anon_send(scheduler_, memory_order{steady_time::max(), 0});
    run();
    ASSERT_EQ(box->plans.size(), 1u);
    EXPECT_EQ(box->plans.front().ops.size(), 1u);
    EXPECT_TRUE(ask<bool>(scheduler_, drain_atom::value));
    EXPECT_EQ(submit(2)->heard, (std::vector<std::string>{"refused shutting_down"}));
    const auto text = metrics_text();
    EXPECT_NE(text.find("troupe_requests_total{outcome=\"length\"} 1"), std::string::npos) << text;
    EXPECT_NE(text.find("troupe_kv_blocks{state=\"owned\"} 0"), std::string::npos);
}

}  // namespace
}  // namespace troupe::actors
