// The whole engine behind its ports: real threads, the executor inside this process, a tiny model.
#include "actors/engine.hpp"

#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <mutex>

#include <boost/json.hpp>
#include <gtest/gtest.h>
#include <unistd.h>

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;
constexpr auto patience = 40s;

/// Collects events; a test waits until something it wants has happened.
class waiting_client final : public client_port {
 public:
    void deliver(event_ptr e, std::string_view) override {
        const std::lock_guard lock(mutex_);
        events_.push_back(std::move(e));
        changed_.notify_all();
    }
    template <class F> bool wait_for(F&& wanted) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, patience, [&] {
            for (const auto& e : events_)
                if (wanted(*e)) return true;
            return false;
        });
    }
    bool wait_for_end() {
        return wait_for([](const event& e) {
            return std::holds_alternative<generation_done>(e.payload) ||
                   std::holds_alternative<generation_error>(e.payload);
        });
    }
    std::string text() {
        const std::lock_guard lock(mutex_);
        std::string r;
        for (const auto& e : events_)
            if (const auto* d = std::get_if<delta_event>(&e->payload)) {
                EXPECT_LE(d->offset, r.size());
                r.resize(d->offset);
                r += d->text;
            }
        return r;
    }
    std::optional<error> failure() {
        const std::lock_guard lock(mutex_);
        for (const auto& e : events_)
            if (const auto* f = std::get_if<generation_error>(&e->payload)) return f->err;
        return {};
    }

 private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<event_ptr> events_;
};

class EngineTest : public ::testing::Test {
 protected:
    EngineTest() : dir_(std::filesystem::temp_directory_path() / ("troupe-engine-" + std::to_string(::getpid()))) {
        std::filesystem::remove_all(dir_);
        const char* cache = std::getenv("TROUPE_TEST_CACHE");
        EXPECT_NE(cache, nullptr) << "TROUPE_TEST_CACHE must be set";
        settings_.models = {"tiny=" + std::string(cache ? cache : "") + "/tiny/llama.gguf"};
        settings_.executor = "inline";
        settings_.threads = 1;
        settings_.kv_memory = 64u << 20;
        settings_.data_dir = dir_.string();
        settings_.log_level = "warn";
        settings_.defaults.temperature = 0;
    }
    ~EngineTest() override {
        engine_.reset();
        std::filesystem::remove_all(dir_);
    }

    void start() {
        engine_.reset();
        auto ready = std::make_shared<std::promise<std::optional<error>>>();
        start_callbacks callbacks;
        callbacks.ready = [ready] { ready->set_value({}); };
        callbacks.failed = [ready](error e) { ready->set_value(std::move(e)); };
        auto e = engine::start(settings_, callbacks, nullptr);
        ASSERT_TRUE(e.ok()) << e.error().message;
        engine_ = std::move(*e);
        auto outcome = ready->get_future();
        ASSERT_EQ(outcome.wait_for(patience), std::future_status::ready);
        started_ = outcome.get();
    }
    template <class T, class F> static result<T> wait(F&& call) {
        auto p = std::make_shared<std::promise<result<T>>>();
        auto f = p->get_future();
        call(reply<T>([p](result<T> r) { p->set_value(std::move(r)); }));
        if (f.wait_for(patience) != std::future_status::ready) return fail(errc::internal, "no reply");
        return f.get();
    }
    session_port& sessions() { return engine_->sessions(); }
    engine_port& control() { return engine_->control(); }

    std::string create() {
        return wait<session_view>([&](auto r) { sessions().create("", {}, r); })->id;
    }
    result<posted> say(const std::string& session, const std::string& id, const std::string& text,
        std::int64_t max_tokens, const std::shared_ptr<waiting_client>& c) {
        new_message m{id, text, {}, {}};
        m.params.max_tokens = max_tokens;
        m.params.ignore_eos = true;
        m.params.seed = 7;
        m.params.temperature = 0.9;
        EXPECT_TRUE(wait<bool>([&](auto r) { sessions().subscribe(session, {}, c, r); }).ok());
        return wait<posted>([&](auto r) { sessions().message(session, m, "key", c, "r", r); });
    }

