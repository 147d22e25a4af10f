// The Prometheus metrics of the front process: one struct of named instruments, thread-safe, exposed as text.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

namespace troupe {

class metrics {
 public:
    /// compat: comma-separated alias families ("llamacpp", "vllm"; anything else: none).
    explicit metrics(std::string_view compat);

    // -- supervision
    void actor_restarted(const std::string& actor, const std::string& reason);
    prometheus::Histogram& recovery_seconds;
    prometheus::Counter& requests_resumed;
    prometheus::Counter& requests_lost;
    // -- requests
    /// outcome: stop, length, cancelled, or an error's wire name.
    void request_finished(const std::string& outcome);
    prometheus::Gauge& queue_depth;
    prometheus::Gauge& running;
    prometheus::Histogram& time_to_first_token;
    prometheus::Histogram& inter_token;
    prometheus::Histogram& e2e_seconds;
    prometheus::Histogram& queue_seconds;
    prometheus::Histogram& prefill_seconds;
    prometheus::Histogram& decode_seconds;
    prometheus::Histogram& inference_seconds;  ///< prefill and decode
    prometheus::Histogram& request_prompt_tokens;
    prometheus::Histogram& request_generated_tokens;
    prometheus::Gauge& sequence_tokens;          ///< of all running sequences together
    prometheus::Gauge& longest_sequence_tokens;  ///< ever
    prometheus::Counter& prompt_tokens;
    prometheus::Counter& generated_tokens;
    prometheus::Counter& prompt_seconds;
    prometheus::Counter& generated_seconds;
    prometheus::Counter& preemptions;
    // -- engine
    void step(const char* kind, double seconds);  ///< kind: prefill, decode, mixed
    /// Blocks by state: owned, cached, free, unallocated.
    void kv_blocks(std::int64_t owned, std::int64_t cached, std::int64_t free, std::int64_t unallocated);
    prometheus::Gauge& kv_segments;
    void kv_bytes(const char* tier, double bytes);
    /// Images of the disk tier; event: saved, loaded, refused (damaged or foreign), failed (to be saved), dropped.
    void kv_images(const char* event, double n);
    prometheus::Counter& kv_blocks_compacted;
    void prefix_cache(std::int64_t hit_tokens, std::int64_t miss_tokens);
    prometheus::Gauge& journal_lag_tokens;
    // -- clients
    prometheus::Gauge& websocket_connections;
    prometheus::Counter& slow_clients_dropped;

    void set_model(std::string name);  ///< label of the alias families
    /// Resident bytes of a process, read when scraped; pid 0 removes the process.
    void watch_process(const std::string& name, int pid);
    /// Slope of a process' private memory over hours; `warning`: it begins to count as a leak.
    void memory_trend(const std::string& process, double bytes_per_hour, bool warning);

    /// The text exposition format, alias families included.
    std::string text();

 private:
    metrics(std::string_view compat, std::shared_ptr<prometheus::Registry> registry);

    std::shared_ptr<prometheus::Registry> registry_;
    prometheus::Family<prometheus::Counter>& restarts_;
    prometheus::Family<prometheus::Counter>& outcomes_;
    prometheus::Family<prometheus::Histogram>& steps_;
    prometheus::Family<prometheus::Counter>& images_;
    prometheus::Family<prometheus::Gauge>& blocks_;
    prometheus::Family<prometheus::Gauge>& bytes_;
    prometheus::Family<prometheus::Counter>& prefix_;
    prometheus::Family<prometheus::Gauge>& resident_;
    prometheus::Family<prometheus::Gauge>& growth_;
    prometheus::Family<prometheus::Counter>& leak_warnings_;
    struct state;
    std::vector<prometheus::MetricFamily> aliases(const std::vector<prometheus::MetricFamily>& families) const;
    std::shared_ptr<state> state_;
};

}  // namespace troupe
