// Perplexity and KL divergence of a text, as llama-perplexity defines them: scores of single positions, and the
// estimates with their standard errors that sums of scores give.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/evaluation/logits_file.hpp"

namespace troupe::model {

/// -ln p(next); not finite if any logit is NaN or +inf.
double negative_log_likelihood(std::span<const float> logits, token_id next);

/// One position of the model under test beside the stored log-probabilities of the base.
struct position_score {
    double nll = 0, nll_base = 0;  ///< of the token that follows
    double kld = 0;                ///< KL(base || model); tokens the base gives less than e^-16 are left out
    double p_diff = 0;             ///< p(model) - p(base) of the token that follows
    bool same_top = false;         ///< both give the same token the highest probability
};
/// kld is not finite if any logit is NaN or +inf.
position_score score_position(std::span<const float> logits, packed_row base, token_id next);

struct estimate {
    double value = 0, error = 0;  ///< one standard error; 0 where there are too few positions to tell
};

/// Mean of values and its standard error.
class mean_of {
 public:
    void add(double v) {
        sum_ += v;
        squares_ += v * v;
        ++n_;
    }
    std::size_t count() const { return n_; }
    estimate mean() const;

 private:
    double sum_ = 0, squares_ = 0;
    std::size_t n_ = 0;
};

/// e to the mean of nll, with its error.
estimate perplexity(const mean_of& nll);

/// Everything the comparison of two models reports.
class divergence {
 public:
    void add(const position_score& s);
    std::size_t count() const { return scores_.size(); }

    estimate perplexity_model() const { return perplexity(nll_); }
    estimate perplexity_base() const { return perplexity(nll_base_); }
    double correlation() const;  ///< of the two nll, -1..1
    estimate log_ratio() const;  ///< ln(PPL(model) / PPL(base)); both saw the same text, so their covariance counts
    estimate ratio() const;
    estimate difference() const;  ///< PPL(model) - PPL(base)
    estimate kld() const { return kld_.mean(); }
    estimate p_diff() const { return p_diff_.mean(); }
    estimate p_diff_rms() const;
    estimate same_top() const;

    /// Ascending.
    std::vector<double> sorted_kld() const;
    std::vector<double> sorted_p_diff() const;

 private:
    double covariance() const;  ///< of the two means
    std::vector<position_score> scores_;
    mean_of nll_, nll_base_, kld_, p_diff_, p_diff_squared_;
    double products_ = 0;
    std::size_t n_same_top_ = 0;
};

/// Of ascending values, linear between neighbours; fraction 0..1.
double percentile(std::span<const double> sorted, double fraction);

}  // namespace troupe::model
