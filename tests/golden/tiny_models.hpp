// Tiny random-weight models and what transformers in double precision expects of them (tests/data/logits/README.md).
#pragma once

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "tests/support/figures.hpp"
#include "tests/support/paged_runner.hpp"
#include "tests/support/test_models.hpp"

namespace troupe::testing {

inline constexpr std::size_t tiny_vocab = 320;

inline std::string tiny_path(const std::string& name) {
    return name.find("_K_") != std::string::npos ? data_path("tiny/" + name + ".gguf")
                                                 : cache_path("tiny/" + name + ".gguf");
}

/// Feeds the goldens' tokens, as many as there are expected rows, and compares every row.
inline distance measure_tiny(model::model& m, const std::string& expected_name) {
    const auto expected = read_array<float>("logits/" + expected_name + ".f32");
    auto tokens = read_array<std::int32_t>("logits/tokens.i32");
    tokens.resize(expected.size() / tiny_vocab);
    paged_runner runner(m);
    paged_sequence seq;
    return compare(expected, runner.feed_all(seq, tokens, 64), tiny_vocab);
}

/// "qwen2 F16, KV f32, avx2": the row of a figure.
inline std::string tiny_case(const std::string& name, const kernels::ops& ops, kernels::dtype kv) {
    const bool quantized = name.find("_K_") != std::string::npos;
    return fmt::format("{}{}, KV {}, {}", name, quantized ? "" : " F16", kernels::info(kv).name, ops.name);
}

}  // namespace troupe::testing
