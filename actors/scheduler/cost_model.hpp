// How long a step will take: a moving time of decode-only steps, and a fitted a + b x depth for a prompt token.
#pragma once

#include <cstdint>

namespace troupe::actors {

/// How much prompt a step with decode rows may hold, as a share of the time of decode rows alone: as much as keeps the
/// 99th percentile of the streams' gaps within three times their median. Machines scatter differently, so it is found
/// by trying: a step that takes too long lowers the share by a tenth, any other raises it by a two-thousandth, which is
/// in balance when one step in two hundred takes too long.
class prompt_share {
 public:
    /// A step with both kinds of rows took `ms`; one of decode rows alone takes `decode_ms` (0: not known).
    void observe(double ms, double decode_ms) {
        if (decode_ms <= 0) return;
        share_ *= ms > longest * decode_ms ? 0.9 : 1.0005;
        share_ = share_ < least ? least : share_ > most ? most : share_;
    }
    double of_decode() const { return share_; }
    static constexpr double least = 0.2, most = 1.5, longest = 2.8;

 private:
    double share_ = 0.75;
};

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
