#include "tests/kernels/linear/linear_support.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace troupe::kernels::linear_test {
namespace {

constexpr float scale_max = 1.0f / 64;

/// Where a block's f16 scales are: first byte, how many.
struct scale_place {
    int first, count;
};
scale_place scales_of(dtype type) {
    switch (type) {
    case dtype::q4_1:
    case dtype::q5_1:
    case dtype::q4_k:
    case dtype::q5_k:
        return {0, 2};
    case dtype::q2_k:
        return {80, 2};
    case dtype::q3_k:
        return {108, 1};
    case dtype::q6_k:
        return {208, 1};
    default:
        return {0, 1};
    }
}

template <class Next> void write_scales(file_matrix& m, Next next) {
    const scale_place place = scales_of(m.type);
    for (std::size_t b = 0; b < m.bytes.size(); b += static_cast<std::size_t>(info(m.type).block_bytes))
        for (int i = 0; i < place.count; ++i) {
            if (m.type == dtype::mxfp4) {  // 2^(e - 128): the largest power of two up to the scale
                m.bytes[b] = static_cast<std::byte>(128 + std::max(-20, std::ilogb(next(i))));
                continue;
            }
            const std::uint16_t h = float_to_half(next(i));
            std::memcpy(&m.bytes[b + static_cast<std::size_t>(place.first + 2 * i)], &h, 2);
        }
}

}  // namespace

std::vector<float> file_matrix::values() const {
    std::vector<float> out(static_cast<std::size_t>(rows * cols));
    dequantize(type, bytes.data(), rows * cols, out.data());
    return out;
}

double file_matrix::magnitude() const {
    switch (type) {
    case dtype::q4_0:
        return (15 + 8) * scale_max;
    case dtype::q4_1:
        return 16 * scale_max;
    case dtype::q5_0:
        return (31 + 16) * scale_max;
    case dtype::q5_1:
        return 32 * scale_max;
    case dtype::q2_k:
        return 15 * 4 * scale_max;
    case dtype::q3_k:
        return 32 * 4 * scale_max;
    case dtype::iq4_nl:
        return 127 * scale_max;
    case dtype::iq4_xs:
        return 32 * 127 * scale_max;
    case dtype::mxfp4:
        return 12 * scale_max;
    case dtype::awq_32:
    case dtype::awq_64:
    case dtype::awq_128:
        return (15 + 255) * scale_max;  // a zero has a byte to itself
    case dtype::q8_0:
        return 128 * scale_max;
    case dtype::q4_k:
        return 63 * 16 * scale_max;
    case dtype::q5_k:
        return 63 * 32 * scale_max;
    case dtype::q6_k:
        return 128 * 32 * scale_max;
    default:
        return 1.0;
    }
}

file_matrix random_matrix(dtype type, std::int64_t rows, std::int64_t cols, std::mt19937& random) {
    file_matrix m{type, rows, cols, std::vector<std::byte>(static_cast<std::size_t>(rows) * row_bytes(type, cols))};
    std::uniform_real_distribution<float> unit(-1.0f, 1.0f);
    if (info(type).quantized) {
        for (std::byte& b : m.bytes) b = static_cast<std::byte>(random());
        write_scales(m, [&](int) { return scale_max * unit(random); });
        return m;
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(rows * cols); ++i) {
        const float value = unit(random);
        const std::uint16_t two = type == dtype::f16 ? float_to_half(value) : float_to_bfloat(value);
        if (type == dtype::f32)
            std::memcpy(&m.bytes[4 * i], &value, 4);
        else
            std::memcpy(&m.bytes[2 * i], &two, 2);
    }
    return m;
}

file_matrix filled_matrix(dtype type, std::int64_t rows, std::int64_t cols, std::uint8_t fill) {
    file_matrix m{type, rows, cols,
        std::vector<std::byte>(static_cast<std::size_t>(rows) * row_bytes(type, cols), static_cast<std::byte>(fill))};
    write_scales(m, [](int) { return scale_max; });
    return m;
}

std::vector<float> random_activations(std::int64_t n, std::int64_t cols, std::mt19937& random) {
    std::normal_distribution<float> normal;
    std::vector<float> x(static_cast<std::size_t>(n * cols));
    for (float& v : x) v = normal(random);
    return x;
}

rounded_activations round_activations(const std::vector<float>& x) {
    rounded_activations out{std::vector<float>(x.size()), std::vector<float>(x.size())};
    for (std::size_t b = 0; b < x.size(); b += 16) {
        float max = 0;
        for (std::size_t i = b; i < b + 16; ++i) max = std::max(max, std::fabs(x[i]));
        const float step = max / 127.0f, inverse = max > 0 ? 127.0f / max : 0.0f;
        for (std::size_t i = b; i < b + 16; ++i) {
            out.values[i] = step * std::nearbyint(x[i] * inverse);
            out.half_step[i] = 0.5f * step;
        }
    }
    return out;
}

}  // namespace troupe::kernels::linear_test
