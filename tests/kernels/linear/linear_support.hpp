// Random weights in file layout, and double arithmetic to compare products with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <vector>

#include "kernels/types.hpp"

namespace troupe::kernels::linear_test {

inline constexpr dtype all_types[] = {dtype::f32, dtype::f16, dtype::bf16, dtype::q4_0, dtype::q4_1, dtype::q5_0,
    dtype::q8_0, dtype::q4_k, dtype::q5_k, dtype::q6_k, dtype::q5_1, dtype::q2_k, dtype::q3_k, dtype::iq4_nl,
    dtype::iq4_xs, dtype::mxfp4, dtype::awq_32, dtype::awq_64, dtype::awq_128};
static_assert(std::size(all_types) == static_cast<std::size_t>(dtype::count_));

/// A matrix in file layout: random levels, finite scales.
struct file_matrix {
    dtype type;
    std::int64_t rows, cols;
    std::vector<std::byte> bytes;

    std::vector<float> values() const;  ///< [rows][cols]
    /// Bound of |scale * level| + |minimum| over the whole matrix: what the float sums of a kernel can see per value.
    double magnitude() const;
};

file_matrix random_matrix(dtype type, std::int64_t rows, std::int64_t cols, std::mt19937& random);
/// Every level byte is `fill`, scales are 1 / 64: the largest integer sums there are.
file_matrix filled_matrix(dtype type, std::int64_t rows, std::int64_t cols, std::uint8_t fill);

std::vector<float> random_activations(std::int64_t n, std::int64_t cols, std::mt19937& random);

/// x as the kernels see it: int8 with one scale for 16 values (design section 8, rule 3), and half a step of each
/// value.
struct rounded_activations {
    std::vector<float> values, half_step;
};
rounded_activations round_activations(const std::vector<float>& x);

/// 64-byte aligned storage.
struct aligned_bytes {
    explicit aligned_bytes(std::size_t size) : storage_(size / 64 + 1) {}
    std::byte* data() { return reinterpret_cast<std::byte*>(storage_.data()); }

 private:
    struct alignas(64) line {
        std::byte bytes[64];
    };
    std::vector<line> storage_;
};

}  // namespace troupe::kernels::linear_test
