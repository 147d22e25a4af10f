// Names first: every entry finds its GGUF name, its place in a stack of experts and its part of a packed matrix. Then
// each name becomes a tensor: the file's bytes as they are, or a source that makes them.
#include "model/formats/hf_tensors.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <map>

#include "core/check.hpp"
#include "model/formats/gguf_parse.hpp"
#include "model/formats/hf_sources.hpp"

namespace troupe::model::detail {

namespace {

struct name_pair {
    std::string_view from, to;
};
constexpr std::array<name_pair, 3> outer_names{
    {{"model.embed_tokens", "token_embd"}, {"model.norm", "output_norm"}, {"lm_head", "output"}}};
/// Behind "model.layers.N.".
constexpr std::array<name_pair, 24> layer_names{{
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.qkv_proj", "attn_qkv"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"self_attn.q_a_proj", "attn_q_a"},
    {"self_attn.q_a_layernorm", "attn_q_a_norm"},
    {"self_attn.q_b_proj", "attn_q_b"},
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
    {"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
    {"self_attn.kv_b_proj", "attn_kv_b"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"mlp.gate_up_proj", "ffn_up"},  // gate rows first, as phi3's GGUFs have it
    {"mlp.gate", "ffn_gate_inp"},
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
    {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
}};
constexpr std::array<name_pair, 3> expert_names{
    {{"gate_proj", "ffn_gate_exps"}, {"up_proj", "ffn_up_exps"}, {"down_proj", "ffn_down_exps"}}};

error malformed(const std::string& name, const std::string& what) {
    return fail(errc::model_malformed, "tensor " + printable_name(name) + " " + what, name);
}

template <std::size_t N> std::string_view lookup(const std::array<name_pair, N>& names, std::string_view from) {
    for (const auto& pair : names)
        if (pair.from == from) return pair.to;
    return {};
}

/// Takes "17." from the front; -1: there is no plain number.
std::int64_t take_number(std::string_view& text) {
    std::int64_t number = -1;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    const auto used = static_cast<std::size_t>(end - text.data());
    const bool plain = failure == std::errc() && used < text.size() && text[used] == '.' && number >= 0 &&
                       (text[0] != '0' || used == 1);
    if (!plain) return -1;
    text.remove_prefix(used + 1);
    return number;
}

/// Where an entry belongs.
struct place {
    std::string name;    ///< GGUF's, without ".weight"
    std::string module;  ///< Hugging Face's, without the suffix
    std::string suffix;  ///< "weight", "bias", "qweight", "qzeros", "scales"
    std::int64_t expert = -1;
};

/// An empty name: unknown.
place find_place(const std::string& entry, const hf_config& config) {
    place p;
    const auto dot = entry.rfind('.');
    if (dot == std::string::npos) return p;
    p.module = entry.substr(0, dot);
    p.suffix = entry.substr(dot + 1);
    std::string_view rest = p.module;
    constexpr std::string_view layers = "model.layers.";
    if (!rest.starts_with(layers)) {
        p.name = lookup(outer_names, rest);
        return p;
    }
    rest.remove_prefix(layers.size());
    const auto layer = take_number(rest);
    if (layer < 0 || layer >= config.n_layers) return p;
    std::string_view name;
    constexpr std::string_view experts = "mlp.experts.";
    if (rest.starts_with(experts)) {
        rest.remove_prefix(experts.size());
        p.expert = take_number(rest);
        if (p.expert >= 0 && p.expert < config.n_experts) name = lookup(expert_names, rest);
    } else if (rest == "post_attention_layernorm") {
        name = config.four_norms ? "post_attention_norm" : "ffn_norm";
    } else {
        name = lookup(layer_names, rest);
    }
    if (!name.empty()) p.name = "blk." + std::to_string(layer) + "." + std::string(name);
    return p;
}

std::optional<kernels::dtype> float_type(std::string_view type) {
    if (type == "F32") return kernels::dtype::f32;
    if (type == "F16") return kernels::dtype::f16;
    if (type == "BF16") return kernels::dtype::bf16;
    return std::nullopt;
}

class translation {
 public:
    translation(const hf_config& config, assembled_file& out) : config_(config), out_(out) {}
    result<void> run(std::span<const safetensors_entry> entries);

 private:
    /// The entries that make one matrix or vector.
    struct parts {
        const safetensors_entry *plain = nullptr, *qweight = nullptr, *qzeros = nullptr, *scales = nullptr;
        std::string module;
    };
    struct target {
        std::map<std::int64_t, parts> by_expert;  ///< -1: no stack
    };

    result<void> sort_in(const safetensors_entry& entry);
    result<model_tensor> make(const std::string& name, const target& t) const;
    result<model_tensor> make_part(const std::string& name, const parts& p) const;
    result<model_tensor> make_plain(const std::string& name, const safetensors_entry& entry) const;
    result<model_tensor> make_awq(const std::string& name, const parts& p) const;
    result<void> permute(model_tensor& t) const;

    const hf_config& config_;
    assembled_file& out_;
    std::map<std::string, target> targets_;
};

result<void> translation::sort_in(const safetensors_entry& entry) {
    const place p = find_place(entry.name, config_);
    // Old checkpoints store the rotary frequencies, which follow from the configuration.
    if (entry.name.ends_with(".rotary_emb.inv_freq")) return {};
    if (config_.tied && p.name == "output") return {};
    const bool weight = p.suffix == "weight" || p.suffix == "qweight" || p.suffix == "qzeros" || p.suffix == "scales";
    if (p.name.empty() || (!weight && p.suffix != "bias")) {
        targets_[entry.name].by_expert[-1].plain = &entry;  // the family will say that it has no place for it
        return {};
    }
    parts& slot = targets_[p.name + (weight ? ".weight" : ".bias")].by_expert[p.expert];
    slot.module = p.module;
    const safetensors_entry** field = p.suffix == "qweight"  ? &slot.qweight
                                      : p.suffix == "qzeros" ? &slot.qzeros
                                      : p.suffix == "scales" ? &slot.scales
                                                             : &slot.plain;
    if (*field != nullptr) return malformed(entry.name, "occurs twice");
    *field = &entry;
    return {};
}

result<model_tensor> translation::make_plain(const std::string& name, const safetensors_entry& entry) const {
    const auto type = float_type(entry.type);
    if (!type)
        return fail(errc::model_unsupported,
            "tensor " + printable_name(entry.name) + " has type " + printable_name(entry.type) +
                "; supported are F32, F16, BF16 and AWQ's packed 4-bit matrices",
            entry.name);
    model_tensor t{name, *type, {entry.shape.rbegin(), entry.shape.rend()}, entry.data, nullptr};
    if (t.shape.empty()) t.shape.push_back(1);
    if (t.shape.size() > 4) return malformed(entry.name, "has more than 4 dimensions");
    for (const std::int64_t dim : t.shape)
        if (dim == 0) return malformed(entry.name, "is empty");
    if (config_.norms_plus_one && name.ends_with("norm.weight")) {
        t.source = plus_one(t);
        t.type = kernels::dtype::f32;
        t.data = {};
    }
    return t;
}

result<model_tensor> translation::make_awq(const std::string& name, const parts& p) const {
    const auto wants = [&](const safetensors_entry* e, const char* type, std::int64_t rows, std::int64_t cols) {
        return e != nullptr && e->type == type && e->shape == std::vector<std::int64_t>{rows, cols};
    };
    const safetensors_entry& q = *p.qweight;
    if (!config_.awq)
        return fail(errc::model_unsupported,
            "tensor " + printable_name(q.name) + " is packed, but config.json has no quantization_config", q.name);
    for (const auto& skipped : config_.not_converted)
        if (p.module.find(skipped) != std::string::npos)
            return malformed(q.name, "is packed although modules_to_not_convert names it");
    if (q.type != "I32" || q.shape.size() != 2 || q.shape[0] == 0 || q.shape[1] == 0)
        return malformed(q.name, "is no matrix of I32");
    const std::int64_t cols = q.shape[0], rows = q.shape[1] * 8, group = config_.awq_group;
    if (cols % group != 0)
        return malformed(
            q.name, "has " + std::to_string(cols) + " inputs, no multiple of the group of " + std::to_string(group));
    if (!wants(p.scales, "F16", cols / group, rows))
        return malformed(q.name, "has no 'scales' of type F16 and matching shape");
    if (p.qzeros == nullptr ? config_.awq_zero_point : !wants(p.qzeros, "I32", cols / group, rows / 8))
        return malformed(q.name, "has no 'qzeros' of type I32 and matching shape");
    model_tensor t{name, awq_type(group), {cols, rows}, {}, nullptr};
    t.source = awq_matrix({q.data, p.qzeros != nullptr ? p.qzeros->data : std::span<const std::byte>(), p.scales->data,
        rows, cols, group});
    return t;
}

result<model_tensor> translation::make_part(const std::string& name, const parts& p) const {
    const bool packed = p.qweight != nullptr || p.qzeros != nullptr || p.scales != nullptr;
    if (packed && (p.plain != nullptr || p.qweight == nullptr))
        return malformed(p.module, "is neither plain nor completely packed");
    return packed ? make_awq(name, p) : make_plain(name, *p.plain);
}

/// From Hugging Face's rotary pairs (i, i + d/2) to GGUF's (2i, 2i + 1), for a family that rotates those.
result<void> translation::permute(model_tensor& t) const {
    if (!config_.adjacent_rope) return {};
    const bool q = t.name.ends_with(".attn_q.weight") || t.name.ends_with(".attn_q.bias");
    const bool k = t.name.ends_with(".attn_k.weight") || t.name.ends_with(".attn_k.bias");
    if (!q && !k) return {};
    const bool bias = t.name.ends_with(".bias");
    const std::int64_t rows = bias ? t.cols() : t.rows(), heads = q ? config_.n_heads : config_.n_kv_heads;
    if (rows % (2 * heads) != 0 || t.shape.size() != (bias ? 1u : 2u))
        return malformed(t.name, "cannot be cut into " + std::to_string(heads) + " heads of rotary pairs");
    t.source = bias ? paired_values(t, rows / heads) : paired_rows(t, rows / heads);
    t.data = {};
    return {};
}

result<model_tensor> translation::make(const std::string& name, const target& t) const {
    if (t.by_expert.begin()->first < 0) {
        if (t.by_expert.size() > 1) return malformed(name, "is both one matrix and a stack of experts");
        TROUPE_TRY(auto tensor, make_part(name, t.by_expert.begin()->second));
        TROUPE_TRYV(permute(tensor));
        return tensor;
    }
    if (static_cast<std::int64_t>(t.by_expert.size()) != config_.n_experts)
        return malformed(name, "lacks some of its " + std::to_string(config_.n_experts) + " experts");
    std::vector<model_tensor> experts;
    for (const auto& [expert, p] : t.by_expert) {
        TROUPE_TRY(auto tensor, make_part(name, p));
        if (!experts.empty() && (tensor.shape != experts[0].shape || tensor.type != experts[0].type))
            return malformed(name, "has experts of different shapes or types");
        experts.push_back(std::move(tensor));
    }
    if (experts[0].shape.size() != 2) return malformed(name, "has experts that are no matrices");
    model_tensor stack{
        name, experts[0].type, {experts[0].shape[0], experts[0].shape[1], config_.n_experts}, {}, nullptr};
    stack.source = stacked(std::move(experts));
    return stack;
}

result<void> translation::run(std::span<const safetensors_entry> entries) {
    for (const auto& entry : entries) TROUPE_TRYV(sort_in(entry));
    for (const auto& [name, t] : targets_) {
        TROUPE_TRY(auto tensor, make(name, t));
        CHECK(out_.add(std::move(tensor)));
    }
    return {};
}

/// Factors of longrope are tensors in a GGUF file and lists in config.json.
void add_factors(const char* name, const std::vector<double>& factors, assembled_file& out) {
    if (factors.empty()) return;
    model_tensor t{name, kernels::dtype::f32, {static_cast<std::int64_t>(factors.size())}, {}, nullptr};
    t.source = values({factors.begin(), factors.end()});
    CHECK(out.add(std::move(t)));
}

}  // namespace

result<void> translate_tensors(
    std::span<const safetensors_entry> entries, const hf_config& config, assembled_file& out) {
    TROUPE_TRYV(translation(config, out).run(entries));
    add_factors("rope_factors_long.weight", config.long_factors, out);
    add_factors("rope_factors_short.weight", config.short_factors, out);
    if (!config.tied && out.tensor("output.weight") == nullptr)
        return fail(
            errc::model_malformed, "the folder lacks tensor 'lm_head.weight' and does not tie it", "lm_head.weight");
    return {};
}

}  // namespace troupe::model::detail