    std::filesystem::path dir_;
    config settings_;
    std::unique_ptr<engine> engine_;
    std::optional<error> started_;
};

TEST_F(EngineTest, AnswersAndKeepsTheAnswerOverARestart) {
    start();
    ASSERT_FALSE(started_) << started_->message;
    const auto s = create();
    const auto c = std::make_shared<waiting_client>();
    ASSERT_TRUE(say(s, "u1", "Hello", 24, c).ok());
    ASSERT_TRUE(c->wait_for_end());
    ASSERT_FALSE(c->failure()) << c->failure()->message;
    const auto before = wait<snapshot_event>([&](auto r) { sessions().get(s, r); });
    ASSERT_TRUE(before.ok());
    ASSERT_EQ(before->messages.size(), 2u);
    EXPECT_EQ(before->messages[1].content, c->text());
    EXPECT_EQ(before->messages[1].finish_reason, "length");
    EXPECT_TRUE(engine_->shutdown(5s));
    start();
    const auto after = wait<snapshot_event>([&](auto r) { sessions().get(s, r); });
    ASSERT_TRUE(after.ok());
    EXPECT_EQ(after->messages, before->messages);
}

TEST_F(EngineTest, AnInterruptedAnswerEndsWithTheSameText) {
    start();
    ASSERT_FALSE(started_) << started_->message;
    const auto whole = std::make_shared<waiting_client>();
    ASSERT_TRUE(say(create(), "u1", "Tell me", 150, whole).ok());
    ASSERT_TRUE(whole->wait_for_end());
    const auto s = create();
    const auto c = std::make_shared<waiting_client>();
    ASSERT_TRUE(say(s, "u1", "Tell me", 150, c).ok());
    ASSERT_TRUE(c->wait_for([](const event& e) {
        const auto* d = std::get_if<delta_event>(&e.payload);
        return d && d->n_tokens >= 5;
    }));
    EXPECT_TRUE(engine_->shutdown(5s));
    start();
    const auto again = std::make_shared<waiting_client>();
    ASSERT_TRUE(wait<bool>([&](auto r) { sessions().subscribe(s, {}, again, r); }).ok());
    const auto done = [&] { return wait<snapshot_event>([&](auto r) { sessions().get(s, r); }); };
    if (done()->generating) {
        ASSERT_TRUE(again->wait_for_end());
    }
    EXPECT_EQ(done()->messages.at(1).content, whole->text());
}

TEST_F(EngineTest, TextToolsHealthAndState) {
    start();
    ASSERT_FALSE(started_) << started_->message;
    const auto pieces = wait<std::vector<token_piece>>([&](auto r) { control().tokenize("hello", false, true, r); });
    ASSERT_TRUE(pieces.ok());
    ASSERT_FALSE(pieces->empty());
    std::vector<std::int32_t> ids;
    for (const auto& p : *pieces) ids.push_back(p.id);
    const auto text = wait<std::string>([&](auto r) { control().detokenize(ids, r); });
    EXPECT_NE(text->find("hello"), std::string::npos);
    EXPECT_EQ(wait<std::string>([&](auto r) { control().detokenize({-1}, r); }).error().param, "tokens");
    const auto prompt = wait<std::string>([&](auto r) { control().apply_template({{"user", "Hi", {}}}, {}, r); });
    EXPECT_NE(prompt->find("Hi"), std::string::npos);
    EXPECT_EQ(wait<health_report>([&](auto r) { control().health(r); })->status, "ok");
    const auto cards = wait<std::vector<model_card>>([&](auto r) { control().models(r); });
    ASSERT_EQ(cards->size(), 1u);
    EXPECT_EQ(cards->at(0).id, "tiny");
    EXPECT_GT(cards->at(0).n_ctx, 0);
    const auto state = boost::json::parse(*wait<std::string>([&](auto r) { control().state(r); })).as_object();
    EXPECT_GE(state.at("actors").as_array().size(), 6u);
    for (const auto& a : state.at("actors").as_array())
        for (const char* key : {"name", "state", "mailbox", "restarts"})
            EXPECT_TRUE(a.as_object().contains(key)) << key;
    EXPECT_TRUE(state.at("queue").is_array());
    EXPECT_TRUE(state.at("running").is_array());
    const auto props = boost::json::parse(*wait<std::string>([&](auto r) { control().props(r); })).as_object();
    EXPECT_TRUE(props.at("default_generation_settings").as_object().contains("temperature"));
    const auto slots = boost::json::parse(*wait<std::string>([&](auto r) { control().slots(r); })).as_array();
    EXPECT_EQ(static_cast<std::int64_t>(slots.size()), settings_.max_seqs);
    EXPECT_EQ(wait<bool>([&](auto r) { control().arm_fault({"executor", "crash"}, r); }).error().code, errc::forbidden);
    EXPECT_EQ(
        wait<std::string>([&](auto r) { control().admin("unload", r); }).error().code, errc::unsupported_parameter);
    EXPECT_TRUE(wait<std::string>([&](auto r) { control().admin("compact", r); }).ok());
}

