#include "actors/supervisor/health.hpp"

namespace troupe::actors {
namespace {

void describe_up(const health_facts& f, health_report& r) {
    if (!f.answers) {
        r.status = "recovering";
        r.reasons.push_back("the executor does not answer");
    } else if (!f.strained.empty()) {
        r.status = "degraded";
        r.reasons.push_back(f.strained);
    } else {
        r.status = "ok";
    }
}

/// Loading, waiting and sleeping end by deadlines of their own; a process that does not die has none.
bool answers_for_itself(const health_facts& f) {
    switch (f.phase) {
    case executor_phase::up:
        return f.answers;
    case executor_phase::loading:
    case executor_phase::waiting:
    case executor_phase::sleeping:
        return true;
    case executor_phase::ending:
    case executor_phase::down:
    case executor_phase::stopped:
        return false;
    }
    return false;
}

void describe_sleep(health_report& r) {
    r.status = "sleeping";
    r.reasons.push_back("the weights are unloaded; the next request loads them");
}

}  // namespace

health_report describe(const health_facts& f) {
    health_report r;
    r.epoch = f.epoch;
    r.restarts = f.restarts;
    r.last_fault = f.last_fault;
    r.probe_ms = f.probe_ms;
    r.level = f.phase == executor_phase::down ? "down" : std::string(name(f.level));
    r.round_trip = answers_for_itself(f);
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
    case executor_phase::sleeping:
        describe_sleep(r);
        break;
    case executor_phase::loading:
    case executor_phase::ending:
    case executor_phase::waiting:
        if (f.asleep && f.phase == executor_phase::ending) {
            describe_sleep(r);
            break;
        }
        r.status = f.ever_ready && !f.asleep ? "recovering" : "loading";
        if (f.asleep)
            r.reasons.push_back("the weights are loaded again for a request that waits");
        else if (!f.last_fault.empty())
            r.reasons.push_back("the executor restarts after: " + f.last_fault);
        break;
    }
    return r;
}

}  // namespace troupe::actors
