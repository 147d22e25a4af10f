// What serving a model needs: memory by part, key/value bytes a token, the context that fits, and the facts of its text
// side, as JSON and for a person.
#pragma once

#include <cstdint>

#include <boost/json.hpp>

#include "model/model.hpp"

namespace troupe::cli {

/// Bytes of key/value memory for n_seqs sequences of n_ctx tokens, in whole segments as the engine commits it. Window
/// layers hold their window and the block being filled.
std::uint64_t kv_bytes(const model::kv_layout& layout, std::int64_t n_ctx, std::int64_t n_seqs);

/// The longest context n_seqs sequences can have in `memory` bytes beside weights and scratch, at most `longest`, in
/// whole blocks; 0: not even one block.
std::int64_t context_that_fits(
    const model::model_plan& plan, std::uint64_t memory, std::int64_t longest, std::int64_t n_seqs);

boost::json::object plan_json(const model::model_plan& plan, std::int64_t n_ctx, std::int64_t n_seqs);
/// Vocabulary, pre-tokenizer, special and end tokens, chat template. A tokenizer this build refuses gives
/// {"error": why}.
boost::json::object text_json(const model::model_file& file);

void print_plan(const boost::json::object& plan);
void print_text_side(const boost::json::object& text);

}  // namespace troupe::cli
