// Rotary frequencies for every kind of stretching a file can ask for. All of it in double, at load, from what the file
// says and the configured context: never from the length a sequence happens to have (design section 8, rule 5).
// Sources: YaRN (Peng et al. 2023, appendix A), LongRoPE (Ding et al. 2024), Llama 3.1's model card.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/ops.hpp"

namespace troupe::model {

/// Rotary frequencies of a layer kind, and what its cosines and sines are multiplied by.
struct rope_spec {
    std::vector<double> inv_freq;  ///< rotated dims / 2
    double magnitude = 1.0;
    kernels::rope_pairs pairs = kernels::rope_pairs::adjacent;
    int half() const { return static_cast<int>(inv_freq.size()); }
};

enum class rope_scaling_type : std::uint8_t { none, linear, yarn, longrope, llama3 };

/// rope.scaling.* of a file; the defaults stretch nothing.
struct rope_scaling {
    rope_scaling_type type = rope_scaling_type::none;
    double factor = 1;                                 ///< longest context / original context
    double original_context = 1;                       ///< tokens the model was first trained on
    double trained_context = 1;                        ///< context_length of the file
    double beta_fast = 32, beta_slow = 1;              ///< yarn: turns within the original context
    double extrapolation = 1;                          ///< yarn: share of the ramp that is applied
    double low_freq_factor = 1, high_freq_factor = 4;  ///< llama3: likewise
    std::optional<double> attn_factor;                 ///< multiplies yarn's magnitude, is longrope's
    std::optional<double> attn_magnitude;  ///< yarn: the magnitude itself, in place of what the factor gives
    double log_multiplier = 0;             ///< yarn_log_multiplier as stored; 0: absent
    std::vector<double> divisors;          ///< one a frequency, or none: rope_freqs and rope_factors_* tensors
};

/// base^(-2i/dims) for i < dims/2, stretched.
std::vector<double> rope_frequencies(double base, std::int64_t dims, const rope_scaling& s);

/// 1 + 0.1 multiplier ln(factor), and 1 where nothing is stretched. Models with an mscale use ratios and squares of it.
double yarn_magnitude(double factor, double multiplier);

/// What cosines and sines are multiplied by, as far as the scaling alone decides it.
double rope_magnitude(const rope_scaling& s);

}  // namespace troupe::model
