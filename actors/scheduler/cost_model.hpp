// How long a step will take: a moving time of decode-only steps, and a fitted a + b x depth for a prompt token.
#pragma once

#include <cstdint>

namespace troupe::actors {

class cost_model {
 public:
    /// What a finished step held and took. depth_sum: over its prompt tokens, their positions.
    void observe(std::int64_t decode_rows, std::int64_t prompt_tokens, double depth_sum, double ms);

    double decode_ms() const { return decode_ms_; }  ///< 0: not known yet
    bool knows_prompt() const { return a_ > 0; }
    double token_ms() const { return a_; }  ///< of a prompt token at position 0; 0: not known yet
    double depth_ms() const;                ///< more for each position before it
    /// Milliseconds that n prompt tokens from position `start` add to a step; 0 while nothing is known.
    double prompt_ms(std::int64_t n, std::int64_t start) const;
    /// The most prompt tokens from `start` that fit into `budget_ms`, within [least, most].
    std::int64_t chunk(double budget_ms, std::int64_t start, std::int64_t least, std::int64_t most) const;

 private:
    double decode_ms_ = 0;
    double a_ = 0, b_ = 0;                               ///< ms a token, ms a token and 1024 positions of depth
    double nn_ = 0, nd_ = 0, dd_ = 0, ny_ = 0, dy_ = 0;  ///< sums of the fit, decaying
};

}  // namespace troupe::actors
