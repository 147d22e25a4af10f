// A loaded model: weights packed for one op table, and a forward pass over a mixed batch of sequences.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "kernels/ops.hpp"
#include "model/formats/model_file.hpp"
#include "model/kv_layout.hpp"
#include "model/tokenizers/tokenizer.hpp"

namespace troupe::model {

struct model_info {
    std::string architecture;  ///< general.architecture: "llama", "gemma3", ...
    std::string name;          ///< general.name, else the file's stem
    std::string quantization;  ///< most frequent weight type, as users write it ("Q4_1")
    std::int64_t n_params = 0;
    std::int64_t weight_bytes = 0;  ///< of all tensors in the file
    std::int32_t n_layers = 0, n_embd = 0, n_heads = 0, n_kv_heads = 0, head_dim = 0, n_ff = 0, n_vocab = 0;
    std::int32_t n_ctx_train = 0;
    std::string numerics;    ///< which numbers the configured context chose ("longrope"); empty: it chose none
    std::string model_hash;  ///< hex SHA-256 of header + size + 64 sampled pages (design: engineering.md, Data)
};

struct load_options {
    const kernels::ops* ops = nullptr;  ///< required
    kernels::pool* threads = nullptr;   ///< required; outlives the model
    kernels::dtype kv_type = kernels::dtype::f16;
    std::int32_t max_rows = 512;  ///< largest batch of one step; scratch is reserved for it
    std::int32_t n_ctx = 0;       ///< configured context of a sequence; 0: n_ctx_train
    std::uint64_t segment_bytes = 8u << 20;
    std::function<void(double)> progress;  ///< 0..1 while loading; may be empty
};

/// The rows of one sequence in a step.
struct batch_seq {
    std::span<const token_id> tokens;
    std::int32_t pos = 0;  ///< absolute position of tokens[0]
    std::vector<std::span<const block_id>>
        tables;  ///< one a layer group, [ceil((pos + n) / 16)] blocks from position 0
};

/// Rows of the batch are the sequences' tokens in order. Logits are computed for `logit_rows` only; of `hidden_rows`
/// the output of the final norm goes to `hidden` [hidden_rows.size()][n_embd]. Both ascend, and no row is in both.
struct batch {
    std::vector<batch_seq> seqs;
    std::vector<std::int32_t> logit_rows, hidden_rows;
    float* hidden = nullptr;
};

class model {
 public:
    /// model_unsupported (architecture, tensor types: named, before anything is allocated), model_malformed (shapes,
    /// missing tensors), out_of_memory with the numbers.
    static result<std::unique_ptr<model>> load(std::shared_ptr<const model_file> file, const load_options& options);
    virtual ~model() = default;

    virtual const model_info& info() const = 0;
    virtual const kv_layout& layout() const = 0;
    /// Context a sequence may have: min(n_ctx configured, n_ctx_train).
    virtual std::int32_t n_ctx() const = 0;

    /// One forward pass. `kv` is the start of the reserved KV range (blocks at layout().offset). Total rows must be
    /// 1..max_rows, token ids in range (CHECKed: callers validate). logits: [logit_rows.size()][n_vocab].
    /// `progress` (may be null) is increased after every layer, so that a watcher sees a long step move.
    virtual void forward(const batch& b, std::byte* kv, float* logits, std::atomic<std::uint64_t>* progress) = 0;
};

/// Hyper-parameters and KV layout without loading weights (inspect --plan, admission).
struct model_plan {
    model_info info;
    kv_layout layout;
    std::uint64_t packed_bytes = 0, scratch_bytes = 0;
};
result<model_plan> plan(const model_file& file, const load_options& options);

/// What one architecture file registers: how to recognise it and how to build it.
struct architecture;
std::span<const architecture* const> architectures();

}  // namespace troupe::model
