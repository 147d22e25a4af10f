// Group commit and the order of acknowledgements.
#include "actors/store/store_actor.hpp"

#include "tests/support/actor_fixture.hpp"

namespace troupe::actors {
namespace {

class StoreActorTest : public test::actor_test {
 protected:
    static caf::behavior collector(caf::event_based_actor*, std::shared_ptr<std::vector<store_ack>> acks) {
        return {[acks](const store_ack& a) { acks->push_back(a); }, [](const persistence_state&) {}};
    }
    store_write write(std::uint64_t ticket, std::int64_t pos) {
        auto records =
            std::make_shared<const std::vector<record>>(std::vector<record>{append_tokens{"gen_1", pos, {1}}});
        return {ticket, records, owner};
    }
    std::shared_ptr<std::vector<store_ack>> acks = std::make_shared<std::vector<store_ack>>();
    caf::actor owner = spawn(collector, acks);
    caf::actor store = spawn(store_actor, store_options{{}, "a test"}, owner);
};

TEST_F(StoreActorTest, EverythingThatWaitsIsOneTransaction) {
    run();
    for (std::uint64_t i = 1; i <= 8; ++i) caf::anon_send(store, write(i, static_cast<std::int64_t>(i)));
    run();
    ASSERT_EQ(acks->size(), 8u);
    for (std::uint64_t i = 1; i <= 8; ++i) EXPECT_EQ((*acks)[i - 1].ticket, i);
    EXPECT_NE(ask<std::string>(store, state_atom::value).find("\"commits\":1,\"records\":8"), std::string::npos);
}

TEST_F(StoreActorTest, AReadSeesTheWritesBeforeIt) {
    session_view v{"ses_1", "t", {}, 1, 1};
    auto records = std::make_shared<const std::vector<record>>(std::vector<record>{put_session{v, "", 7}});
    caf::anon_send(store, store_write{1, records, owner});
    const auto s = ask<session_ptr>(store, store_load{"ses_1"});
    ASSERT_TRUE(s);
    EXPECT_EQ(s->seq_reserved, 7u);
    EXPECT_EQ(ask<page_ptr>(store, store_list{10, "", ""})->sessions.size(), 1u);
    EXPECT_EQ(ask_error<page_ptr>(store, store_list{10, "ses_2", ""}).code, errc::not_found);
}

TEST_F(StoreActorTest, InMemoryIsAcknowledgedAsNotDurable) {
    caf::anon_send(store, write(1, 0));
    run();
    ASSERT_EQ(acks->size(), 1u);
    EXPECT_EQ((*acks)[0].how, saved::deferred);
}

}  // namespace
}  // namespace troupe::actors
