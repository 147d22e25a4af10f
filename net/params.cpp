#include "net/params.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

#include <fmt/format.h>

#include "core/limits.hpp"
#include "net/output_format.hpp"

namespace troupe::net {
namespace {

constexpr auto int64_max = std::numeric_limits<std::int64_t>::max();

error wrong(std::string_view name, std::string_view expected) {
    return fail(errc::invalid_request, fmt::format("'{}' must be {}", name, expected), std::string(name));
}

/// The first of two names that is there.
std::string_view spelled(const json_object& o, std::string_view first, std::string_view second) {
    return o.has(first) ? first : second;
}

result<std::optional<std::int32_t>> small_integer(
    const json_object& o, std::string_view name, std::int64_t min, std::int64_t max) {
    TROUPE_TRY(const auto value, o.integer(name, min, max));
    if (!value) return std::optional<std::int32_t>{};
    return std::optional(static_cast<std::int32_t>(*value));
}

/// A string, or a list of them; none empty.
result<std::optional<std::vector<std::string>>> read_strings(const json_object& o, std::string_view name) {
    const auto e = o.find(name);
    if (!e) return std::optional<std::vector<std::string>>{};
    std::vector<std::string> strings;
    const auto add = [&](simdjson::dom::element item) -> bool {
        std::string_view s;
        if (item.get(s) || s.empty() || s.size() > limits::max_stop_string_bytes) return false;
        strings.emplace_back(s);
        return true;
    };
    const auto expected = fmt::format(
        "a string or up to {} strings of 1 to {} bytes", limits::max_stop_strings, limits::max_stop_string_bytes);
    simdjson::dom::array list;
    if (!e->get(list)) {
        if (list.size() > limits::max_stop_strings) return wrong(name, expected);
        for (const auto item : list)
            if (!add(item)) return wrong(name, expected);
    } else if (!add(*e)) {
        return wrong(name, expected);
    }
    return std::optional(std::move(strings));
}

/// A number from -100 to 100; false = ban, as llama-server has it.
bool bias_value(simdjson::dom::element e, double& d) {
    bool keep = true;
    if (!e.get(keep)) {
        d = ban_bias;
        return !keep;
    }
    return e.is_number() && !e.get(d) && d >= -100 && d <= 100;
}

/// {"id": bias}, or llama-server's [[id or text, bias]].
result<void> read_logit_bias(const json_object& o, std::int64_t n_vocab, generation_params& p) {
    const auto e = o.find("logit_bias");
    if (!e) return {};
    const auto bad = [] {
        return wrong("logit_bias",
            "an object of token id to a number from -100 to 100, or a list of [id or text, number], with ids of the "
            "vocabulary");
    };
    const auto add = [&](std::int64_t id, simdjson::dom::element value) {
        double d = 0;
        if (!bias_value(value, d)) return false;
        if (id < 0 || (n_vocab > 0 && id >= n_vocab) || id > std::numeric_limits<std::int32_t>::max()) return false;
        p.logit_bias->emplace_back(static_cast<std::int32_t>(id), d);
        return true;
    };
    simdjson::dom::object object;
    simdjson::dom::array list;
    p.logit_bias.emplace();
    if (!e->get(object)) {
        for (const auto field : object) {
            std::int64_t id = -1;
            const auto [end, ec] = std::from_chars(field.key.data(), field.key.data() + field.key.size(), id);
            if (ec != std::errc{} || end != field.key.data() + field.key.size() || !add(id, field.value)) return bad();
        }
        return {};
    }
    if (e->get(list)) return bad();
    for (const auto item : list) {
        simdjson::dom::array pair;
        if (item.get(pair) || pair.size() != 2) return bad();
        std::int64_t id = -1;
        std::string_view text;
        double d = 0;
        const auto value = pair.at(1).value_unsafe();
        if (!pair.at(0).get(text)) {
            if (!bias_value(value, d)) return bad();
            if (!p.logit_bias_text) p.logit_bias_text.emplace();
            p.logit_bias_text->emplace_back(text, d);
        } else if (pair.at(0).get(id) || !add(id, value)) {
            return bad();
        }
    }
    return {};
}

result<std::optional<std::int32_t>> read_logprobs(const json_object& o, bool is_count) {
    TROUPE_TRY(const auto top, small_integer(o, "top_logprobs", 0, limits::max_top_logprobs));
    const auto e = o.find("logprobs");
    if (!e) {
        if (top && *top > 0) return wrong("top_logprobs", "given together with logprobs: true");
        return std::optional<std::int32_t>{};
    }
    if (is_count && e->is_bool()) return wrong("logprobs", "an integer");
    if (!is_count && !e->is_bool()) return wrong("logprobs", "true or false");
    if (e->is_bool()) {
        if (!bool(*e)) return std::optional<std::int32_t>{};
        return std::optional(top.value_or(0));
    }
    TROUPE_TRY(const auto count, small_integer(o, "logprobs", 0, limits::max_top_logprobs));  // /v1/completions
    return count;
}

/// The samplers beyond temperature, top-k, top-p and min-p.
result<void> read_samplers(const json_object& o, const param_rules& rules, generation_params& p) {
    constexpr std::int64_t longest = 1 << 24;
    TROUPE_TRY(p.typical_p, o.number(spelled(o, "typical_p", "typ_p"), above_zero, 1));
    TROUPE_TRY(p.top_n_sigma, o.number("top_n_sigma", -1, 100));
    TROUPE_TRY(p.min_keep, small_integer(o, "min_keep", 0, longest));
    TROUPE_TRY(p.xtc_probability, o.number("xtc_probability", 0, 1));
    TROUPE_TRY(p.xtc_threshold, o.number("xtc_threshold", 0, 1));
    TROUPE_TRY(p.dynatemp_range, o.number("dynatemp_range", 0, rules.max_temperature));
    TROUPE_TRY(p.dynatemp_exponent, o.number("dynatemp_exponent", 0, 100));
    TROUPE_TRY(p.dry_multiplier, o.number("dry_multiplier", 0, 100));
    TROUPE_TRY(p.dry_base, o.number("dry_base", 0, 100));
    TROUPE_TRY(p.dry_allowed_length, small_integer(o, "dry_allowed_length", 0, longest));
    TROUPE_TRY(p.dry_penalty_last_n, small_integer(o, "dry_penalty_last_n", -1, longest));
    TROUPE_TRY(p.dry_sequence_breakers, read_strings(o, "dry_sequence_breakers"));
    TROUPE_TRY(p.mirostat, small_integer(o, "mirostat", 0, 2));
    if (p.mirostat == 1)
        return fail(errc::unsupported_parameter, "'mirostat' 1 is not available; 2 is its successor", "mirostat");
    TROUPE_TRY(p.mirostat_tau, o.number("mirostat_tau", 0, 1000));
    TROUPE_TRY(p.mirostat_eta, o.number("mirostat_eta", 0, 1));
    return {};
}

}  // namespace

result<generation_params> read_params(const json_object& o, const param_rules& rules) {
    generation_params p;
    TROUPE_TRY(p.temperature, o.number("temperature", 0, rules.max_temperature));
    TROUPE_TRY(p.top_p, o.number("top_p", above_zero, 1));
    TROUPE_TRY(p.min_p, o.number("min_p", 0, 1));
    TROUPE_TRYV(read_samplers(o, rules, p));
    TROUPE_TRY(p.top_k, small_integer(o, "top_k", -1, std::numeric_limits<std::int32_t>::max()));
    TROUPE_TRY(p.repeat_penalty, o.number(spelled(o, "repeat_penalty", "repetition_penalty"), above_zero, 2));
    TROUPE_TRY(p.penalty_last_n, small_integer(o, "repeat_last_n", -1, 1 << 24));
    TROUPE_TRY(p.presence_penalty, o.number("presence_penalty", -2, 2));
    TROUPE_TRY(p.frequency_penalty, o.number("frequency_penalty", -2, 2));
    TROUPE_TRY(p.seed, o.integer("seed"));
    auto tokens_name = spelled(o, "max_completion_tokens", "max_tokens");
    TROUPE_TRY(const auto n_predict, o.integer("n_predict", -1, int64_max));  // llama-server's name; -1: no bound
    if (!o.has(tokens_name) && n_predict.value_or(-1) >= 0) tokens_name = "n_predict";
    TROUPE_TRY(p.max_tokens, o.integer(tokens_name, rules.allow_zero_max_tokens ? 0 : 1, int64_max));
    TROUPE_TRY(p.min_tokens, o.integer("min_tokens", 0, int64_max));
    TROUPE_TRY(p.stop, read_strings(o, "stop"));
    TROUPE_TRY(p.stop_token_ids, o.token_ids("stop_token_ids", rules.n_vocab));
    TROUPE_TRYV(read_logit_bias(o, rules.n_vocab, p));
    TROUPE_TRY(p.ignore_eos, o.boolean("ignore_eos"));
    TROUPE_TRY(p.n_logprobs, read_logprobs(o, rules.logprobs_is_count));
    if (const auto kwargs = o.find("chat_template_kwargs")) {
        if (!kwargs->is_object()) return wrong("chat_template_kwargs", "an object");
        p.template_kwargs = to_json(*kwargs);
    }
    TROUPE_TRY(p.post_sampling_probs, o.boolean("post_sampling_probs"));
    TROUPE_TRYV(read_output_format(o, p));
    return p;
}

namespace {

/// Fields that would change the answer if they were built, and the value (true counts as 1) that asks for nothing.
struct unbuilt {
    const char* name;
    double off = 0;
};
constexpr unbuilt unbuilt_fields[] = {{"functions"}, {"guided_regex"}, {"guided_choice"}, {"guided_grammar"}, {"regex"},
    {"ebnf"}, {"logit_processors"}, {"audio"}, {"suffix"}, {"lora"}, {"documents"}, {"chat_template"}, {"samplers"},
    {"n_indent"}, {"allowed_token_ids"}, {"bad_words"}, {"banned_strings"}, {"smoothing_factor"}, {"top_a"}, {"tfs", 1},
    {"truncate_prompt_tokens"}, {"prompt_logprobs"}, {"use_beam_search"}, {"length_penalty", 1},
    {"continue_final_message"}, {"add_generation_prompt", 1}};

bool asks_for_nothing(simdjson::dom::element e, double off) {
    bool on = false;
    if (!e.get(on)) return (on ? 1 : 0) == off;
    double number = 0;
    if (!e.get(number)) return number == off;
    std::string_view text;
    if (!e.get(text)) return text.empty();
    simdjson::dom::array list;
    return !e.get(list) && list.size() == 0;
}

bool only_text(simdjson::dom::element modalities) {
    simdjson::dom::array list;
    if (modalities.get(list)) return false;
    return std::all_of(list.begin(), list.end(), [](simdjson::dom::element e) {
        std::string_view kind;
        return !e.get(kind) && kind == "text";
    });
}

}  // namespace

result<void> refuse_unbuilt(const json_object& o, bool reads_tools) {
    const auto refuse = [](std::string_view name) {
        return fail(
            errc::unsupported_parameter, fmt::format("'{}' is not available in this version", name), std::string(name));
    };
    if (const auto e = o.find("tools"); e && !reads_tools && !asks_for_nothing(*e, 0)) return refuse("tools");
    if (const auto e = o.find("tool_choice"); e && !reads_tools) {
        std::string_view choice;
        if (e->get(choice) || (choice != "none" && choice != "auto")) return refuse("tool_choice");
    }
    if (const auto e = o.find("modalities"); e && !only_text(*e)) return refuse("modalities");
    for (const auto& field : unbuilt_fields)
        if (const auto e = o.find(field.name); e && !asks_for_nothing(*e, field.off)) return refuse(field.name);
    return {};
}

result<std::int32_t> read_choices(const json_object& o) {
    TROUPE_TRY(const auto n, small_integer(o, spelled(o, "n", "n_cmpl"), 1, limits::max_choices));
    TROUPE_TRY(const auto best_of, o.integer("best_of", 1, int64_max));
    if (best_of && *best_of != n.value_or(1))
        return fail(
            errc::unsupported_parameter, "'best_of' other than 'n' is not available in this version", "best_of");
    return n.value_or(1);
}

result<void> refuse_choices(const json_object& o) {
    TROUPE_TRY(const auto n, read_choices(o));
    if (n > 1) return fail(errc::unsupported_parameter, "a session has one answer: 'n' must be 1", "n");
    return {};
}

result<void> check_ignored(const json_object& o) {
    for (const auto* name :
        {"cache_prompt", "return_progress", "timings_per_token", "return_tokens", "store", "parallel_tool_calls"})
        TROUPE_TRYV(o.boolean(name));
    for (const auto* name : {"id_slot", "n_keep", "n_discard"}) TROUPE_TRYV(o.integer(name));
    for (const auto* name : {"user", "service_tier", "reasoning_effort", "safety_identifier"})
        TROUPE_TRYV(o.text(name));
    if (const auto e = o.find("metadata"); e && !e->is_object()) return wrong("metadata", "an object");
    return {};
}

}  // namespace troupe::net
