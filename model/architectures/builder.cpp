// Bounds are generous for real models and small enough that no product of two of them leaves 63 bits.
#include "model/architectures/builder.hpp"

#include <algorithm>
#include <cmath>

#include "core/check.hpp"
#include "model/formats/gguf_parse.hpp"

namespace troupe::model {
namespace {

constexpr std::int64_t most_layers = 1024, most_width = 1 << 20, most_heads = 4096, most_head_dim = 1024,
                       most_vocab = 1 << 24, most_context = 1 << 28;
/// Kernels work on whole vectors of a head.
constexpr std::int64_t head_dim_step = 16;

std::string shape_text(std::span<const std::int64_t> shape) {
    std::string text = "[";
    for (const std::int64_t n : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(n);
    return text + "]";
}

/// Another source's rows from `first` on.
class later_rows final : public tensor_source {
 public:
    later_rows(std::shared_ptr<const tensor_source> all, std::int64_t first) : all_(std::move(all)), first_(first) {}
    void read_rows(std::int64_t first, std::int64_t n, std::byte* out) const override {
        all_->read_rows(first_ + first, n, out);
    }

 private:
    std::shared_ptr<const tensor_source> all_;
    std::int64_t first_;
};

bool is_float(kernels::dtype type) { return !kernels::info(type).quantized; }

}  // namespace

std::string layer_prefix(std::size_t layer) { return "blk." + std::to_string(layer) + "."; }

builder::builder(const model_file& file, std::string_view architecture, kernels::dtype kv_type, std::int32_t n_ctx)
    : file_(file), architecture_(architecture), kv_type_(kv_type), n_ctx_(n_ctx) {
    const bool known = kv_type == kernels::dtype::f32 || kv_type == kernels::dtype::f16 ||
                       kv_type == kernels::dtype::bf16 || kv_type == kernels::dtype::q8_0;
    if (!known) refuse(errc::usage, "KV memory can be f32, f16, bf16 or q8_0", "kv-type");
}

void builder::refuse(errc code, std::string message, std::string param) {
    if (!refusal_) refusal_ = fail(code, std::move(message), std::move(param));
}

template <class T> std::optional<T> builder::take(result<std::optional<T>> read) {
    if (read) return *std::move(read);
    refuse(read.error().code, read.error().message, read.error().param);
    return std::nullopt;
}

// -- hyper-parameters -----------------------------------------------------------------------------------------------

std::int64_t builder::integer(std::string_view key, std::int64_t lowest, std::int64_t highest) {
    if (!file_.type_of(full(key))) refuse(errc::model_malformed, "the file lacks '" + full(key) + "'", full(key));
    return integer_or(key, lowest, lowest, highest);
}

std::int64_t builder::integer_or(
    std::string_view key, std::int64_t fallback, std::int64_t lowest, std::int64_t highest) {
    const auto value = take(file_.get_int(full(key)));
    if (!value) return fallback;
    if (*value >= lowest && *value <= highest) return *value;
    refuse(errc::model_malformed,
        "'" + full(key) + "' is " + std::to_string(*value) + ", not in " + std::to_string(lowest) + ".." +
            std::to_string(highest),
        full(key));
    return lowest;
}

double builder::number(std::string_view key, double lowest, double highest) {
    if (!file_.type_of(full(key))) refuse(errc::model_malformed, "the file lacks '" + full(key) + "'", full(key));
    return number_or(key, lowest, lowest, highest);
}

double builder::number_or(std::string_view key, double fallback, double lowest, double highest) {
    const auto value = take(file_.get_float(full(key)));
    if (!value) return fallback;
    if (*value >= lowest && *value <= highest) return *value;  // false for NaN
    refuse(errc::model_malformed, "'" + full(key) + "' is " + std::to_string(*value) + ", not in a sensible range",
        full(key));
    return lowest;
}

std::string builder::text_or(std::string_view key, std::string_view fallback) {
    return std::string(take(file_.get_string(full(key))).value_or(fallback));
}

bool builder::flag_or(std::string_view key, bool fallback) {
    return take(file_.get_bool(full(key))).value_or(fallback);
}

decoder_dims builder::read_sizes() {
    decoder_dims& d = dims_;
    const auto read = [&](std::string_view key, std::int64_t highest) {
        return static_cast<std::int32_t>(integer(key, 1, highest));
    };
    d.n_layers = read("block_count", most_layers);
    d.n_embd = read("embedding_length", most_width);
    d.n_ff = read("feed_forward_length", most_width);
    d.n_heads = read("attention.head_count", most_heads);
    d.n_ctx_train = read("context_length", most_context);
    d.eps = static_cast<float>(number("attention.layer_norm_rms_epsilon", 1e-12, 1.0));
    check_vocabulary();
    return d;
}

decoder_dims builder::read_dims() {
    read_sizes();
    decoder_dims& d = dims_;
    d.n_kv_heads = static_cast<std::int32_t>(integer_or("attention.head_count_kv", d.n_heads, 1, most_heads));
    const std::int64_t implied = std::clamp<std::int64_t>(d.n_embd / d.n_heads, 1, most_head_dim);
    d.head_dim = static_cast<std::int32_t>(integer_or("attention.key_length", implied, 1, most_head_dim));
    check_heads(file_.type_of(full("attention.key_length")).has_value());
    if (integer_or("attention.value_length", d.head_dim, 1, most_head_dim) != d.head_dim)
        refuse(
            errc::model_unsupported, "heads whose keys and values differ in length are not built for " + architecture_);
    return d;
}

void builder::check_heads(bool head_dim_given) {
    const decoder_dims& d = dims_;
    if (!head_dim_given && d.n_embd % d.n_heads != 0)
        refuse(errc::model_malformed,
            "embedding_length " + std::to_string(d.n_embd) + " is no multiple of head_count " +
                std::to_string(d.n_heads),
            full("attention.head_count"));
    if (d.n_heads % d.n_kv_heads != 0)
        refuse(errc::model_malformed,
            "head_count " + std::to_string(d.n_heads) + " is no multiple of head_count_kv " +
                std::to_string(d.n_kv_heads),
            full("attention.head_count_kv"));
    const std::int64_t step = kv_type_ == kernels::dtype::q8_0 ? 32 : head_dim_step;
    if (d.head_dim % step != 0)
        refuse(errc::model_unsupported, "heads of " + std::to_string(d.head_dim) +
                                            " values; with this KV type multiples of " + std::to_string(step) +
                                            " are supported");
}

void builder::check_vocabulary() {
    const model_tensor* t = file_.tensor("token_embd.weight");
    if (t == nullptr)
        return refuse(errc::model_malformed, "the file lacks tensor 'token_embd.weight'", "token_embd.weight");
    const std::int64_t rows = t->rows();
    if (rows > most_vocab) return refuse(errc::model_malformed, "a vocabulary of " + std::to_string(rows) + " tokens");
    dims_.n_vocab = static_cast<std::int32_t>(rows);
    const auto compare = [&](std::int64_t count, const std::string& what) {
        if (count != rows)
            refuse(errc::model_malformed,
                what + " has " + std::to_string(count) + " tokens, token_embd.weight " + std::to_string(rows),
                "token_embd.weight");
    };
    compare(integer_or("vocab_size", rows, 1, most_vocab), "'" + full("vocab_size") + "'");
    if (const auto tokens = take(file_.get_strings("tokenizer.ggml.tokens")))
        compare(static_cast<std::int64_t>(tokens->size()), "the tokenizer");
}

std::int32_t builder::window_or(std::int32_t fallback) {
    return static_cast<std::int32_t>(integer_or("attention.sliding_window", fallback, 0, most_window));
}

std::vector<std::int32_t> builder::alternating_windows(std::int32_t window, std::int64_t default_pattern) {
    const std::int64_t pattern = integer_or("attention.sliding_window_pattern", default_pattern, 1, most_layers);
    std::vector<std::int32_t> windows;
    for (std::int32_t i = 0; i < dims_.n_layers; ++i) windows.push_back((i + 1) % pattern != 0 ? window : 0);
    return windows;
}

// -- rotary positions -------------------------------------------------------------------------------------------------

std::int64_t builder::rotated_dims(int head_dim) {
    const std::int64_t rotated = integer_or("rope.dimension_count", head_dim, 2, most_head_dim);
    if (rotated % 2 == 0 && rotated <= head_dim) return rotated;
    refuse(errc::model_malformed,
        "rope over " + std::to_string(rotated) + " of " + std::to_string(head_dim) + " values",
        full("rope.dimension_count"));
    return 2;
}

rope_spec builder::read_rope(double base, const rope_scaling& scaling, int head_dim, kernels::rope_pairs pairs) {
    const std::int64_t rotated = rotated_dims(head_dim);
    if (scaling.type == rope_scaling_type::yarn && base < 1.001)
        refuse(errc::model_malformed, "yarn cannot place its ramp with a rope base of 1", full("rope.freq_base"));
    if (refusal_) return {.inv_freq = std::vector<double>(static_cast<std::size_t>(rotated / 2), 1.0), .pairs = pairs};
    return {rope_frequencies(base, rotated, scaling), rope_magnitude(scaling), pairs};
}

rope_scaling builder::read_rope_scaling(int head_dim) {
    rope_scaling s;
    // Files older than rope.scaling.type carry a bare factor, and it is linear.
    const std::string type = text_or("rope.scaling.type", "linear");
    s.trained_context = dims_.n_ctx_train;
    s.original_context =
        static_cast<double>(integer_or("rope.scaling.original_context_length", dims_.n_ctx_train, 1, most_context));
    const auto positive = [&](std::string_view key) -> std::optional<double> {
        if (!file_.type_of(full(key))) return std::nullopt;
        return number_or(key, 1, 1e-3, 1e3);
    };
    s.attn_factor = positive("rope.scaling.attn_factor");
    s.attn_magnitude = positive("rope.scaling.yarn_attn_factor");
    if (type == "linear") {
        s.type = rope_scaling_type::linear;
        s.factor = number_or("rope.scaling.factor", number_or("rope.scale_linear", 1.0, 1e-3, 1e6), 1e-3, 1e6);
    } else if (type == "yarn") {
        read_yarn(s);
    } else if (type == "llama3") {
        s.type = rope_scaling_type::llama3;
        s.factor = number("rope.scaling.factor", 1.0, 1e6);
        s.low_freq_factor = number_or("rope.scaling.low_freq_factor", 1, 1e-3, 1e6);
        s.high_freq_factor = number_or("rope.scaling.high_freq_factor", 4, 1e-3, 1e6);
        if (s.high_freq_factor <= s.low_freq_factor)
            refuse(errc::model_malformed, "llama3 rope scaling needs low_freq_factor < high_freq_factor",
                full("rope.scaling.high_freq_factor"));
    } else if (type != "none" && type != "longrope") {
        refuse(errc::model_unsupported,
            "rope scaling '" + type.substr(0, 64) + "' is not one of none, linear, yarn, longrope, llama3",
            full("rope.scaling.type"));
    }
    // What holds its factors in tensors says so by having them; not every such file has the key.
    if (type == "longrope" || has("rope_factors_long.weight") || has("rope_factors_short.weight"))
        s.type = rope_scaling_type::longrope;
    read_divisors(s, rotated_dims(head_dim) / 2);
    return s;
}

std::int32_t builder::context() const { return n_ctx_ > 0 ? std::min(n_ctx_, dims_.n_ctx_train) : dims_.n_ctx_train; }

void builder::read_yarn(rope_scaling& s) {
    s.type = rope_scaling_type::yarn;
    s.factor = number("rope.scaling.factor", 1.0, 1e6);
    s.beta_fast = number_or("rope.scaling.yarn_beta_fast", 32, 1e-3, 1e6);
    s.beta_slow = number_or("rope.scaling.yarn_beta_slow", 1, 1e-3, 1e6);
    s.extrapolation = number_or("rope.scaling.yarn_ext_factor", 1, 0, 1);
    s.log_multiplier = number_or("rope.scaling.yarn_log_multiplier", 0, 0, 1e3);
}

void builder::read_divisors(rope_scaling& s, std::int64_t n) {
    const auto read = [&](const std::string& name) {
        std::vector<double> divisors;
        for (const float d : optional_values(name, n)) {
            if (!(d >= 1e-3f && d <= 1e6f))
                refuse(errc::model_malformed, "tensor '" + name + "' holds an impossible divisor", name);
            divisors.push_back(d);
        }
        return divisors;
    };
    s.divisors = read("rope_freqs.weight");
    if (s.type != rope_scaling_type::longrope) return;
    const std::string for_long = "rope_factors_long.weight", for_short = "rope_factors_short.weight";
    for (const std::string& name : {for_long, for_short})
        if (!has(name)) refuse(errc::model_malformed, "the file lacks tensor '" + name + "'", name);
    auto long_factors = read(for_long), short_factors = read(for_short);
    long_factors_ = context() > s.original_context;
    s.divisors = long_factors_ ? std::move(long_factors) : std::move(short_factors);
}

// -- tensors ----------------------------------------------------------------------------------------------------------

const model_tensor* builder::find(const std::string& name, std::initializer_list<std::int64_t> shape) {
    const model_tensor* t = file_.tensor(name);
    if (t == nullptr) {
        refuse(errc::model_malformed, "the file lacks tensor '" + name + "'", name);
        return nullptr;
    }
    used_.insert(t);
    std::vector<std::int64_t> found = t->shape;
    while (found.size() > shape.size() && found.back() == 1) found.pop_back();
    if (std::equal(found.begin(), found.end(), shape.begin(), shape.end())) return t;
    refuse(errc::model_malformed,
        "tensor '" + name + "' has shape " + shape_text(t->shape) + ", not " + shape_text(shape), name);
    return nullptr;
}

void builder::embed(embedding& target, const std::string& name, std::int64_t vocab, std::int64_t cols) {
    const model_tensor* t = find(name, {cols, vocab});
    if (t == nullptr) return;
    if (t->source)
        refuse(errc::model_unsupported, "embeddings that the file stores in another layout are not built", name);
    target = {t->type, cols, t->data.data()};
}

void builder::matrix(kernels::weight& target, const std::string& name, std::int64_t rows, std::int64_t cols) {
    if (const model_tensor* t = find(name, {cols, rows})) weights_.add_matrix(*t, target);
}

void builder::matrix_rows(kernels::weight& target, const std::string& name, std::int64_t rows, std::int64_t cols,
    std::int64_t first, std::int64_t count) {
    CHECK(first >= 0 && count >= 1 && first + count <= rows);
    const model_tensor* t = find(name, {cols, rows});
    if (t == nullptr) return;
    model_tensor& part = slices_.emplace_back(*t);
    part.shape = {cols, count};
    if (t->source) {
        part.source = std::make_shared<later_rows>(t->source, first);
    } else {
        const std::size_t row = kernels::row_bytes(t->type, cols);
        part.data = t->data.subspan(static_cast<std::size_t>(first) * row, static_cast<std::size_t>(count) * row);
    }
    weights_.add_matrix(part, target);
}

void builder::float_matrix(kernels::weight& target, const std::string& name, std::int64_t rows, std::int64_t cols) {
    if (const model_tensor* t = find(name, {cols, rows})) weights_.add_matrix(*t, target, true);
}

void builder::stack(kernels::weight_stack& target, const std::string& name, std::int64_t count, std::int64_t rows,
    std::int64_t cols, std::int64_t met) {
    const model_tensor* t = count == 1 ? find(name, {cols, rows}) : find(name, {cols, rows, count});
    if (t == nullptr) return;
    weights_.add_stack(*t, {.count = count, .rows = rows, .step = rows}, target);
    count_stack(count, met * cols);
}

void builder::stack_of_rows(kernels::weight_stack& target, const std::string& name, std::int64_t rows,
    std::int64_t cols, const stack_slices& slices) {
    const model_tensor* t = find(name, {cols, rows});
    if (t == nullptr) return;
    CHECK(slices.first + (slices.count - 1) * slices.step + slices.rows <= rows);
    weights_.add_stack(*t, slices, target);
    count_stack(slices.count, slices.count * (slices.transposed ? slices.rows : cols));
}

void builder::count_stack(std::int64_t count, std::int64_t values) {
    stacks_.count = std::max(stacks_.count, count);
    stacks_.values = std::max(stacks_.values, values);
}

void builder::vector(const float*& target, const std::string& name, std::int64_t n) {
    const model_tensor* t = find(name, {n});
    if (t == nullptr) return;
    if (is_float(t->type)) return weights_.add_vector(*t, target);
    refuse(errc::model_unsupported,
        "tensor '" + name + "' has type " + std::string(kernels::info(t->type).name) +
            "; norms and biases can be f32, f16 or bf16",
        name);
}

void builder::optional_vector(const float*& target, const std::string& name, std::int64_t n) {
    if (has(name)) vector(target, name, n);
}

std::vector<float> builder::optional_values(const std::string& name, std::int64_t n) {
    if (!has(name)) return {};
    const model_tensor* t = find(name, {n});
    if (t == nullptr) return {};
    std::vector<float> values(static_cast<std::size_t>(n));
    std::vector<std::byte> buffer;
    kernels::dequantize(t->type, t->contents(buffer).data(), n, values.data());
    return values;
}

void builder::output(kernels::weight& target, std::int64_t vocab, std::int64_t cols) {
    matrix(target, has("output.weight") ? "output.weight" : "token_embd.weight", vocab, cols);
}

// -- KV and activations -----------------------------------------------------------------------------------------------

std::vector<attention_slot> builder::attention(
    const decoder_dims& dims, float scale, float softcap, std::span<const std::int32_t> window_of_layer) {
    const kernels::kv_geometry kv{kv_type_, dims.n_kv_heads, dims.head_dim};
    const auto effective = [&](std::int32_t w) { return w < context() ? w : 0; };
    std::vector<std::int32_t> windows;
    for (const std::int32_t w : window_of_layer) windows.push_back(effective(w));
    std::sort(windows.begin(), windows.end());
    windows.erase(std::unique(windows.begin(), windows.end()), windows.end());
    groups_.clear();
    for (const std::int32_t w : windows) groups_.push_back({.window = w});
    std::vector<attention_slot> slots;
    if (refusal_) return std::vector<attention_slot>(window_of_layer.size());  // the geometry may be nonsense
    for (const std::int32_t full_or_not : window_of_layer) {
        const std::int32_t w = effective(full_or_not);
        const auto g = static_cast<std::size_t>(std::lower_bound(windows.begin(), windows.end(), w) - windows.begin());
        slots.push_back({g, {.kv = kv,
                                .n_heads = dims.n_heads,
                                .scale = scale,
                                .softcap = softcap,
                                .window = w,
                                .layer_offset = groups_[g].block_bytes}});
        groups_[g].block_bytes += kernels::kv_layer_block_bytes(kv);
        ++groups_[g].n_layers;
    }
    return slots;
}

std::vector<attention_slot> builder::latent_attention(std::int64_t latent, std::int64_t own, float scale) {
    const std::int64_t step = kv_type_ == kernels::dtype::q8_0 ? 32 : head_dim_step;
    if (latent % step != 0 || own % step != 0 || latent + own > most_head_dim)
        refuse(errc::model_unsupported,
            "a latent of " + std::to_string(latent) + " + " + std::to_string(own) +
                " values; with this KV type multiples of " + std::to_string(step) + " up to " +
                std::to_string(most_head_dim) + " together are supported",
            full("attention.kv_lora_rank"));
    std::vector<attention_slot> slots(static_cast<std::size_t>(dims_.n_layers));
    if (refusal_) return slots;
    dims_.n_kv_heads = 1;
    dims_.head_dim = static_cast<std::int32_t>(latent + own);
    const kernels::kv_geometry kv{kv_type_, 1, dims_.head_dim, static_cast<int>(latent)};
    const std::uint64_t bytes = kernels::kv_layer_block_bytes(kv);
    groups_ = {{.n_layers = dims_.n_layers,
        .block_bytes = static_cast<std::uint64_t>(dims_.n_layers) * bytes,
        .latent = dims_.head_dim}};
    for (std::size_t i = 0; i < slots.size(); ++i)
        slots[i].params = {.kv = kv, .n_heads = dims_.n_heads, .scale = scale, .layer_offset = i * bytes};
    return slots;
}

result<void> builder::finish() {
    if (refusal_) return *refusal_;
    for (const model_tensor& t : file_.tensors())
        if (!used_.contains(&t))
            return fail(errc::model_unsupported,
                "tensor " + detail::printable_name(t.name) + " has no place in this build's " + architecture_ +
                    " with " + std::to_string(dims_.n_layers) + " layers",
                t.name);
    return {};
}

}  // namespace troupe::model
