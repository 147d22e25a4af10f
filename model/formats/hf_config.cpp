// One row a model type; what rows have in common is read by shared functions. Names on the left are those of
// transformers' configuration classes, with their defaults where a checkpoint may leave a field out.
#include "model/formats/hf_config.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "model/formats/gguf_parse.hpp"

namespace troupe::model::detail {

namespace {

struct family {
    std::string_view model_type, architecture, activation;
    std::int64_t head_dim = 0;  ///< where the file has no head_dim; 0: hidden_size / heads
    double rope_base = 1e4;
    bool tied = false, adjacent_rope = false, gemma = false;
};
constexpr std::array<family, 9> families{{
    {"llama", "llama", "silu", 0, 1e4, false, true},
    {"mistral", "llama", "silu", 0, 1e4, false, true},
    {"smollm3", "smollm3", "silu", 0, 2e6, true, true},
    {"qwen2", "qwen2", "silu"},
    {"qwen3", "qwen3", "silu", 128},
    {"gemma2", "gemma2", "gelu_pytorch_tanh", 256, 1e4, true, false, true},
    {"gemma3_text", "gemma3", "gelu_pytorch_tanh", 256, 1e6, true, false, true},
    {"phi3", "phi3", "silu"},
    {"deepseek_v2", "deepseek2", "silu"},
}};

error unsupported(const json_object& o, const std::string& what, std::string param) {
    return fail(errc::model_unsupported, o.what() + ": " + what, std::move(param));
}

class translator {
 public:
    translator(const json_document& config, assembled_file& out) : o_(config.root(), config.what()), out_(out) {}

    result<hf_config> run();

 private:
    result<const family*> find_family();
    result<void> sizes(hf_config& c);
    result<void> context(const hf_config& c);
    result<void> rope(hf_config& c);
    result<void> partial_rotation(const hf_config& c);
    result<void> rope_scaling(const json_object& s, hf_config& c);
    result<void> yarn(const json_object& s);
    result<void> longrope(const json_object& s, hf_config& c);
    result<void> gemma(const hf_config& c);
    result<void> gemma3_layers();
    result<void> deepseek();
    result<void> deepseek_router();
    result<void> quantization(hf_config& c);

    std::string key(std::string_view name) const {
        return std::string(family_->architecture) + "." + std::string(name);
    }
    void set(std::string_view name, assembled_file::value v) { out_.set(key(name), std::move(v)); }
    /// Copies an integer that must be there.
    result<std::int64_t> need(std::string_view from, std::string_view to);
    /// Copies what is there.
    result<std::optional<std::int64_t>> copy_integer(std::string_view from, std::string_view to);
    result<std::optional<double>> copy_number(const json_object& o, std::string_view from, std::string_view to);

