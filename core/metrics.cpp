#include "core/metrics.hpp"

#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <vector>

#include <unistd.h>

#include <prometheus/text_serializer.h>

namespace troupe {
namespace {

using prometheus::Histogram;

// vLLM's buckets, so that its dashboards work unchanged.
const Histogram::BucketBoundaries first_token{
    .001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560};
const Histogram::BucketBoundaries token_gap{
    .01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80};
const Histogram::BucketBoundaries latency{
    .3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
const Histogram::BucketBoundaries tokens{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 1e4, 2e4, 5e4, 1e5, 2e5};
const Histogram::BucketBoundaries short_time{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10};

prometheus::Counter& counter(prometheus::Registry& r, const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(r).Add({});
}
prometheus::Gauge& gauge(prometheus::Registry& r, const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(r).Add({});
}
Histogram& histogram(
    prometheus::Registry& r, const char* name, const char* help, const Histogram::BucketBoundaries& b) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(r).Add({}, b);
}

double resident_bytes(int pid) {
    std::ifstream statm("/proc/" + std::to_string(pid) + "/statm");
    double total = 0, resident = 0;
    statm >> total >> resident;
    return statm ? resident * static_cast<double>(sysconf(_SC_PAGESIZE)) : 0;
}

struct alias {
    const char* own;
    const char* name;
};
constexpr alias vllm_aliases[] = {
    {"troupe_running", "vllm:num_requests_running"},
    {"troupe_queue_depth", "vllm:num_requests_waiting"},
    {"troupe_time_to_first_token_seconds", "vllm:time_to_first_token_seconds"},
    {"troupe_inter_token_seconds", "vllm:inter_token_latency_seconds"},
    {"troupe_inter_token_seconds", "vllm:time_per_output_token_seconds"},
    {"troupe_e2e_seconds", "vllm:e2e_request_latency_seconds"},
    {"troupe_queue_seconds", "vllm:request_queue_time_seconds"},
    {"troupe_prefill_seconds", "vllm:request_prefill_time_seconds"},
    {"troupe_decode_seconds", "vllm:request_decode_time_seconds"},
    {"troupe_inference_seconds", "vllm:request_inference_time_seconds"},
    {"troupe_request_prompt_tokens", "vllm:request_prompt_tokens"},
    {"troupe_request_generated_tokens", "vllm:request_generation_tokens"},
    {"troupe_prompt_tokens_total", "vllm:prompt_tokens_total"},
    {"troupe_generated_tokens_total", "vllm:generation_tokens_total"},
    {"troupe_preemptions_total", "vllm:num_preemptions_total"},
};
constexpr alias llamacpp_aliases[] = {
    {"troupe_prompt_tokens_total", "llamacpp:prompt_tokens_total"},
    {"troupe_prompt_seconds_total", "llamacpp:prompt_seconds_total"},
    {"troupe_generated_tokens_total", "llamacpp:tokens_predicted_total"},
    {"troupe_generated_seconds_total", "llamacpp:tokens_predicted_seconds_total"},
    {"troupe_running", "llamacpp:requests_processing"},
    {"troupe_queue_depth", "llamacpp:requests_deferred"},
    {"troupe_sequence_tokens", "llamacpp:kv_cache_tokens"},
    {"troupe_longest_sequence_tokens", "llamacpp:n_tokens_max"},
};

/// The steps that decoded something.
double decode_steps(const std::vector<prometheus::MetricFamily>& families) {
    double n = 0;
    for (const auto& family : families) {
        if (family.name != "troupe_step_seconds") continue;
        for (const auto& metric : family.metric)
            for (const auto& label : metric.label)
                if (label.value != "prefill") n += static_cast<double>(metric.histogram.sample_count);
    }
    return n;
}

double ratio(double a, double b) { return b > 0 ? a / b : 0; }

}  // namespace

struct metrics::state {
    std::mutex mutex;
    std::string model, compat;
    std::map<std::string, int> processes;
    double blocks[4] = {};
};

metrics::metrics(std::string_view compat) : metrics(compat, std::make_shared<prometheus::Registry>()) {}

metrics::metrics(std::string_view compat, std::shared_ptr<prometheus::Registry> r)
    : recovery_seconds(histogram(*r, "troupe_recovery_seconds", "From an executor's death to the next token.",
          {.05, .1, .25, .5, .75, 1, 1.5, 2, 3, 5, 10, 30, 60})),
      requests_resumed(
          counter(*r, "troupe_requests_resumed_total", "Generations that went on after an executor's death.")),
      requests_lost(counter(*r, "troupe_requests_lost_total", "Generations an executor's death ended.")),
      queue_depth(gauge(*r, "troupe_queue_depth", "Requests that wait.")),
      running(gauge(*r, "troupe_running", "Requests that run.")),
      time_to_first_token(
          histogram(*r, "troupe_time_to_first_token_seconds", "From request to first token.", first_token)),
      inter_token(histogram(*r, "troupe_inter_token_seconds", "Between tokens of one answer.", token_gap)),
      e2e_seconds(histogram(*r, "troupe_e2e_seconds", "From request to last token.", latency)),
      queue_seconds(histogram(*r, "troupe_queue_seconds", "From request to first plan.", latency)),
      prefill_seconds(histogram(*r, "troupe_prefill_seconds", "From first plan to first token.", latency)),
      decode_seconds(histogram(*r, "troupe_decode_seconds", "From first to last token.", latency)),
      inference_seconds(histogram(*r, "troupe_inference_seconds", "From first plan to last token.", latency)),
      request_prompt_tokens(histogram(*r, "troupe_request_prompt_tokens", "Prompt tokens of a request.", tokens)),
      request_generated_tokens(
          histogram(*r, "troupe_request_generated_tokens", "Tokens generated for a request.", tokens)),
      sequence_tokens(gauge(*r, "troupe_sequence_tokens", "Tokens of all running sequences.")),
      longest_sequence_tokens(gauge(*r, "troupe_longest_sequence_tokens", "Tokens of the longest sequence so far.")),
      prompt_tokens(counter(*r, "troupe_prompt_tokens_total", "Prompt tokens computed.")),
      generated_tokens(counter(*r, "troupe_generated_tokens_total", "Tokens generated.")),
      prompt_seconds(counter(*r, "troupe_prompt_seconds_total", "Time spent on prompts.")),
      generated_seconds(counter(*r, "troupe_generated_seconds_total", "Time spent generating.")),
      preemptions(counter(*r, "troupe_preemptions_total", "Running requests that gave up their blocks.")),
      kv_segments(gauge(*r, "troupe_kv_segments", "Committed segments of key/value memory.")),
      kv_blocks_compacted(counter(*r, "troupe_kv_blocks_compacted_total", "Blocks moved to empty a segment.")),
      journal_lag_tokens(gauge(*r, "troupe_journal_lag_tokens", "Accepted tokens not yet committed.")),
      websocket_connections(gauge(*r, "troupe_websocket_connections", "Open WebSocket connections.")),
      slow_clients_dropped(
          counter(*r, "troupe_slow_clients_dropped_total", "Connections dropped for reading too slowly.")),
      registry_(r), restarts_(prometheus::BuildCounter()
                                  .Name("troupe_actor_restarts_total")
                                  .Help("Restarts by actor and reason.")
                                  .Register(*r)),
      outcomes_(prometheus::BuildCounter().Name("troupe_requests_total").Help("Requests by outcome.").Register(*r)),
      steps_(prometheus::BuildHistogram().Name("troupe_step_seconds").Help("Time of one step.").Register(*r)),
      images_(prometheus::BuildCounter()
                  .Name("troupe_kv_images_total")
                  .Help("Key/value images of the disk tier by event.")
                  .Register(*r)),
      blocks_(prometheus::BuildGauge().Name("troupe_kv_blocks").Help("Blocks by state.").Register(*r)),
      bytes_(prometheus::BuildGauge().Name("troupe_kv_bytes").Help("Key/value bytes by tier.").Register(*r)),
      prefix_(prometheus::BuildCounter()
                  .Name("troupe_prefix_cache_tokens_total")
                  .Help("Prompt tokens by cache result.")
                  .Register(*r)),
      resident_(prometheus::BuildGauge()
                    .Name("troupe_process_resident_bytes")
                    .Help("Resident memory by process.")
                    .Register(*r)),
      growth_(prometheus::BuildGauge()
                  .Name("troupe_process_growth_bytes_per_hour")
                  .Help("Slope of a process' private memory over the last hours, without KV memory.")
                  .Register(*r)),
      leak_warnings_(prometheus::BuildCounter()
                         .Name("troupe_leak_warnings_total")
                         .Help("How often a process began to grow like one that leaks.")
                         .Register(*r)),
      state_(std::make_shared<state>()) {
    state_->compat = compat;
    watch_process("front", getpid());
    kv_blocks(0, 0, 0, 0);
    for (const char* tier : {"device", "host", "disk"}) kv_bytes(tier, 0);
    for (const char* event : {"saved", "loaded", "refused", "failed", "dropped"}) kv_images(event, 0);
    prefix_cache(0, 0);
    restarts_.Add({{"actor", "executor"}, {"reason", "crash"}});
    outcomes_.Add({{"outcome", "stop"}});
}

void metrics::actor_restarted(const std::string& actor, const std::string& reason) {
    restarts_.Add({{"actor", actor}, {"reason", reason}}).Increment();
}

void metrics::request_finished(const std::string& outcome) { outcomes_.Add({{"outcome", outcome}}).Increment(); }

void metrics::step(const char* kind, double seconds) { steps_.Add({{"kind", kind}}, short_time).Observe(seconds); }

void metrics::kv_blocks(std::int64_t owned, std::int64_t cached, std::int64_t free, std::int64_t unallocated) {
    const std::int64_t values[] = {owned, cached, free, unallocated};
    const char* names[] = {"owned", "cached", "free", "unallocated"};
    const std::lock_guard lock(state_->mutex);
    for (int i = 0; i < 4; ++i) {
        blocks_.Add({{"state", names[i]}}).Set(static_cast<double>(values[i]));
        state_->blocks[i] = static_cast<double>(values[i]);
    }
}

void metrics::kv_bytes(const char* tier, double bytes) { bytes_.Add({{"tier", tier}}).Set(bytes); }

void metrics::kv_images(const char* event, double n) { images_.Add({{"event", event}}).Increment(n); }

void metrics::prefix_cache(std::int64_t hit_tokens, std::int64_t miss_tokens) {
    prefix_.Add({{"result", "hit"}}).Increment(static_cast<double>(hit_tokens));
    prefix_.Add({{"result", "miss"}}).Increment(static_cast<double>(miss_tokens));
}

void metrics::set_model(std::string name) {
    const std::lock_guard lock(state_->mutex);
    state_->model = std::move(name);
}

void metrics::memory_trend(const std::string& process, double bytes_per_hour, bool warning) {
    growth_.Add({{"process", process}}).Set(bytes_per_hour);
    leak_warnings_.Add({{"process", process}}).Increment(warning ? 1 : 0);
}

void metrics::watch_process(const std::string& name, int pid) {
    const std::lock_guard lock(state_->mutex);
    if (pid)
        state_->processes[name] = pid;
    else
        state_->processes.erase(name);
}

/// Called with the state locked.
std::vector<prometheus::MetricFamily> metrics::aliases(const std::vector<prometheus::MetricFamily>& families) const {
    using prometheus::MetricFamily;
    using prometheus::MetricType;
    std::vector<MetricFamily> out;
    const std::vector<prometheus::ClientMetric::Label> engine{{"model_name", state_->model}, {"engine", "0"}};
    const auto copy = [&](const alias& a, bool labels) {
        for (const auto& family : families) {
            if (family.name != a.own) continue;
            out.push_back(family);
            out.back().name = a.name;
            if (labels)
                for (auto& metric : out.back().metric) metric.label = engine;
        }
    };
    const auto value = [&](const char* name, MetricType type, double v, bool labels) {
        prometheus::ClientMetric metric;
        (type == MetricType::Gauge ? metric.gauge.value : metric.counter.value) = v;
        if (labels) metric.label = engine;
        out.push_back({name, "", type, {std::move(metric)}});
    };
    const auto* b = state_->blocks;
    const double usage = ratio(b[0], b[0] + b[1] + b[2] + b[3]);
    if (state_->compat.find("vllm") != std::string::npos) {
        for (const auto& a : vllm_aliases) copy(a, true);
        value("vllm:kv_cache_usage_perc", MetricType::Gauge, usage, true);
        value("vllm:gpu_cache_usage_perc", MetricType::Gauge, usage, true);
        const double hits = prefix_.Add({{"result", "hit"}}).Value();
        value("vllm:prefix_cache_hits_total", MetricType::Counter, hits, true);
        value("vllm:prefix_cache_queries_total", MetricType::Counter, hits + prefix_.Add({{"result", "miss"}}).Value(),
            true);
        MetricFamily success{"vllm:request_success_total", "", MetricType::Counter, {}};
        for (const auto* reason : {"stop", "length"}) {
            auto& metric = success.metric.emplace_back();
            metric.label = engine;
            metric.label.push_back({"finished_reason", reason});
            metric.counter.value = outcomes_.Add({{"outcome", reason}}).Value();
        }
        out.push_back(std::move(success));
    }
    if (state_->compat.find("llamacpp") != std::string::npos) {
        for (const auto& a : llamacpp_aliases) copy(a, false);
        const double steps = decode_steps(families);
        value("llamacpp:kv_cache_usage_ratio", MetricType::Gauge, usage, false);
        value("llamacpp:n_decode_total", MetricType::Counter, steps, false);
        value("llamacpp:n_busy_slots_per_decode", MetricType::Gauge, ratio(generated_tokens.Value(), steps), false);
        value("llamacpp:prompt_tokens_seconds", MetricType::Gauge, ratio(prompt_tokens.Value(), prompt_seconds.Value()),
            false);
        value("llamacpp:predicted_tokens_seconds", MetricType::Gauge,
            ratio(generated_tokens.Value(), generated_seconds.Value()), false);
    }
    return out;
}

std::string metrics::text() {
    const std::lock_guard lock(state_->mutex);
    for (const auto& [name, pid] : state_->processes) resident_.Add({{"process", name}}).Set(resident_bytes(pid));
    auto families = registry_->Collect();
    auto more = aliases(families);
    families.insert(families.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    return prometheus::TextSerializer().Serialize(families);
}

}  // namespace troupe
