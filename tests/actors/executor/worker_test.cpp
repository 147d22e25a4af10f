#include "actors/executor/worker.hpp"

#include <future>

#include <gtest/gtest.h>

#include "actors/messages.hpp"
#include "tests/actors/executor/plan_helper.hpp"
#include "tests/support/fake_backend.hpp"

namespace troupe::actors {
namespace {

using test::plan_writer;

/// Waits for what a worker says; a missing word fails the test by its time limit.
template <class T> class mailbox {
 public:
    void put(T value) {
        std::lock_guard lock(mutex_);
        values_.push_back(std::move(value));
        more_.notify_all();
    }
    T take() {
        std::unique_lock lock(mutex_);
        more_.wait(lock, [&] { return !values_.empty(); });
        T value = std::move(values_.front());
        values_.pop_front();
        return value;
    }

 private:
    std::mutex mutex_;
    std::condition_variable more_;
    std::deque<T> values_;
};

struct bench {
    explicit bench(backend_loader load = test::load_fake({}))
        : work(std::move(load), page,
              {.loaded = [this](result<executor_info> i) { loaded.put(std::move(i)); },
                  .done = [this](plan_result r) { results.put(std::move(r)); },
                  .fired = [](std::string_view) {}}) {}
    progress_page page;
    mailbox<result<executor_info>> loaded;
    mailbox<plan_result> results;
    worker work;
};

TEST(worker, loads_and_runs_plans_in_order) {
    bench b;
    const auto info = b.loaded.take();
    ASSERT_TRUE(info);
    EXPECT_EQ(info->n_vocab, 61);
    EXPECT_EQ(b.page.load_permille, 1000u);
    plan_writer w;
    for (int i = 0; i < 20; ++i) {
        plan p = w.next();
        if (i == 0) w.open(p, 1, {1, 2, 3}, 3, {.max_tokens = 100});
        w.row(p, 1, i == 0 ? 0 : 2 + i, i == 0 ? 3 : 1, true);
        b.work.submit(std::move(p));
    }
    for (std::uint64_t i = 1; i <= 20; ++i) {
        const auto r = b.results.take();
        EXPECT_EQ(r.plan, i);
        EXPECT_EQ(r.rows.at(0).status, row_status::ok);
    }
    const auto status = b.work.status(3);
    EXPECT_EQ(status.epoch, 3u);
    EXPECT_EQ(status.plans_done, 20u);
    EXPECT_FALSE(status.busy);
}

TEST(worker, says_why_it_cannot_load) {
    bench b([](const std::function<void(double)>&) -> result<std::unique_ptr<backend>> {
        return fail(errc::model_malformed, "bad");
    });
    const auto info = b.loaded.take();
    ASSERT_FALSE(info);
    EXPECT_EQ(info.error().code, errc::model_malformed);
}

TEST(worker, a_cancel_stops_plans_that_wait_and_the_pass_after_the_running_one) {
    std::promise<void> running, go;
    bench b(test::load_fake({.max_rows = 4, .on_pass = [&](std::int64_t pass) {
                                 if (pass != 1) return;  // 0 is the warm-up
                                 running.set_value();
                                 go.get_future().wait();
                             }}));
    ASSERT_TRUE(b.loaded.take());
    plan_writer w;
    plan p = w.next();
    w.open(p, 1, std::vector<token_id>(40, 5), 40, {.max_tokens = 100});
    w.open(p, 2, {1, 2}, 2, {.max_tokens = 100});
    w.row(p, 1, 0, 40, true);
    w.row(p, 2, 0, 2, true);
    b.work.submit(std::move(p));
    plan q = w.next();
    w.row(q, 1, 40, 1, true);
    w.row(q, 2, 2, 1, true);
    q.closes.push_back(3);
    b.work.submit(std::move(q));
    running.get_future().wait();
    EXPECT_TRUE(b.work.status(1).busy);
    const std::vector<sequence_id> ids{1, 99};
    b.work.cancel(ids);
    go.set_value();
    for (int i = 0; i < 2; ++i) {
        const auto r = b.results.take();
        EXPECT_EQ(r.rows.at(0).status, row_status::void_row) << i;
        EXPECT_EQ(r.rows.at(1).status, row_status::ok) << i;
    }
}

TEST(worker, a_sequence_opened_anew_is_not_cancelled_any_more) {
    bench b;
    ASSERT_TRUE(b.loaded.take());
    plan_writer w;
    plan p = w.next();
    w.open(p, 1, {1, 2}, 2, {.max_tokens = 100});
    b.work.submit(std::move(p));
    b.results.take();
    const std::vector<sequence_id> one{1};
    b.work.cancel(one);
    p = w.next();
    p.closes.push_back(1);
    w.open(p, 1, {1, 2}, 2, {.max_tokens = 100});
    w.row(p, 1, 0, 2, true);
    b.work.submit(std::move(p));
    EXPECT_EQ(b.results.take().rows.at(0).status, row_status::ok);
    b.work.cancel(one);
    p = w.next();
    w.row(p, 1, 2, 1, true);
    b.work.submit(std::move(p));
    EXPECT_EQ(b.results.take().rows.at(0).status, row_status::void_row);
}

TEST(worker, stops_with_plans_left) {
    bench b(test::load_fake({.layer_time = std::chrono::microseconds(200)}));
    ASSERT_TRUE(b.loaded.take());
    plan_writer w;
    for (int i = 0; i < 100; ++i) {
        plan p = w.next();
        if (i == 0) w.open(p, 1, {1, 2, 3}, 3, {.max_tokens = 1000});
        w.row(p, 1, i == 0 ? 0 : 2 + i, i == 0 ? 3 : 1, true);
        b.work.submit(std::move(p));
    }
    b.work.stop();
    EXPECT_LE(b.page.plans_done, 100u);
}

}  // namespace
}  // namespace troupe::actors
