#include "actors/supervisor/recovery_log.hpp"

#include <boost/json/object.hpp>

#include "core/limits.hpp"

namespace troupe::actors {
namespace {

std::int64_t nanoseconds(steady_time t) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(t.time_since_epoch()).count();
}

}  // namespace

void recovery_log::gone(const std::string& reason, steady_time now, const progress_page* page) {
    if (under_way_) return;
    if (!log_.empty() && page != nullptr && !settled_)
        log_.back().first_row = page->first_row_ns.load(std::memory_order_acquire);
    recovery next{.reason = reason, .noticed = nanoseconds(now)};
    if (page != nullptr) next.fired = page->fired_ns.load(std::memory_order_acquire);
    log_.push_back(std::move(next));
    if (log_.size() > limits::supervisor_events_kept) log_.pop_front();
    under_way_ = true;
    settled_ = false;
}

void recovery_log::asleep(const progress_page* page) {
    if (log_.empty() || under_way_ || settled_ || page == nullptr) return;
    log_.back().first_row = page->first_row_ns.load(std::memory_order_acquire);
    settled_ = true;
}

void recovery_log::launched(std::uint64_t epoch, steady_time now) {
    if (!under_way_) return;  // the first start recovers nothing
    log_.back().epoch = epoch;
    log_.back().launched = nanoseconds(now);
}

void recovery_log::ready(steady_time now, const progress_page* page) {
    if (!under_way_) return;
    auto& r = log_.back();
    r.ready = nanoseconds(now);
    if (page != nullptr) {
        r.loading = page->loading_ns.load(std::memory_order_acquire);
        r.loaded = page->loaded_ns.load(std::memory_order_acquire);
    }
    under_way_ = false;
}

boost::json::array recovery_log::json(const progress_page* page) const {
    boost::json::array list;
    for (const auto& r : log_) {
        const bool newest = &r == &log_.back() && !under_way_ && !settled_ && page != nullptr;
        const auto first = newest ? page->first_row_ns.load(std::memory_order_acquire) : r.first_row;
        list.push_back(boost::json::object{{"epoch", r.epoch}, {"reason", r.reason}, {"fired_us", r.fired / 1000},
            {"noticed_us", r.noticed / 1000}, {"launched_us", r.launched / 1000}, {"loading_us", r.loading / 1000},
            {"loaded_us", r.loaded / 1000}, {"ready_us", r.ready / 1000}, {"first_row_us", first / 1000}});
    }
    return list;
}

}  // namespace troupe::actors
