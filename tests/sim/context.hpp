// What every part of a simulated run shares: virtual time, the seed's random numbers, and what went wrong.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/clock.hpp"
#include "image_store.hpp"
#include "world.hpp"

namespace troupe::actors::sim {

/// Happenings in the order of their virtual times; those of one time in the order in which they were planned.
class timeline {
 public:
    steady_time now() const { return now_; }
    bool empty() const { return future_.empty(); }
    void at(steady_time t, std::function<void()> f) { future_.push({std::max(t, now_), order_++, std::move(f)}); }
    void after(double ms, std::function<void()> f) { at(now_ + from_ms(ms), std::move(f)); }
    static std::chrono::nanoseconds from_ms(double ms) {
        return std::chrono::nanoseconds(static_cast<std::int64_t>(ms * 1e6));
    }
    void step() {
        const happening h = future_.top();
        future_.pop();
        now_ = h.at;
        h.what();
    }

 private:
    struct happening {
        steady_time at;
        std::uint64_t order;
        std::function<void()> what;
        bool operator<(const happening& o) const { return std::pair{at, order} > std::pair{o.at, o.order}; }
    };
    steady_time now_ = steady_time{} + std::chrono::hours(1);
    std::uint64_t order_ = 0;
    std::priority_queue<happening> future_;
};

struct context {
    explicit context(world w) : w(std::move(w)), random(this->w.seed) {}

    double uniform(double a, double b) { return std::uniform_real_distribution<>(a, b)(random); }
    int pick(int a, int b) { return std::uniform_int_distribution<>(a, b)(random); }
    bool chance(double p) { return p > 0 && uniform(0, 1) < p; }
    /// Faults come only while the world is lively; at the end everything is left in peace.
    bool fault(double p) { return lively && chance(p); }
    steady_time now() const { return time.now(); }
    void wrong(const std::string& what) {
        if (wrongs.size() < 10) wrongs.push_back(what);
    }

    world w;
    std::mt19937_64 random;
    timeline time;
    image_store images;
    bool lively = true;
    std::vector<std::string> wrongs;
};

/// A process or an actor: what was planned for it does not happen when it is gone.
class life {
 public:
    std::function<void()> guard(std::function<void()> f) const {
        return [token = std::weak_ptr<int>(token_), f = std::move(f)] {
            if (!token.expired()) f();
        };
    }
    std::weak_ptr<int> token() const { return token_; }
    void renew() { token_ = std::make_shared<int>(0); }

 private:
    std::shared_ptr<int> token_ = std::make_shared<int>(0);
};

/// Messages from one to another: each takes its time, none overtakes.
class channel {
 public:
    void send(context& c, double least_ms, double most_ms, std::function<void()> f) {
        last_ = std::max(last_, c.now() + timeline::from_ms(c.uniform(least_ms, most_ms)));
        c.time.at(last_, std::move(f));
    }

 private:
    steady_time last_{};
};

}  // namespace troupe::actors::sim
