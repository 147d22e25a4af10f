// Runs plans on a backend, one after the other: sequences' state, KV operations, forward passes, sampling, ends. No
// thread, no CAF: a plan in, its result out.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "actors/executor/backend.hpp"
#include "actors/executor/faults.hpp"
#include "actors/executor/progress_page.hpp"
#include "actors/plan.hpp"
#include "model/grammar/constraint_cache.hpp"
#include "model/sampling/sampler.hpp"

namespace troupe::actors {

class plan_runner {
 public:
    /// `cancelled` is asked about a sequence before each pass that would compute a row of it; thread-safe.
    /// `begin` starts the work of the tiers below.
    plan_runner(backend& b, progress_page& page, fault_injector& faults, std::function<bool(sequence_id)> cancelled,
        std::function<void(const kv_job&)> begin = {});

    /// Runs one row on KV memory it takes and gives back: first use of the weights, and a first measure of speed.
    result<void> warm_up();

    /// Rows come back in the plan's order. A plan with more rows than one pass holds, or with more logits, is cut into
    /// passes: the result is the same (batch invariance), and cancel flags are read in between.
    plan_result run(const plan& p);

 private:
    struct sequence {
        std::vector<token_id> tokens;  ///< prompt + output
        std::int64_t n_prompt = 0;
        sequence_params params;
        model::sampling_params sampling;
        model::sampling_params sampling_without_end;       ///< while min_tokens bans the end tokens
        std::vector<std::vector<model::block_id>> tables;  ///< one a layer group
        std::vector<double> pooled;                        ///< [n_embd], of an embedded sequence: the sum so far
        float mu = 0;                                      ///< mirostat's
        std::optional<model::constraint_cursor> grammar;
        model::token_mask allowed;  ///< scratch
        bool ended = false, failed = false, watched = false;
        bool stuck = false;  ///< its grammar cannot be used or followed
        std::int64_t n_generated() const { return static_cast<std::int64_t>(tokens.size()) - n_prompt; }
    };
    /// A part of a row that runs in one pass.
    struct piece {
        std::size_t row = 0;
        sequence* seq = nullptr;
        std::int32_t pos = 0, n = 0;
        bool last = false;              ///< of its row
        std::int32_t first_logits = 0;  ///< index among the pass's logits
        std::int32_t n_logits = 0;
        std::int32_t first_hidden = 0, n_hidden = 0;  ///< among the pass's hidden states
    };

    void open(const sequence_open& o);
    result<void> open_grammar(sequence& s);
    bool constrain(sequence& s, const model::sampling_params*& sampling);
    void follow(sequence& s, token_id chosen, row_result& r);
    void run_ops(const plan& p, plan_result& r);
    bool run_op(const kv_op& op);
    void run_rows(const plan& p, plan_result& r);
    bool computable(const plan_row& row, const sequence& s) const;
    bool watched(const plan& p) const;
    void build_pass(const plan& p, plan_result& r);
    bool add_piece(const plan_row& row, sequence& s);
    std::int32_t wanted_logits(
        const plan_row& row, const sequence& s, std::int32_t pos, std::int32_t n, bool last) const;
    std::int32_t wanted_hidden(const plan_row& row, const sequence& s, std::int32_t n, bool last) const;
    bool samples(const plan_row& row, const sequence& s) const;
    void sleep_moving(std::int64_t ms);
    void forward_pass();
    void poison();
    void finish_piece(const plan_row& row, const piece& part, row_result& r, int thread);
    bool finite(const piece& part) const;
    const float* logits_at(std::int32_t i) const { return logits_.get() + i * static_cast<std::ptrdiff_t>(n_vocab_); }
    const float* hidden_at(std::int32_t i) const { return hidden_.get() + i * static_cast<std::ptrdiff_t>(n_embd_); }
    void score_prompt(const piece& part, row_result& r, int thread);
    void pool(const plan_row& row, const piece& part, row_result& r) const;
    void sample(sequence& s, const float* logits, row_result& r, int thread);
    void measure(std::int64_t rows, std::uint64_t ticks, std::uint64_t ns);

    backend& backend_;
    progress_page& page_;
    fault_injector& faults_;
    std::function<bool(sequence_id)> cancelled_;
    std::function<void(const kv_job&)> begin_;
    std::int32_t n_vocab_, n_embd_, max_rows_, max_logits_;
    std::vector<model::sampler> samplers_;  ///< one a thread
    std::unique_ptr<float[]> logits_;       ///< [max_logits_][n_vocab_]; pages come on first touch
    std::unique_ptr<float[]> hidden_;       ///< [max_rows_][n_embd_], from the first embedded sequence on
    model::constraint_cache grammars_;
    std::unordered_map<sequence_id, sequence> sequences_;
    double row_tick_ns_ = 0;  ///< slowest time of a tick for each row of a pass, slowly forgotten
    bool nan_due_ = false, nan_watched_only_ = false;

    // of the running plan and pass
    std::size_t next_row_ = 0;
    std::int32_t done_of_row_ = 0;  ///< tokens of row next_row_ that earlier passes took
    std::vector<piece> pieces_;
    model::batch batch_;
    std::size_t n_batch_seqs_ = 0;
    std::int32_t n_rows_ = 0;
};

}  // namespace troupe::actors
