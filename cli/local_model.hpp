// A model loaded into this process for one sequence at a time: what `generate` and `bench` run on.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "kernels/ops.hpp"
#include "model/kv_memory.hpp"
#include "model/model.hpp"
#include "model/tokenizers/tokenizer.hpp"

namespace troupe::cli {

struct local_options {
    std::string path, kernels = "auto", kv_type = "f16";
    std::int64_t threads = 0, ctx = 0;
    std::int64_t positions = 0;  ///< key/value memory is committed for this many (rounded up); bounded by the context
};

class local_model {
 public:
    static result<std::unique_ptr<local_model>> load(const local_options& o);

    const model::model_info& info() const { return model_->info(); }
    const kernels::ops& ops() const { return *ops_; }
    kernels::pool& threads() { return *threads_; }
    int n_threads() const { return threads_->size(); }
    std::int32_t n_ctx() const { return n_ctx_; }
    const std::shared_ptr<const model::model_file>& file() const { return file_; }

    /// Runs tokens at positions pos... in chunks; logits of the last one are in logits() afterwards.
    void run(std::span<const model::token_id> tokens, std::int32_t pos);
    std::span<const float> logits() const { return logits_; }
    /// Runs tokens at positions 0... and hands out the logits of those from `first` on, some rows at a time:
    /// use(index of the first row's token, logits [rows][n_vocab]).
    void run_rows(std::span<const model::token_id> tokens, std::size_t first,
        const std::function<void(std::size_t, std::span<const float>)>& use);

 private:
    local_model() = default;
    result<void> reserve(std::int64_t positions);
    /// One step; `n_logits` rows at its end give logits.
    void step(std::span<const model::token_id> tokens, std::int32_t pos, std::size_t n_logits, float* logits);

    std::shared_ptr<const model::model_file> file_;
    const kernels::ops* ops_ = nullptr;
    std::unique_ptr<kernels::pool> threads_;
    std::unique_ptr<model::model> model_;
    std::unique_ptr<model::kv_memory> memory_;
    std::vector<std::vector<model::block_id>> tables_;  ///< by layer group; no block is ever freed here
    std::vector<float> logits_;
    std::int32_t n_ctx_ = 0;
};

}  // namespace troupe::cli