TEST_F(EngineTest, CompletionsAreTheSameEachTimeAndEphemeral) {
    start();
    ASSERT_FALSE(started_) << started_->message;
    std::string first;
    for (int i = 0; i < 2; ++i) {
        completion_request q;
        q.what = completion_request::kind::text;
        q.prompt = "Once upon";
        q.params.max_tokens = 12;
        q.params.temperature = 0;
        q.params.ignore_eos = true;
        const auto c = std::make_shared<waiting_client>();
        ASSERT_TRUE((wait<generation_ticket>([&](auto r) { sessions().complete(q, c, r); }).ok()));
        ASSERT_TRUE(c->wait_for_end());
        ASSERT_FALSE(c->failure()) << c->failure()->message;
        if (i == 0) first = c->text();
        EXPECT_EQ(c->text(), first);
    }
    EXPECT_TRUE(wait<session_page>([&](auto r) { sessions().list(10, "", "", r); })->sessions.empty());
}

TEST_F(EngineTest, ASecondEngineOnTheSameDirectoryIsRefused) {
    start();
    const auto second = engine::start(settings_, {}, nullptr);
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.error().code, errc::usage);
    EXPECT_EQ(info(second.error().code).exit_code, 2);
}

TEST_F(EngineTest, AMissingModelIsReportedNotServed) {
    settings_.models = {"/nowhere/model.gguf"};
    start();
    ASSERT_TRUE(started_);
    EXPECT_EQ(started_->code, errc::model_missing);
    EXPECT_EQ(info(started_->code).exit_code, 4);
    EXPECT_TRUE(engine_->shutdown(5s));
}

TEST_F(EngineTest, AfterShutdownEveryReplyStillComes) {
    start();
    const auto s = create();
    const auto c = std::make_shared<waiting_client>();
    completion_request q;
    q.messages = {{"user", "Hi", {}}};
    q.params.ignore_eos = true;
    ASSERT_TRUE((wait<generation_ticket>([&](auto r) { sessions().complete(q, c, r); }).ok()));
    EXPECT_TRUE(engine_->shutdown(5s));
    EXPECT_TRUE(c->wait_for_end()) << "an open stream is told that the engine goes down";
    EXPECT_EQ(wait<snapshot_event>([&](auto r) { sessions().get(s, r); }).error().code, errc::shutting_down);
    EXPECT_EQ(wait<health_report>([&](auto r) { control().health(r); }).error().code, errc::shutting_down);
    EXPECT_TRUE(engine_->drain(0ms));
    EXPECT_TRUE(engine_->shutdown(5s)) << "a second time does nothing";
}

}  // namespace
}  // namespace troupe::actors
