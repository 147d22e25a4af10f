// Chooses the block quantizer and prepares its weights.
#include "model/quant/quantize_row.hpp"

#include <array>
#include <cstring>

#include "core/check.hpp"

namespace troupe::model {
namespace {

using kernels::dtype;

detail::block_quantizer quantizer_of(dtype type) {
    switch (type) {
    case dtype::q4_0:
        return detail::quantize_q4_0;
    case dtype::q4_1:
        return detail::quantize_q4_1;
    case dtype::q5_0:
        return detail::quantize_q5_0;
    case dtype::q5_1:
        return detail::quantize_q5_1;
    case dtype::q8_0:
        return detail::quantize_q8_0;
    case dtype::iq4_nl:
        return detail::quantize_iq4_nl;
    case dtype::q2_k:
        return detail::quantize_q2_k;
    case dtype::q3_k:
        return detail::quantize_q3_k;
    case dtype::q4_k:
        return detail::quantize_q4_k;
    case dtype::q5_k:
        return detail::quantize_q5_k;
    case dtype::q6_k:
        return detail::quantize_q6_k;
    case dtype::iq4_xs:
        return detail::quantize_iq4_xs;
    default:
        return nullptr;
    }
}

constexpr int most_values = 256;

/// Weights with mean 1 over the block; a column that was never active still counts for a little, so that its values do
/// not become arbitrary.
void block_weights(const float* importance, int n, float* w) {
    constexpr double least = 1e-4;
    double sum = 0;
    for (int i = 0; importance != nullptr && i < n; ++i) sum += importance[i];
    const double mean = sum / n;
    for (int i = 0; i < n; ++i) w[i] = mean > 0 ? static_cast<float>(importance[i] / mean + least) : 1.0f;
}

template <class Convert> void convert_16(const float* x, std::int64_t n, std::byte* dst, Convert convert) {
    for (std::int64_t i = 0; i < n; ++i) {
        const std::uint16_t v = convert(x[i]);
        std::memcpy(dst + 2 * i, &v, sizeof v);
    }
}

}  // namespace

bool can_quantize_to(dtype type) { return !kernels::info(type).quantized || quantizer_of(type) != nullptr; }

void quantize_row(dtype type, const float* x, const float* importance, std::int64_t n, std::byte* dst) {
    const kernels::dtype_info& t = kernels::info(type);
    CHECK(n >= 0 && n % t.block_values == 0);
    if (type == dtype::f32) {
        std::memcpy(dst, x, static_cast<std::size_t>(n) * sizeof(float));
        return;
    }
    if (type == dtype::f16) return convert_16(x, n, dst, kernels::float_to_half);
    if (type == dtype::bf16) return convert_16(x, n, dst, kernels::float_to_bfloat);
    const detail::block_quantizer quantize = quantizer_of(type);
    CHECK(quantize != nullptr, "a type that can be written");
    std::array<float, most_values> w;
    for (std::int64_t i = 0; i < n; i += t.block_values, dst += t.block_bytes) {
        block_weights(importance != nullptr ? importance + i : nullptr, t.block_values, w.data());
        quantize(x + i, w.data(), reinterpret_cast<std::uint8_t*>(dst));
    }
}

}  // namespace troupe::model
