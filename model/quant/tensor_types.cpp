// Categories by name, layers counted in the order of their numbers, then one function of rules.
#include "model/quant/tensor_types.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "model/formats/gguf_parse.hpp"

namespace troupe::model {
namespace {

using kernels::dtype;

enum class category : std::uint8_t { output, embedding, qkv, kv_b, v, k, q, attention_output, up, gate, down, other };

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

category category_of(std::string_view name) {
    if (name == "output.weight") return category::output;
    if (name == "token_embd.weight" || name == "per_layer_token_embd.weight") return category::embedding;
    constexpr std::pair<std::string_view, category> parts[] = {{"attn_qkv.weight", category::qkv},
        {"attn_kv_b.weight", category::kv_b}, {"attn_v.weight", category::v}, {"attn_k.weight", category::k},
        {"attn_q.weight", category::q}, {"attn_output.weight", category::attention_output}, {"ffn_up", category::up},
        {"ffn_gate", category::gate}, {"ffn_down", category::down}};
    for (const auto& [part, c] : parts)
        if (contains(name, part)) return c;
    return category::other;
}

bool is_v_like(category c) { return c == category::v || c == category::qkv || c == category::kv_b; }

/// Matrices whose values are few or delicate.
bool stays_as_it_is(const model_tensor& t, const type_choice& choice) {
    const std::string_view name = t.name;
    std::size_t dims = t.shape.size();
    while (dims > 1 && t.shape[dims - 1] == 1) --dims;
    if (dims < 2 || !name.ends_with("weight")) return true;
    if (choice.keep_output && name == "output.weight") return true;
    constexpr std::string_view delicate[] = {"_norm.weight", "ffn_gate_inp.weight", "altup", "laurel",
        "per_layer_model_proj", "ssm_conv1d", "shortconv.conv.weight", "time_mix_first.weight", "time_mix_w",
        "time_mix_v", "time_mix_a", "time_mix_g", "time_mix_decay_w", "time_mix_lerp_fused.weight", "attn_rel_b.weight",
        "position_embd", "token_types.weight", ".rel_pos", ".patch_embd", ".patch_merger"};
    return std::any_of(std::begin(delicate), std::end(delicate), [&](auto part) { return contains(name, part); });
}

std::optional<int> layer_of(std::string_view name) {
    constexpr std::string_view prefix = "blk.";
    if (!name.starts_with(prefix)) return std::nullopt;
    int layer = 0;
    const char* end = name.data() + name.size();
    const auto [at, problem] = std::from_chars(name.data() + prefix.size(), end, layer);
    if (problem != std::errc() || at == end || *at != '.') return std::nullopt;
    return layer;
}

/// What the rules ask about the model.
struct facts {
    int n_layers = 0, n_experts = 0;
    std::int64_t gqa = 1;  ///< query heads a key/value head
    bool tied = true;      ///< the embedding is the output matrix too
    bool seventy_b = false;
    int n_v = 0;  ///< tensors like attn_v
};

result<std::int64_t> first_number(const model_file& file, const std::string& key, std::int64_t fallback) {
    if (file.type_of(key) == gguf_type::array) {
        TROUPE_TRY(const auto all, file.get_ints(key));
        return all && !all->empty() ? all->front() : fallback;
    }
    TROUPE_TRY(const auto value, file.get_int(key));
    return value.value_or(fallback);
}

result<facts> read_facts(const model_file& file) {
    facts f;
    TROUPE_TRY(const auto architecture, file.get_string("general.architecture"));
    const std::string prefix = architecture ? std::string(*architecture) + "." : "";
    TROUPE_TRY(const auto layers, first_number(file, prefix + "block_count", 0));
    TROUPE_TRY(const auto experts, first_number(file, prefix + "expert_count", 0));
    TROUPE_TRY(const auto heads, first_number(file, prefix + "attention.head_count", 1));
    TROUPE_TRY(const auto kv_heads, first_number(file, prefix + "attention.head_count_kv", heads));
    f.n_layers = static_cast<int>(std::clamp<std::int64_t>(layers, 0, 1 << 20));
    f.n_experts = static_cast<int>(std::clamp<std::int64_t>(experts, 0, 1 << 20));
    f.gqa = kv_heads > 0 ? heads / kv_heads : 0;
    f.tied = file.tensor("output.weight") == nullptr;
    f.seventy_b = layers == 80 && ((architecture == "llama" && heads != kv_heads) || architecture == "qwen2");
    for (const model_tensor& t : file.tensors()) f.n_v += is_v_like(category_of(t.name)) ? 1 : 0;
    return f;
}

/// First and last eighth of the layers, and every third one between.
bool wants_more_bits(int layer, int n) { return layer < n / 8 || layer >= 7 * n / 8 || (layer - n / 8) % 3 == 2; }

dtype v_type(dtype type, file_type file, const facts& f, int i) {
    const bool shared = f.gqa >= 4;
    switch (file) {
    case file_type::q2_k:
        type = shared ? dtype::q4_k : dtype::q3_k;
        break;
    case file_type::q3_k_m:
        type = i < 2 ? dtype::q5_k : dtype::q4_k;
        break;
    case file_type::q3_k_l:
        type = dtype::q5_k;
        break;
    case file_type::iq4_nl:
    case file_type::iq4_xs:
        if (shared) type = dtype::q5_k;
        break;
    case file_type::q4_k_m:
    case file_type::q5_k_m:
        if (wants_more_bits(i, f.n_v)) type = dtype::q6_k;
        break;
    case file_type::q4_k_s:
        if (i < 4) type = dtype::q5_k;
        break;
    default:
        break;
    }
    // Eight heads share these small matrices there.
    if (f.seventy_b && (type == dtype::q3_k || type == dtype::q4_k)) type = dtype::q5_k;
    return f.n_experts == 8 ? dtype::q8_0 : type;
}

dtype down_type(dtype type, file_type file, const facts& f, int i, bool importance) {
    const int n = f.n_layers;
    const bool first_eighth = i < n / 8;
    switch (file) {
    case file_type::q2_k:
        return dtype::q3_k;
    case file_type::q3_k_m:
        return i < n / 16 ? dtype::q5_k : dtype::q4_k;
    case file_type::q3_k_l:
        return dtype::q5_k;
    case file_type::q4_k_m:
    case file_type::q5_k_m:
        return wants_more_bits(i, n) ? dtype::q6_k : type;
    case file_type::iq4_nl:
    case file_type::iq4_xs:
        return first_eighth && !importance ? dtype::q5_k : type;
    case file_type::q4_k_s:
        return first_eighth ? dtype::q5_k : type;
    case file_type::q4_0:
        return first_eighth && importance ? dtype::q4_1 : type;
    case file_type::q5_0:
        return first_eighth && importance ? dtype::q5_1 : type;
    default:
        return type;
    }
}

dtype attention_output_type(dtype type, file_type file, const facts& f) {
    if (f.n_experts == 8) {
        const bool small = file == file_type::q2_k || file == file_type::q3_k_s || file == file_type::q3_k_m ||
                           file == file_type::iq4_nl || file == file_type::iq4_xs || file == file_type::q4_k_s ||
                           file == file_type::q4_k_m;
        return small ? dtype::q5_k : type;
    }
    if (file == file_type::q2_k) return dtype::q3_k;
    if (file == file_type::q3_k_m) return dtype::q4_k;
    if (file == file_type::q3_k_l) return dtype::q5_k;
    return type;
}

/// A type with blocks of 32 in place of one whose blocks of 256 do not fit, F16 where that does not fit either.
dtype fitting_type(dtype type, std::int64_t cols) {
    const auto fits = [&](dtype t) { return cols % kernels::info(t).block_values == 0; };
    if (fits(type)) return type;
    constexpr std::pair<dtype, dtype> smaller[] = {{dtype::q2_k, dtype::q4_0}, {dtype::q3_k, dtype::q4_0},
        {dtype::q4_k, dtype::q5_0}, {dtype::q5_k, dtype::q5_1}, {dtype::q6_k, dtype::q8_0},
        {dtype::iq4_xs, dtype::iq4_nl}};
    for (const auto& [from, to] : smaller)
        if (type == from) type = to;
    return fits(type) ? type : dtype::f16;
}

/// Counts the tensors of a kind as the rules go over the file.
class planner {
 public:
    planner(const type_choice& choice, const facts& f) : choice_(choice), facts_(f) {}

