// What `troupe perplexity` prints, line by line as llama-perplexity does, so that scripts made for it work.
#pragma once

#include <cstdint>

#include "model/evaluation/divergence.hpp"

namespace troupe::cli {

/// "[3]30.6540," without a line end: the perplexity of everything up to chunk `number` (from 1).
void print_chunk(std::int32_t number, const model::mean_of& nll);
/// "Final estimate: PPL = 24.9891 +/- 1.64740".
void print_estimate(const model::mean_of& nll);

void print_comparison_head();
/// One line of the comparison table, over everything up to chunk `number` (from 1).
void print_comparison(std::int32_t number, const model::divergence& d);
/// Means, percentiles and errors. Nothing for fewer than 100 positions: they would say nothing.
void print_statistics(const model::divergence& d);

}  // namespace troupe::cli
