#include "actors/supervisor/health.hpp"

namespace troupe::actors {
namespace {

void describe_up(const health_facts& f, health_report& r) {
    if (!f.answers) {
        r.status = "recovering";
        r.reasons.push_back("the executor does not answer");
    } else if (f.device_lost) {
        r.status = "degraded";
        r.reasons.push_back("the device was lost and is back");
    } else {
        r.status = "ok";
    }
}

}  // namespace

health_report describe(const health_facts& f) {
    health_report r;
    r.epoch = f.epoch;
    r.restarts = f.restarts;
    r.last_fault = f.last_fault;
    r.probe_ms = f.probe_ms;
    r.load_progress = f.phase == executor_phase::up ? 1 : f.load_progress;
    switch (f.phase) {
    case executor_phase::up:
        describe_up(f, r);
        break;
    case executor_phase::down:
        r.status = "down";
        r.reasons.push_back(f.down_reason);
        break;
    case executor_phase::stopped:
        r.status = "down";
        r.reasons.push_back("shutting down");
        break;
    case executor_phase::loading:
    case executor_phase::ending:
    case executor_phase::waiting:
        r.status = f.ever_ready ? "recovering" : "loading";
        if (!f.last_fault.empty()) r.reasons.push_back("the executor restarts after: " + f.last_fault);
        break;
    }
    return r;
}

}  // namespace troupe::actors
