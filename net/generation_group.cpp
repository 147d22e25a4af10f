#include "net/generation_group.hpp"

#include <algorithm>
#include <utility>

#include "core/limits.hpp"

namespace troupe::net {

/// What the engine tells about one part.
class generation_group::member final : public client_port {
 public:
    member(std::shared_ptr<generation_group> group, std::size_t part) : group_(std::move(group)), part_(part) {}
    void deliver(event_ptr e, std::string_view) override {
        group_->exchange_->post([group = group_, part = part_, e = std::move(e)] { group->delivered(part, *e); });
    }

 private:
    std::shared_ptr<generation_group> group_;
    std::size_t part_;
};

generation_group::generation_group(exchange_ptr x, services& s, std::vector<completion_request> parts, handlers h)
    : exchange_(std::move(x)), services_(s), handlers_(std::move(h)), most_at_once_(limits::max_parallel_parts) {
    for (auto& request : parts) parts_.push_back({std::move(request), state::waiting, {}, {}});
}

void generation_group::run() {
    exchange_->on_gone([self = shared_from_this()] { self->cancel(); });
    start_more();
}

std::size_t generation_group::count(state s) const {
    return static_cast<std::size_t>(
        std::count_if(parts_.begin(), parts_.end(), [&](const part& p) { return p.is == s; }));
}

void generation_group::start_more() {
    std::size_t busy = count(state::asked) + count(state::running);
    for (std::size_t i = 0; i < parts_.size() && busy < most_at_once_ && !over_; ++i) {
        if (parts_[i].is != state::waiting) continue;
        ++busy;
        ask(i);
    }
}

void generation_group::ask(std::size_t i) {
    parts_[i].is = state::asked;
    const auto self = shared_from_this();
    services_.sessions.complete(
        parts_[i].request, std::make_shared<member>(self, i), [self, i](result<generation_ticket> r) {
            self->exchange_->post(
                [self, i, r = std::make_shared<result<generation_ticket>>(std::move(r))] { self->answered(i, *r); });
        });
}

void generation_group::answered(std::size_t i, const result<generation_ticket>& r) {
    part& p = parts_[i];
    if (over_) {
        if (r) services_.sessions.cancel(*r);
        return;
    }
    if (!r) {
        // The queue is full of what this very request waits for: the part comes again when another is through.
        const bool others = count(state::running) + count(state::asked) > 1 || count(state::running) > 0;
        if (r.error().code != errc::queue_full || !others) return fail(r.error());
        p.is = state::waiting;
        p.early.clear();
        most_at_once_ = std::max<std::size_t>(1, count(state::running) + count(state::asked));
    } else {
        p.ticket = *r;
        p.is = state::running;
        for (auto& e : std::exchange(p.early, {})) handle(i, e);
    }
    if (started_ || over_ || count(state::asked) > 0) return;
    started_ = true;
    handlers_.started();
    while (!held_.empty() && !over_) {
        const auto [part, e] = std::move(held_.front());
        held_.pop_front();
        handle(part, e);
    }
}

void generation_group::delivered(std::size_t i, const event& e) {
    if (over_ || parts_[i].is == state::done) return;
    if (parts_[i].is == state::asked)
        parts_[i].early.push_back(e);
    else
        handle(i, e);
}

void generation_group::handle(std::size_t i, const event& e) {
    if (!started_) return held_.emplace_back(i, e), void();
    if (const auto* f = std::get_if<generation_error>(&e.payload)) {
        parts_[i].is = state::done;
        return fail(f->err);
    }
    const bool done = std::holds_alternative<generation_done>(e.payload);
    if (done) {
        parts_[i].is = state::done;
        ++n_done_;
    }
    const auto keep = shared_from_this();
    handlers_.on_event(i, e);
    if (!done) return;
    if (all_done()) {
        over_ = true;
        handlers_ = {};
    } else {
        start_more();
    }
}

void generation_group::fail(const error& e) {
    const auto told = handlers_.failed;
    cancel();
    if (told) told(e);
}

void generation_group::cancel() {
    if (std::exchange(over_, true)) return;
    for (auto& p : parts_)
        if (p.is == state::running) services_.sessions.cancel(*p.ticket);
    handlers_ = {};
}

void generation_group::stop(std::size_t part) {
    if (parts_[part].is == state::running) services_.sessions.cancel(*parts_[part].ticket);
}

}  // namespace troupe::net
