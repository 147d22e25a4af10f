// Reads a hostile file for a family: hyper-parameters with ranges, tensors with shapes, layer groups, activations. The
// first thing that is wrong is kept and everything after it reads as harmless, so a family needs no error handling of
// its own.
#pragma once

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/result.hpp"
#include "model/architectures/step.hpp"
#include "model/formats/model_file.hpp"
#include "model/kv_layout.hpp"
#include "model/weights.hpp"

namespace troupe::model {

/// The sizes nearly every family has. Read by builder::read_dims.
struct decoder_dims {
    std::int32_t n_layers = 1, n_embd = 1, n_heads = 1, n_kv_heads = 1, head_dim = 16, n_ff = 1, n_vocab = 1,
                 n_ctx_train = 1;
    float eps = 1e-6f;
    std::int64_t q_width() const { return static_cast<std::int64_t>(n_heads) * head_dim; }
    std::int64_t kv_width() const { return static_cast<std::int64_t>(n_kv_heads) * head_dim; }
};

inline constexpr std::int64_t most_window = 1 << 28;

class builder {
 public:
    /// `n_ctx`: the configured context of a sequence; 0: what the file was trained for.
    builder(const model_file& file, std::string_view architecture, kernels::dtype kv_type, std::int32_t n_ctx);

    // -- hyper-parameters: "block_count" stands for "<architecture>.block_count" -----------------------------------
    std::int64_t integer(std::string_view key, std::int64_t lowest, std::int64_t highest);
    std::int64_t integer_or(std::string_view key, std::int64_t fallback, std::int64_t lowest, std::int64_t highest);
    double number(std::string_view key, double lowest, double highest);
    double number_or(std::string_view key, double fallback, double lowest, double highest);
    std::string text_or(std::string_view key, std::string_view fallback);
    bool flag_or(std::string_view key, bool fallback);
    bool given(std::string_view key) const { return file_.type_of(full(key)).has_value(); }
    /// block_count, embedding_length, feed_forward_length, attention.*, context_length, and the vocabulary from
    /// token_embd.weight (checked against vocab_size and the tokenizer's list).
    decoder_dims read_dims();
    /// The same without attention.head_count_kv, key_length and value_length: for attention of another kind.
    decoder_dims read_sizes();
    /// Frequencies of the rope.dimension_count (default: head_dim) values that are rotated, stretched by `scaling`.
    rope_spec read_rope(double base, const rope_scaling& scaling, int head_dim, kernels::rope_pairs pairs);
    /// rope.scaling.*, rope_freqs.weight and rope_factors_{long,short}.weight, of which the configured context chooses.
    /// After read_dims. An unknown type is model_unsupported.
    rope_scaling read_rope_scaling(int head_dim);
    /// attention.sliding_window; 0: none.
    std::int32_t window_or(std::int32_t fallback);
    /// The window in every layer but each attention.sliding_window_pattern-th, which has none (0); after read_dims.
    std::vector<std::int32_t> alternating_windows(std::int32_t window, std::int64_t default_pattern);

    // -- tensors ---------------------------------------------------------------------------------------------------
    bool has(std::string_view name) const { return file_.tensor(name) != nullptr; }
    void embed(embedding& target, const std::string& name, std::int64_t vocab, std::int64_t cols);
    void matrix(kernels::weight& target, const std::string& name, std::int64_t rows, std::int64_t cols);
    /// `count` rows from `first` on of a matrix that holds several, `rows` in all.
    void matrix_rows(kernels::weight& target, const std::string& name, std::int64_t rows, std::int64_t cols,
        std::int64_t first, std::int64_t count);
    /// Its values as float, whatever type the file has.
    void float_matrix(kernels::weight& target, const std::string& name, std::int64_t rows, std::int64_t cols);
    /// A tensor of `count` matrices of rows x cols, of which a row of a step meets at most `met`.
    void stack(kernels::weight_stack& target, const std::string& name, std::int64_t count, std::int64_t rows,
        std::int64_t cols, std::int64_t met);
    /// Parts of a matrix of rows x cols, all of which a row of a step meets.
    void stack_of_rows(kernels::weight_stack& target, const std::string& name, std::int64_t rows, std::int64_t cols,
        const stack_slices& slices);
    void vector(const float*& target, const std::string& name, std::int64_t n);
    /// Left null if the file has no such tensor.
    void optional_vector(const float*& target, const std::string& name, std::int64_t n);
    /// A small table that is wanted now (rotary factors); empty if absent.
    std::vector<float> optional_values(const std::string& name, std::int64_t n);
    /// "output.weight", or the embedding matrix again where they are tied.
    void output(kernels::weight& target, std::int64_t vocab, std::int64_t cols);

    // -- KV and activations ----------------------------------------------------------------------------------------
    /// One slot a layer. Layers with equal windows form a group; full attention (0) is the first group. A window that
    /// covers the configured context is none.
    std::vector<attention_slot> attention(
        const decoder_dims& dims, float scale, float softcap, std::span<const std::int32_t> window_of_layer);
    /// Multi-head latent attention in all layers: a token keeps one latent and one own part of its key, and all heads
    /// share them.
    std::vector<attention_slot> latent_attention(std::int64_t latent, std::int64_t own, float scale);
    /// A buffer [max_rows][width] that lives as long as the model.
    void activation(float*& target, std::int64_t width) { activations_.push_back({&target, nullptr, width}); }
    void activation(std::int32_t*& target, std::int64_t width) { activations_.push_back({nullptr, &target, width}); }

    void refuse(errc code, std::string message, std::string param = {});
    /// After describe: the first refusal, or a tensor nobody asked for (it would change the result if it were used).
    result<void> finish();

    // -- for model.cpp ---------------------------------------------------------------------------------------------
    struct buffer {  ///< of 4-byte values; one of the targets
        float** floats;
        std::int32_t** indices;
        std::int64_t width;
    };
    /// Most x values a row brings to a stack, and most matrices in one.
    struct stack_use {
        std::int64_t values = 0, count = 0;
    };
    const decoder_dims& dims() const { return dims_; }
    const weight_plan& weights() const { return weights_; }
    const stack_use& stacks() const { return stacks_; }
    std::span<const buffer> activations() const { return activations_; }
    std::span<const layer_group> groups() const { return groups_; }
    /// model_info::numerics
    std::string_view numerics() const { return long_factors_ ? "longrope" : ""; }

 private:
    std::string full(std::string_view key) const { return architecture_ + "." + std::string(key); }
    template <class T> std::optional<T> take(result<std::optional<T>> read);
    const model_tensor* find(const std::string& name, std::initializer_list<std::int64_t> shape);
    std::int32_t context() const;
    std::int64_t rotated_dims(int head_dim);
    void read_yarn(rope_scaling& s);
    void read_divisors(rope_scaling& s, std::int64_t n);
    void check_vocabulary();
    void check_heads(bool head_dim_given);
    void count_stack(std::int64_t count, std::int64_t values);

    const model_file& file_;
    std::string architecture_;
    kernels::dtype kv_type_;
    std::int32_t n_ctx_;
    bool long_factors_ = false;
    std::optional<error> refusal_;
    decoder_dims dims_;
    weight_plan weights_;
    stack_use stacks_;
    std::vector<buffer> activations_;
    std::vector<layer_group> groups_;
    std::deque<model_tensor> slices_;  ///< parts of the file's tensors, as weights_ wants them
    std::unordered_set<const model_tensor*> used_;
};

/// "blk.7."
std::string layer_prefix(std::size_t layer);

}  // namespace troupe::model