    json_object o_;
    assembled_file& out_;
    const family* family_ = nullptr;
};

result<std::int64_t> translator::need(std::string_view from, std::string_view to) {
    TROUPE_TRY(const auto v, copy_integer(from, to));
    if (v) return *v;
    return fail(errc::model_malformed, o_.what() + " lacks " + printable_name(from), std::string(from));
}

result<std::optional<std::int64_t>> translator::copy_integer(std::string_view from, std::string_view to) {
    TROUPE_TRY(const auto v, o_.integer(from));
    if (v) set(to, *v);
    return v;
}

result<std::optional<double>> translator::copy_number(
    const json_object& o, std::string_view from, std::string_view to) {
    TROUPE_TRY(const auto v, o.number(from));
    if (v) set(to, *v);
    return v;
}

result<const family*> translator::find_family() {
    TROUPE_TRY(const auto type, o_.text("model_type"));
    std::string known;
    for (const family& f : families) {
        if (type == f.model_type) return &f;
        known += (known.empty() ? "" : ", ") + std::string(f.model_type);
    }
    return unsupported(
        o_, "model type " + printable_name(type.value_or("(none)")) + " is not one of " + known, "model_type");
}

result<void> translator::sizes(hf_config& c) {
    TROUPE_TRY(c.n_layers, need("num_hidden_layers", "block_count"));
    TROUPE_TRY(const auto width, need("hidden_size", "embedding_length"));
    TROUPE_TRYV(need("intermediate_size", "feed_forward_length"));
    TROUPE_TRY(c.n_heads, need("num_attention_heads", "attention.head_count"));
    TROUPE_TRY(c.n_vocab, need("vocab_size", "vocab_size"));
    TROUPE_TRY(c.n_kv_heads, json_object::or_else(o_.integer("num_key_value_heads"), c.n_heads));
    set("attention.head_count_kv", c.n_kv_heads);
    TROUPE_TRY(const double eps, json_object::or_else(o_.number("rms_norm_eps"), 1e-6));
    set("attention.layer_norm_rms_epsilon", eps);
    if (c.n_layers < 1 || c.n_layers > 1024 || c.n_heads < 1 || c.n_kv_heads < 1 || width < 1 || c.n_vocab < 1 ||
        c.n_vocab > 1 << 24)
        return fail(errc::model_malformed, o_.what() + " has impossible sizes");
    TROUPE_TRY(const auto activation, o_.text(family_->gemma ? "hidden_activation" : "hidden_act"));
    if (activation.value_or(family_->activation) != family_->activation)
        return unsupported(o_, "activation " + printable_name(*activation) + " is not built for this model type",
            family_->gemma ? "hidden_activation" : "hidden_act");
    TROUPE_TRY(const auto unrotated, o_.integer("no_rope_layer_interval"));
    if (unrotated.value_or(4) != 4)
        return unsupported(
            o_, "leaving out the rotation in other than each fourth layer is not built", "no_rope_layer_interval");
    TROUPE_TRY(c.tied, json_object::or_else(o_.boolean("tie_word_embeddings"), family_->tied));
    if (family_->architecture == "deepseek2") return {};
    TROUPE_TRY(auto head, o_.integer("head_dim"));
    if (!head && family_->head_dim > 0) head = family_->head_dim;
    if (!head) return {};
    set("attention.key_length", *head);
    set("attention.value_length", *head);
    return {};
}

/// Llama and Phi-3 have windows; elsewhere the context ends where the window would begin to matter.
result<void> translator::context(const hf_config& c) {
    TROUPE_TRY(auto positions, need("max_position_embeddings", "context_length"));
    TROUPE_TRY(const auto window, o_.integer("sliding_window"));
    if (family_->gemma || !window) return {};
    TROUPE_TRY(const bool used,
        json_object::or_else(o_.boolean("use_sliding_window"), !family_->architecture.starts_with("qwen")));
    if (!used) return {};
    if (*window < 1) return fail(errc::model_malformed, o_.what() + ": 'sliding_window' is not positive");
    if (c.architecture == "phi3" || c.architecture == "llama")
        set("attention.sliding_window", *window);
    else
        set("context_length", std::min(positions, *window));
    return {};
}

/// rope_theta and rope_scaling beside each other (checkpoints), or both in rope_parameters (transformers 5).
result<void> translator::rope(hf_config& c) {
    TROUPE_TRY(auto parameters, o_.object("rope_parameters"));
    if (family_->architecture == "gemma3") {
        TROUPE_TRYV(copy_number(o_, "rope_local_base_freq", "rope.freq_base_swa"));
        if (parameters && parameters->has("sliding_attention")) {
            TROUPE_TRY(const auto local, parameters->object("sliding_attention"));
            TROUPE_TRYV(copy_number(*local, "rope_theta", "rope.freq_base_swa"));
            TROUPE_TRY(parameters, parameters->object("full_attention"));
        }
    }
    set("rope.freq_base", family_->rope_base);
    TROUPE_TRYV(copy_number(o_, "rope_theta", "rope.freq_base"));
    if (parameters) {
        TROUPE_TRYV(copy_number(*parameters, "rope_theta", "rope.freq_base"));
        TROUPE_TRYV(rope_scaling(*parameters, c));
    }
    TROUPE_TRYV(partial_rotation(c));
    TROUPE_TRY(const auto scaling, o_.object("rope_scaling"));
    return scaling ? rope_scaling(*scaling, c) : result<void>();
}

result<void> translator::partial_rotation(const hf_config& c) {
    TROUPE_TRY(const auto share, o_.number("partial_rotary_factor"));
    if (!share || *share == 1) return {};
    if (family_->adjacent_rope || !(*share > 0 && *share < 1))
        return unsupported(o_, "heads rotated in part are not built for this model type", "partial_rotary_factor");
    TROUPE_TRY(const auto width, need("hidden_size", "embedding_length"));
    TROUPE_TRY(const auto head, json_object::or_else(o_.integer("head_dim"), width / c.n_heads));
    if (head < 1 || head > 4096) return o_.wrong("head_dim", "a sensible number");
    set("rope.dimension_count", static_cast<std::int64_t>(static_cast<double>(head) * *share));
    return {};
}

result<void> translator::rope_scaling(const json_object& s, hf_config& c) {
    TROUPE_TRY(auto type, s.text("rope_type"));
    if (!type) {
        TROUPE_TRY(type, s.text("type"));
    }
    if (!type || *type == "default") return {};
    TROUPE_TRY(const auto original, s.integer("original_max_position_embeddings"));
    if (original) set("rope.scaling.original_context_length", *original);
    if (*type == "longrope" || *type == "su") return longrope(s, c);
    set("rope.scaling.type", std::string(*type));
    TROUPE_TRYV(copy_number(s, "factor", "rope.scaling.factor"));
    if (*type == "linear") return {};
    if (*type == "yarn") return yarn(s);
    if (*type == "llama3") {
        TROUPE_TRYV(copy_number(s, "low_freq_factor", "rope.scaling.low_freq_factor"));
        TROUPE_TRYV(copy_number(s, "high_freq_factor", "rope.scaling.high_freq_factor"));
        return {};
    }
    return unsupported(
        s, "rope scaling " + printable_name(*type) + " is not one of linear, yarn, longrope, llama3", "rope_type");
}

result<void> translator::yarn(const json_object& s) {
    TROUPE_TRYV(copy_number(s, "beta_fast", "rope.scaling.yarn_beta_fast"));
    TROUPE_TRYV(copy_number(s, "beta_slow", "rope.scaling.yarn_beta_slow"));
    TROUPE_TRY(const auto all_dim, s.number("mscale_all_dim"));
    TROUPE_TRY(const auto plain, s.number("mscale"));
    TROUPE_TRY(const auto factor, s.number("attention_factor"));
    if (family_->architecture == "deepseek2") {
        // With equal multipliers the cosines keep their size and only the scores are scaled, as the family does it.
        if (factor || !all_dim || plain.value_or(1) != *all_dim)
            return unsupported(s, "yarn with 'mscale' unlike 'mscale_all_dim' is not built", "mscale");
        set("rope.scaling.yarn_log_multiplier", 0.1 * *all_dim);
    } else {
        if (all_dim || plain) return unsupported(s, "'mscale' is not built for this model type", "mscale");
        if (factor) set("rope.scaling.yarn_attn_factor", *factor);
    }
    return {};
}

result<void> translator::longrope(const json_object& s, hf_config& c) {
    set("rope.scaling.type", std::string("longrope"));
    TROUPE_TRYV(copy_number(s, "attention_factor", "rope.scaling.attn_factor"));
    // Phi-3 keeps the original context beside the scaling.
    TROUPE_TRYV(copy_integer("original_max_position_embeddings", "rope.scaling.original_context_length"));
    for (auto [name, target] : {std::pair{"long_factor", &c.long_factors}, {"short_factor", &c.short_factors}}) {
        TROUPE_TRY(const auto list, s.array(name));
        if (!list) return fail(errc::model_malformed, s.what() + " lacks '" + name + "'", name);
        for (const auto element : *list) {
            double number = 0;
            if (element.get(number) != simdjson::SUCCESS || target->size() > 4096)
                return s.wrong(name, "a list of numbers");
            target->push_back(number);
        }
    }
    return {};
}

result<void> translator::gemma(const hf_config& c) {
    TROUPE_TRYV(copy_number(o_, "attn_logit_softcapping", "attn_logit_softcapping"));
    TROUPE_TRYV(copy_number(o_, "final_logit_softcapping", "final_logit_softcapping"));
    if (!o_.has("attn_logit_softcapping")) set("attn_logit_softcapping", 0.0);
    if (!o_.has("final_logit_softcapping")) set("final_logit_softcapping", 0.0);
    TROUPE_TRY(const double query, json_object::or_else(o_.number("query_pre_attn_scalar"), 256.0));
    if (!(query >= 1)) return fail(errc::model_malformed, o_.what() + ": 'query_pre_attn_scalar' is below 1");
    set("attention.scale", 1 / std::sqrt(query));
    TROUPE_TRY(const auto window, json_object::or_else(o_.integer("sliding_window"), std::int64_t{4096}));
    set("attention.sliding_window", window);
    return c.architecture == "gemma3" ? gemma3_layers() : result<void>();
}

/// The pattern as a number, or as a list of layer kinds that must follow one.
result<void> translator::gemma3_layers() {
    TROUPE_TRY(auto pattern, o_.integer("sliding_window_pattern"));
    TROUPE_TRY(const auto kinds, o_.array("layer_types"));
    if (kinds) {
        std::int64_t first_full = 0, layer = 0;
        for (const auto kind : *kinds) {
            ++layer;
            std::string_view name;
            if (kind.get(name) != simdjson::SUCCESS) return o_.wrong("layer_types", "a list of names");
            const bool full = name == "full_attention";
            if (full && first_full == 0) first_full = layer;
            const bool expected = first_full != 0 && layer % first_full == 0;
            if (full != expected) return unsupported(o_, "layer kinds that do not repeat are not built", "layer_types");
        }
        if (first_full > 0) pattern = first_full;
    }
    set("attention.sliding_window_pattern", pattern.value_or(6));
    return {};
}

result<void> translator::deepseek() {
    TROUPE_TRYV(need("kv_lora_rank", "attention.kv_lora_rank"));
    TROUPE_TRYV(copy_integer("q_lora_rank", "attention.q_lora_rank"));
    TROUPE_TRY(const auto rotated, need("qk_rope_head_dim", "rope.dimension_count"));
    TROUPE_TRY(const auto plain, need("qk_nope_head_dim", "attention.key_length"));
    set("attention.key_length", plain + rotated);
    TROUPE_TRYV(need("v_head_dim", "attention.value_length"));
    TROUPE_TRY(const auto experts, copy_integer("n_routed_experts", "expert_count"));
    if (!experts) return {};
    TROUPE_TRYV(need("num_experts_per_tok", "expert_used_count"));
    TROUPE_TRYV(need("moe_intermediate_size", "expert_feed_forward_length"));
    TROUPE_TRYV(copy_integer("n_shared_experts", "expert_shared_count"));
    TROUPE_TRYV(copy_integer("first_k_dense_replace", "leading_dense_block_count"));
    TROUPE_TRYV(copy_number(o_, "routed_scaling_factor", "expert_weights_scale"));
    return deepseek_router();
}

result<void> translator::deepseek_router() {
    TROUPE_TRY(const auto every, json_object::or_else(o_.integer("moe_layer_freq"), std::int64_t{1}));
    if (every != 1) return unsupported(o_, "experts in every other layer only are not built", "moe_layer_freq");
    TROUPE_TRY(const auto scoring, o_.text("scoring_func"));
    if (scoring.value_or("softmax") != "softmax")
        return unsupported(o_, "router scores by " + printable_name(*scoring) + " are not built", "scoring_func");
    TROUPE_TRY(const auto method, o_.text("topk_method"));
    if (method.value_or("greedy") != "greedy")
        return unsupported(o_, "expert choice by " + printable_name(*method) + " is not built", "topk_method");
    set("expert_gating_func", std::int64_t{1});
    TROUPE_TRY(const bool normalised, json_object::or_else(o_.boolean("norm_topk_prob"), false));
    set("expert_weights_norm", normalised);
    return {};
}

result<void> translator::quantization(hf_config& c) {
    TROUPE_TRY(const auto q, o_.object("quantization_config"));
    if (!q) return {};
    TROUPE_TRY(const auto method, q->text("quant_method"));
    if (method != "awq")
        return unsupported(*q, "quantization by " + printable_name(method.value_or("(none)")) + " is not built; awq is",
            "quant_method");
    TROUPE_TRY(const auto bits, q->integer(q->has("bits") ? "bits" : "w_bit"));
    if (bits != 4) return unsupported(*q, "AWQ with other than 4 bits is not built", "bits");
    TROUPE_TRY(const auto version, q->text("version"));
    std::string lowered(version.value_or("gemm"));
    std::transform(lowered.begin(), lowered.end(), lowered.begin(), [](unsigned char ch) { return std::tolower(ch); });
    if (lowered != "gemm")
        return unsupported(*q, "AWQ version " + printable_name(*version) + " is not built; gemm is", "version");
    TROUPE_TRY(const auto group, q->integer(q->has("group_size") ? "group_size" : "q_group_size"));
    c.awq_group = group.value_or(128);
    if (c.awq_group != 32 && c.awq_group != 64 && c.awq_group != 128)
        return unsupported(
            *q, "AWQ groups of " + std::to_string(c.awq_group) + " are not built; 32, 64 and 128 are", "group_size");
    TROUPE_TRY(c.awq_zero_point, json_object::or_else(q->boolean("zero_point"), true));
    TROUPE_TRY(const auto skipped, q->array("modules_to_not_convert"));
    if (skipped)
        for (const auto name : *skipped) {
            std::string_view text;
            if (name.get(text) != simdjson::SUCCESS) return q->wrong("modules_to_not_convert", "a list of names");
            c.not_converted.emplace_back(text);
        }
    c.awq = true;
    return {};
}

result<hf_config> translator::run() {
    TROUPE_TRY(family_, find_family());
    hf_config c;
    c.architecture = family_->architecture;
    c.adjacent_rope = family_->adjacent_rope;
    c.norms_plus_one = c.four_norms = family_->gemma;
    out_.set("general.architecture", c.architecture);
    TROUPE_TRYV(sizes(c));
    TROUPE_TRYV(context(c));
    TROUPE_TRYV(rope(c));
    if (family_->gemma) TROUPE_TRYV(gemma(c));
    if (family_->architecture == "deepseek2") {
        TROUPE_TRYV(deepseek());
        TROUPE_TRY(c.n_experts, json_object::or_else(o_.integer("n_routed_experts"), std::int64_t{0}));
        if (c.n_experts < 0 || c.n_experts > 1 << 16) return o_.wrong("n_routed_experts", "a sensible number");
    }
    TROUPE_TRYV(quantization(c));
    return c;
}

/// A token id or a list of them.
result<void> append_ids(const json_object& o, std::string_view key, std::vector<std::int64_t>& ids) {
    const auto value = o.get(key);
    if (!value) return {};
    const auto append = [&](dom::element e) {
        std::int64_t id = 0;
        if (e.get(id) != simdjson::SUCCESS || id < 0 || id > 1 << 24) return false;
        if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
        return true;
    };
    dom::array list;
    if (value->get(list) == simdjson::SUCCESS) {
        for (const auto e : list)
            if (!append(e)) return o.wrong(key, "a token id or a list of them");
        return {};
    }
    return append(*value) ? result<void>() : o.wrong(key, "a token id or a list of them");
}

}  // namespace

result<hf_config> translate_config(const json_document& config, const json_document* generation, assembled_file& out) {
    TROUPE_TRY(auto c, translator(config, out).run());
    for (const json_document* d : {generation, &config}) {
        if (d == nullptr) continue;
        const json_object o(d->root(), d->what());
        TROUPE_TRYV(append_ids(o, "bos_token_id", c.bos));
        TROUPE_TRYV(append_ids(o, "eos_token_id", c.eos));
    }
    return c;
}

}  // namespace troupe::model::detail
