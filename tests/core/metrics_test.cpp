// The metrics text: own names, labels of the contract, and the alias families behind their switch.
#include "core/metrics.hpp"

#include <unistd.h>

#include <gtest/gtest.h>

namespace troupe {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(metrics, names_of_the_contract_are_there_before_anything_happens) {
    metrics m("");
    const auto text = m.text();
    for (const auto* name : {"troupe_actor_restarts_total{", "troupe_recovery_seconds", "troupe_requests_resumed_total",
             "troupe_requests_lost_total", "troupe_requests_total{", "troupe_kv_blocks{state=\"owned\"}",
             "troupe_kv_blocks{state=\"unallocated\"}", "troupe_kv_segments", "troupe_kv_bytes{tier=\"device\"}",
             "troupe_kv_blocks_compacted_total", "troupe_prefix_cache_tokens_total{result=\"hit\"}",
             "troupe_journal_lag_tokens", "troupe_queue_depth", "troupe_time_to_first_token_seconds",
             "troupe_inter_token_seconds", "troupe_websocket_connections", "troupe_slow_clients_dropped_total",
             "troupe_process_resident_bytes{process=\"front\"}"})
        EXPECT_TRUE(has(text, name)) << name;
    EXPECT_FALSE(has(text, "vllm:"));
    EXPECT_FALSE(has(text, "llamacpp:"));
}

TEST(metrics, count_what_they_are_told) {
    metrics m("llamacpp,vllm");
    m.set_model("tiny");
    m.generated_tokens.Increment(3);
    m.kv_blocks(1, 2, 1, 0);
    m.step("decode", 0.01);
    m.step("prefill", 0.01);
    m.request_finished("length");
    m.prefix_cache(6, 4);
    m.generated_seconds.Increment(1.5);
    m.actor_restarted("executor", "hang");
    const auto text = m.text();
    EXPECT_TRUE(has(text, "troupe_generated_tokens_total 3"));
    EXPECT_TRUE(has(text, "llamacpp:tokens_predicted_total 3"));
    EXPECT_TRUE(has(text, "vllm:generation_tokens_total{")) << text;
    EXPECT_TRUE(has(text, "model_name=\"tiny\""));
    EXPECT_TRUE(has(text, "vllm:kv_cache_usage_perc{model_name=\"tiny\",engine=\"0\"} 0.25"));
    EXPECT_TRUE(has(text, "troupe_requests_total{outcome=\"length\"} 1"));
    EXPECT_TRUE(has(text, "vllm:prefix_cache_hits_total{model_name=\"tiny\",engine=\"0\"} 6")) << text;
    EXPECT_TRUE(has(text, "vllm:prefix_cache_queries_total{model_name=\"tiny\",engine=\"0\"} 10"));
    EXPECT_TRUE(has(text, "finished_reason=\"length\"} 1"));
    EXPECT_TRUE(has(text, "llamacpp:n_decode_total 1")) << "a step of prompts only is none";
    EXPECT_TRUE(has(text, "llamacpp:predicted_tokens_seconds 2"));
    for (const auto* name : {"llamacpp:kv_cache_tokens", "llamacpp:n_tokens_max", "llamacpp:n_busy_slots_per_decode 3",
             "llamacpp:prompt_tokens_seconds", "vllm:gpu_cache_usage_perc", "vllm:time_per_output_token_seconds",
             "vllm:request_prompt_tokens", "vllm:request_generation_tokens", "vllm:request_prefill_time_seconds",
             "vllm:request_decode_time_seconds", "vllm:request_inference_time_seconds"})
        EXPECT_TRUE(has(text, name)) << name;
    EXPECT_TRUE(has(text, "troupe_actor_restarts_total{actor=\"executor\",reason=\"hang\"} 1"));
    EXPECT_TRUE(has(text, "troupe_step_seconds_count{kind=\"decode\"} 1"));
}

TEST(metrics, a_watched_process_that_is_gone_is_zero) {
    metrics m("");
    m.watch_process("executor", getpid());
    EXPECT_FALSE(has(m.text(), "troupe_process_resident_bytes{process=\"executor\"} 0\n"));
}

}  // namespace
}  // namespace troupe