    tensor_plan plan(const model_tensor& t) {
        const category c = category_of(t.name);
        if (stays_as_it_is(t, choice_)) return {t.type, false};
        if (c == category::embedding && choice_.embedding) return fitted(t, *choice_.embedding);
        if (c == category::output && choice_.output) return fitted(t, *choice_.output);
        const dtype base = base_type(choice_.type);
        if (!kernels::info(base).quantized) return {base, false};
        for (const auto& [part, type] : choice_.with_name)
            if (contains(t.name, part)) return fitted(t, type);
        return fitted(t, choice_.pure ? base : mixed(t, c, base));
    }

 private:
    static tensor_plan fitted(const model_tensor& t, dtype wanted) {
        const dtype type = fitting_type(wanted, t.cols());
        return {type, type != wanted};
    }

    dtype mixed(const model_tensor& t, category c, dtype base) {
        const file_type file = choice_.type;
        if (c == category::output || (facts_.tied && c == category::embedding)) {
            if (choice_.output) return *choice_.output;
            if (t.cols() % kernels::info(base).block_values != 0) return dtype::q8_0;
            return base == dtype::q8_0 ? base : dtype::q6_k;
        }
        if (is_v_like(c)) return v_type(base, file, facts_, v_++);
        if (c == category::k && facts_.n_experts == 8) return dtype::q8_0;
        if (c == category::attention_output) return attention_output_type(base, file, facts_);
        if (c != category::down) return base;
        // Experts need not be in the order of the layers, so their names are read.
        const int layer = facts_.n_experts > 1 ? layer_of(t.name).value_or(0) : down_;
        ++down_;
        return down_type(base, file, facts_, layer, choice_.importance);
    }

    const type_choice& choice_;
    const facts& facts_;
    int v_ = 0, down_ = 0;
};

}  // namespace

result<std::vector<tensor_plan>> plan_tensor_types(const model_file& file, const type_choice& choice) {
    TROUPE_TRY(const facts f, read_facts(file));
    const auto tensors = file.tensors();
    std::vector<std::size_t> order(tensors.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        const auto la = layer_of(tensors[a].name).value_or(-1), lb = layer_of(tensors[b].name).value_or(-1);
        return la != lb ? la < lb : tensors[a].name < tensors[b].name;
    });
    std::vector<tensor_plan> plans(tensors.size());
    planner rules(choice, f);
    for (const std::size_t i : order) plans[i] = rules.plan(tensors[i]);
    return plans;
}

}  // namespace troupe::model
