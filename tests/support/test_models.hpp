// Models and expected values for tests: a file that is missing fails the test with its path.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "model/model.hpp"

namespace troupe::testing {

inline std::string environment(const char* name) {
    const char* value = std::getenv(name);
    EXPECT_NE(value, nullptr) << name << " must be set";
    return value ? value : "";
}
inline std::string data_path(const std::string& relative) {
    return environment("TROUPE_SOURCE_DIR") + "/tests/data/" + relative;
}
inline std::string cache_path(const std::string& relative) { return environment("TROUPE_TEST_CACHE") + "/" + relative; }

/// A raw little-endian array.
template <class T> std::vector<T> read_array(const std::string& relative) {
    std::ifstream in(data_path(relative), std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
    EXPECT_FALSE(bytes.empty()) << data_path(relative);
    std::vector<T> values(bytes.size() / sizeof(T));
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(values.data()));
    return values;
}

/// Lines of numbers: prompt ids, continuation ids, top-2 gap at each step of the continuation; one triple a prompt.
struct greedy_run {
    std::vector<std::int32_t> prompt, tokens;
    std::vector<float> gaps;
};
inline std::vector<greedy_run> read_greedy(const std::string& relative) {
    std::ifstream in(data_path(relative));
    std::vector<greedy_run> runs;
    const auto numbers = [](const std::string& line, auto& out) {
        std::istringstream words(line);
        for (typename std::decay_t<decltype(out)>::value_type v; words >> v;) out.push_back(v);
    };
    for (std::string prompt, tokens, gaps;
         std::getline(in, prompt) && std::getline(in, tokens) && std::getline(in, gaps);) {
        greedy_run& run = runs.emplace_back();
        numbers(prompt, run.prompt);
        numbers(tokens, run.tokens);
        numbers(gaps, run.gaps);
        EXPECT_EQ(run.tokens.size(), run.gaps.size());
    }
    EXPECT_FALSE(runs.empty()) << data_path(relative);
    return runs;
}

struct loaded {
    std::unique_ptr<kernels::pool> threads;
    std::unique_ptr<model::model> m;
};
inline loaded load_model(const std::string& path, const kernels::ops& ops, kernels::dtype kv,
    std::int32_t max_rows = 64, int n_threads = 2, std::int32_t n_ctx = 0) {
    loaded l;
    auto file = model::model_file::open(path);
    EXPECT_TRUE(file.ok()) << file.error().message;
    if (!file.ok()) return l;
    l.threads = std::make_unique<kernels::pool>(n_threads);
    auto m = model::model::load(
        *file, {.ops = &ops, .threads = l.threads.get(), .kv_type = kv, .max_rows = max_rows, .n_ctx = n_ctx});
    EXPECT_TRUE(m.ok()) << m.error().message;
    if (m.ok()) l.m = *std::move(m);
    return l;
}

/// How far logits are from expected ones: float sums in double.
struct distance {
    double relative = 0;  ///< ||a - b|| / ||b|| over all rows
    double max_abs = 0;
    double mean_kld = 0, max_kld = 0;  ///< KL(expected || actual) of each row's softmax
    double top1 = 0;                   ///< share of rows with equal argmax
};

inline double log_sum_exp(std::span<const float> z) {
    const double top = *std::max_element(z.begin(), z.end());
    double sum = 0;
    for (const float v : z) sum += std::exp(v - top);
    return top + std::log(sum);
}

inline double kl_divergence(std::span<const float> expected, std::span<const float> actual) {
    const double lp = log_sum_exp(expected), lq = log_sum_exp(actual);
    double sum = 0;
    for (std::size_t i = 0; i < expected.size(); ++i)
        sum += std::exp(expected[i] - lp) * ((expected[i] - lp) - (actual[i] - lq));
    return sum;
}

inline std::size_t argmax(std::span<const float> z) {
    return static_cast<std::size_t>(std::max_element(z.begin(), z.end()) - z.begin());
}

inline distance compare(std::span<const float> expected, std::span<const float> actual, std::size_t n_vocab) {
    distance d;
    EXPECT_EQ(expected.size(), actual.size());
    if (expected.size() != actual.size()) return {1e30, 1e30, 1e30, 1e30, 0};
    double difference = 0, norm = 0;
    const std::size_t rows = expected.size() / n_vocab;
    for (std::size_t r = 0; r < rows; ++r) {
        const auto e = expected.subspan(r * n_vocab, n_vocab), a = actual.subspan(r * n_vocab, n_vocab);
        for (std::size_t i = 0; i < n_vocab; ++i) {
            const double delta = static_cast<double>(a[i]) - e[i];
            difference += delta * delta;
            norm += static_cast<double>(e[i]) * e[i];
            d.max_abs = std::max(d.max_abs, std::abs(delta));
        }
        const double kld = kl_divergence(e, a);
        d.mean_kld += kld / static_cast<double>(rows);
        d.max_kld = std::max(d.max_kld, kld);
        d.top1 += argmax(e) == argmax(a) ? 1.0 / static_cast<double>(rows) : 0;
    }
    d.relative = std::sqrt(difference / norm);
    return d;
}

}  // namespace troupe::testing
