// The formulas of rope.hpp.
#include "model/architectures/rope.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/check.hpp"

namespace troupe::model {
namespace {

/// Index (not rounded) of the frequency that makes `turns` turns within the original context.
double yarn_index(double turns, double base, double dims, double original_context) {
    return dims * std::log(original_context / (turns * 2 * std::numbers::pi)) / (2 * std::log(base));
}

/// Frequencies below the ramp keep their value (they turn often), those above it are divided by the factor.
void stretch_yarn(std::vector<double>& freq, double base, double dims, const rope_scaling& s) {
    const double low = std::max(0.0, std::floor(yarn_index(s.beta_fast, base, dims, s.original_context)));
    const double high = std::min(dims - 1, std::ceil(yarn_index(s.beta_slow, base, dims, s.original_context)));
    const double width = std::max(0.001, high - low);
    for (std::size_t i = 0; i < freq.size(); ++i) {
        const double ramp = std::clamp((static_cast<double>(i) - low) / width, 0.0, 1.0);
        const double kept = (1 - ramp) * s.extrapolation;
        freq[i] = freq[i] / s.factor * (1 - kept) + freq[i] * kept;
    }
}

/// Long waves are stretched, short ones kept, those between mixed by how often they fit into the original context.
void stretch_llama3(std::vector<double>& freq, const rope_scaling& s) {
    for (double& f : freq) {
        const double turns = s.original_context * f / (2 * std::numbers::pi);
        const double kept =
            std::clamp((turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor), 0.0, 1.0);
        f = (1 - kept) * f / s.factor + kept * f;
    }
}

}  // namespace

std::vector<double> rope_frequencies(double base, std::int64_t dims, const rope_scaling& s) {
    std::vector<double> freq;
    for (std::int64_t i = 0; i < dims / 2; ++i)
        freq.push_back(std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(dims)));
    switch (s.type) {
    case rope_scaling_type::none:
    case rope_scaling_type::longrope:
        break;  // all of it is in the divisors
    case rope_scaling_type::linear:
        for (double& f : freq) f /= s.factor;
        break;
    case rope_scaling_type::yarn:
        stretch_yarn(freq, base, static_cast<double>(dims), s);
        break;
    case rope_scaling_type::llama3:
        stretch_llama3(freq, s);
        break;
    }
    CHECK(s.divisors.empty() || s.divisors.size() == freq.size());
    for (std::size_t i = 0; i < s.divisors.size(); ++i) freq[i] /= s.divisors[i];
    return freq;
}

double yarn_magnitude(double factor, double multiplier) {
    return factor <= 1 ? 1 : 0.1 * multiplier * std::log(factor) + 1;
}

double rope_magnitude(const rope_scaling& s) {
    if (s.type == rope_scaling_type::yarn)
        return s.attn_magnitude.value_or(yarn_magnitude(s.factor, 1) * s.attn_factor.value_or(1));
    if (s.type != rope_scaling_type::longrope) return 1;
    const double stretch = s.trained_context / s.original_context;
    const bool stretched = stretch > 1 && s.original_context > 1;
    return s.attn_factor.value_or(stretched ? std::sqrt(1 + std::log(stretch) / std::log(s.original_context)) : 1);
}

}  // namespace troupe::model
