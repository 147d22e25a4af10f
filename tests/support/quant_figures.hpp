// How far a quantized model file is from the one it was made of: weights and logits.
#pragma once

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "tests/support/paged_runner.hpp"
#include "tests/support/test_models.hpp"

namespace troupe::testing {

inline std::vector<float> float_values(const model::model_tensor& t) {
    std::vector<std::byte> copy;
    std::vector<float> values(static_cast<std::size_t>(t.cols() * t.rows()));
    kernels::dequantize(t.type, t.contents(copy).data(), t.cols() * t.rows(), values.data());
    return values;
}

/// Root mean square error over the values of all tensors whose type changed.
inline double weight_rmse(const model::model_file& original, const model::model_file& quantized) {
    double sum = 0, n = 0;
    for (const model::model_tensor& t : original.tensors()) {
        const model::model_tensor* q = quantized.tensor(t.name);
        EXPECT_NE(q, nullptr) << t.name;
        if (q == nullptr || q->type == t.type) continue;
        EXPECT_EQ(q->shape, t.shape);
        const auto a = float_values(t), b = float_values(*q);
        for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - b[i], 2);
        n += static_cast<double>(a.size());
    }
    return n > 0 ? std::sqrt(sum / n) : 0;
}

/// Logits of all tokens with F32 KV memory.
inline std::vector<float> logits_of(
    const std::string& path, const kernels::ops& ops, std::span<const std::int32_t> tokens) {
    const loaded l = load_model(path, ops, kernels::dtype::f32);
    if (!l.m) return {};
    paged_runner runner(*l.m);
    paged_sequence seq;
    return runner.feed_all(seq, tokens, 64);
}

}  // namespace troupe::testing
