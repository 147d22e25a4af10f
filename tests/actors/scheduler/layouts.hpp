// Small KV layouts for the scheduler's tests.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/plan.hpp"
#include "model/kv_layout.hpp"

namespace troupe::actors::test {

/// One group of full attention, `per_segment` blocks a segment.
inline model::kv_layout full_layout(std::uint32_t per_segment = 4) {
    model::kv_layout l;
    l.segment_bytes = 4096;
    l.groups = {{0, 2, 4096 / per_segment, per_segment}};
    return l;
}

/// One group of latent attention, like deepseek2.
inline model::kv_layout latent_layout(std::uint32_t per_segment = 4) {
    model::kv_layout l = full_layout(per_segment);
    l.groups[0].latent = 576;
    return l;
}

/// Full attention and a window, like gemma3.
inline model::kv_layout windowed_layout(std::int32_t window, std::uint32_t per_segment = 4) {
    model::kv_layout l = full_layout(per_segment);
    l.groups.push_back({window, 4, 4096 / per_segment, per_segment});
    return l;
}

/// n different ordinary tokens, as long as n < 900.
inline std::vector<token_id> tokens_from(token_id first, int n) {
    std::vector<token_id> t;
    for (int i = 0; i < n; ++i) t.push_back(10 + (first + i) % 900);
    return t;
}

inline executor_info info_of(
    const model::kv_layout& l, std::uint64_t segments, std::uint64_t epoch = 1, std::int32_t n_ctx = 512) {
    executor_info i;
    i.epoch = epoch;
    i.numerics_id = "test";
    i.n_ctx = n_ctx;
    i.n_vocab = 1000;
    i.max_rows = 128;
    i.segment_bytes = l.segment_bytes;
    i.max_segments = segments;
    for (const auto& g : l.groups) {
        i.group_window.push_back(g.window);
        i.group_layers.push_back(g.n_layers);
        i.group_block_bytes.push_back(g.block_bytes);
        i.group_latent.push_back(g.latent);
    }
    return i;
}

}  // namespace troupe::actors::test
