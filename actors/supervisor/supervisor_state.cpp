#include "actors/supervisor/supervisor_state.hpp"

#include <boost/json.hpp>

#include "core/clock.hpp"
#include "core/limits.hpp"
#include "core/log.hpp"

namespace troupe::actors {
namespace {

boost::json::object executor_json(const executor_info& i) {
    return {{"pid", i.pid}, {"kernels", i.kernels}, {"numerics_id", i.numerics_id}, {"model_hash", i.model_hash},
        {"device", i.device}, {"n_ctx", i.n_ctx}, {"max_rows", i.max_rows}, {"threads", i.n_threads},
        {"segment_bytes", i.segment_bytes}, {"max_segments", i.max_segments}, {"weight_bytes", i.weight_bytes}};
}

boost::json::object progress_json(const executor_status& s) {
    return {{"progress", s.progress}, {"plan_started", s.plan_started}, {"plans_done", s.plans_done}, {"busy", s.busy}};
}

}  // namespace

void event_log::add(std::string event, std::uint64_t epoch, std::string detail) {
    log::info("supervisor event={} epoch={} detail=\"{}\"", event, epoch, detail);
    events_.push_back({unix_ms(), std::move(event), epoch, std::move(detail)});
    if (events_.size() > limits::supervisor_events_kept) events_.pop_front();
}

std::string state_json(const health_report& health, const std::optional<executor_info>& info, const progress_page* page,
    const fault_book& faults, const event_log& log, const recovery_log& recoveries) {
    boost::json::object o{{"status", health.status}, {"epoch", health.epoch}, {"restarts", health.restarts},
        {"level", health.level}, {"last_fault", health.last_fault}, {"load_progress", health.load_progress}};
    boost::json::array reasons, armed, events;
    for (const auto& r : health.reasons) reasons.emplace_back(r);
    for (const auto& f : faults.armed()) armed.push_back(boost::json::object{{"kind", f.kind}, {"times", f.times}});
    for (const auto& e : log.events())
        events.push_back(
            boost::json::object{{"time", e.time}, {"event", e.event}, {"epoch", e.epoch}, {"detail", e.detail}});
    o["reasons"] = std::move(reasons);
    o["pid"] = info ? info->pid : 0;
    if (info) o["executor"] = executor_json(*info);
    if (page != nullptr) o["progress"] = progress_json(read_status(*page, health.epoch));
    o["faults"] = std::move(armed);
    o["events"] = std::move(events);
    o["recoveries"] = recoveries.json(page);
    return boost::json::serialize(o);
}

}  // namespace troupe::actors
