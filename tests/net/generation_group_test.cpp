// Parts of one request: how many run at once, what a full queue, a failure and a client that goes do to the others.
#include "net/generation_group.hpp"

#include <gtest/gtest.h>

#include "core/limits.hpp"
#include "tests/net/fake_ports.hpp"

namespace troupe::net {
namespace {

struct group_test : testing::Test {
    std::shared_ptr<generation_group> make(std::size_t n) {
        auto g = std::make_shared<generation_group>(std::make_shared<fake_exchange>(), context,
            std::vector<completion_request>(n),
            generation_group::handlers{[this] { log += "S"; },
                [this](std::size_t part, const event& e) {
                    if (std::holds_alternative<generation_done>(e.payload)) log += std::to_string(part);
                },
                [this](const error& e) { log += "!" + std::string(info(e.code).name); }});
        g->run();
        return g;
    }
    void end(std::size_t asked) {
        sessions.asked_for.at(asked).client->deliver(
            std::make_shared<const event>(event{"s", 0, generation_done{"m", "stop", "", {}, {}, {}, {}}}), {});
    }
    void break_off(std::size_t asked) {
        sessions.asked_for.at(asked).client->deliver(
            std::make_shared<const event>(event{"s", 0, generation_error{"m", fail(errc::internal, "x")}}), {});
    }

    fake_sessions sessions;
    fake_engine engine;
    metrics meters{""};
    config settings;
    result<std::shared_ptr<access_rules>> access = access_rules::make(settings, false);
    services context{sessions, engine, meters, settings, **access, "1"};
    std::string log;
};

TEST_F(group_test, runs_all_parts_a_bounded_number_at_once) {
    sessions.accept = 1000;
    const auto g = make(limits::max_parallel_parts + 2);
    EXPECT_EQ(sessions.asked_for.size(), limits::max_parallel_parts);
    EXPECT_EQ(log, "S");
    for (std::size_t i = 0; i < limits::max_parallel_parts + 2; ++i) end(i);
    EXPECT_EQ(sessions.asked_for.size(), limits::max_parallel_parts + 2);
    EXPECT_TRUE(g->all_done());
}

TEST_F(group_test, a_queue_full_of_its_own_parts_only_makes_it_slower) {
    sessions.accept = 2;
    const auto g = make(4);
    EXPECT_EQ(log, "S");
    ASSERT_EQ(sessions.asked_for.size(), 2u);
    sessions.accept = 1;
    end(0);
    EXPECT_EQ(sessions.asked_for.size(), 3u);
    sessions.accept = 1;
    end(1);
    end(2);
    end(3);
    EXPECT_TRUE(g->all_done());
    EXPECT_EQ(log.find('!'), std::string::npos) << log;
}

TEST_F(group_test, a_full_queue_with_nothing_of_it_running_is_the_answer) {
    sessions.accept = 0;
    make(3);
    EXPECT_EQ(log, "!queue_full");
}

TEST_F(group_test, one_failure_ends_all) {
    sessions.accept = 10;
    make(3);
    break_off(1);
    EXPECT_EQ(log, "S!internal");
    EXPECT_EQ(sessions.cancelled, 2);
    end(0);
    EXPECT_EQ(log, "S!internal");
}

TEST_F(group_test, cancelling_cancels_what_runs) {
    sessions.accept = 10;
    const auto g = make(3);
    end(0);
    g->cancel();
    EXPECT_EQ(sessions.cancelled, 2);
    g->cancel();
    EXPECT_EQ(sessions.cancelled, 2);
}

}  // namespace
}  // namespace troupe::net
