#include "net/params.hpp"

#include <charconv>
#include <limits>

#include <fmt/format.h>

#include "core/limits.hpp"

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

result<std::optional<std::vector<std::string>>> read_stop(const json_object& o) {
    const auto e = o.find("stop");
    if (!e) return std::optional<std::vector<std::string>>{};
    std::vector<std::string> stops;
    const auto add = [&](simdjson::dom::element item) -> bool {
        std::string_view s;
        if (item.get(s) || s.empty() || s.size() > limits::max_stop_string_bytes) return false;
        stops.emplace_back(s);
        return true;
    };
    const auto expected = fmt::format(
        "a string or up to {} strings of 1 to {} bytes", limits::max_stop_strings, limits::max_stop_string_bytes);
    simdjson::dom::array list;
    if (!e->get(list)) {
        if (list.size() > limits::max_stop_strings) return wrong("stop", expected);
        for (const auto item : list)
            if (!add(item)) return wrong("stop", expected);
    } else if (!add(*e)) {
        return wrong("stop", expected);
    }
    return std::optional(std::move(stops));
}

using bias_list = std::vector<std::pair<std::int32_t, double>>;

result<std::optional<bias_list>> read_logit_bias(const json_object& o, std::int64_t n_vocab) {
    const auto e = o.find("logit_bias");
    if (!e) return std::optional<bias_list>{};
    bias_list bias;
    const auto add = [&](std::int64_t id, simdjson::dom::element value) -> bool {
        double d = 0;
        bool keep = true;
        if (!value.get(keep)) {
            if (keep) return false;
            d = -100;  // false = ban, as llama-server has it
        } else if (!value.is_number() || value.get(d) || d < -100 || d > 100) {
            return false;
        }
        if (id < 0 || (n_vocab > 0 && id >= n_vocab) || id > std::numeric_limits<std::int32_t>::max()) return false;
        bias.emplace_back(static_cast<std::int32_t>(id), d);
        return true;
    };
    const auto expected = "an object of token id to a number from -100 to 100, with ids of the vocabulary";
    simdjson::dom::object object;
    simdjson::dom::array list;
    if (!e->get(object)) {
        for (const auto field : object) {
            std::int64_t id = -1;
            const auto [end, ec] = std::from_chars(field.key.data(), field.key.data() + field.key.size(), id);
            if (ec != std::errc{} || end != field.key.data() + field.key.size() || !add(id, field.value))
                return wrong("logit_bias", expected);
        }
    } else if (!e->get(list)) {
        for (const auto item : list) {
            simdjson::dom::array pair;
            std::int64_t id = -1;
            if (item.get(pair) || pair.size() != 2 || pair.at(0).get(id) || !add(id, pair.at(1).value_unsafe()))
                return wrong("logit_bias", expected);
        }
    } else {
        return wrong("logit_bias", expected);
    }
    return std::optional(std::move(bias));
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

}  // namespace

result<generation_params> read_params(const json_object& o, const param_rules& rules) {
    generation_params p;
    TROUPE_TRY(p.temperature, o.number("temperature", 0, rules.max_temperature));
    TROUPE_TRY(p.top_p, o.number("top_p", above_zero, 1));
    TROUPE_TRY(p.min_p, o.number("min_p", 0, 1));
    TROUPE_TRY(p.typical_p, o.number("typical_p", above_zero, 1));
    TROUPE_TRY(p.top_k, small_integer(o, "top_k", -1, std::numeric_limits<std::int32_t>::max()));
    TROUPE_TRY(p.repeat_penalty, o.number(spelled(o, "repeat_penalty", "repetition_penalty"), above_zero, 2));
    TROUPE_TRY(p.penalty_last_n, small_integer(o, "repeat_last_n", -1, 1 << 24));
    TROUPE_TRY(p.presence_penalty, o.number("presence_penalty", -2, 2));
    TROUPE_TRY(p.frequency_penalty, o.number("frequency_penalty", -2, 2));
    TROUPE_TRY(p.seed, o.integer("seed"));
    const auto tokens_name = spelled(o, "max_completion_tokens", "max_tokens");
    TROUPE_TRY(p.max_tokens, o.integer(tokens_name, rules.allow_zero_max_tokens ? 0 : 1, int64_max));
    TROUPE_TRY(p.min_tokens, o.integer("min_tokens", 0, int64_max));
    TROUPE_TRY(p.stop, read_stop(o));
    TROUPE_TRY(p.stop_token_ids, o.token_ids("stop_token_ids", rules.n_vocab));
    TROUPE_TRY(p.logit_bias, read_logit_bias(o, rules.n_vocab));
    TROUPE_TRY(p.ignore_eos, o.boolean("ignore_eos"));
    TROUPE_TRY(p.n_logprobs, read_logprobs(o, rules.logprobs_is_count));
    if (const auto kwargs = o.find("chat_template_kwargs")) {
        if (!kwargs->is_object()) return wrong("chat_template_kwargs", "an object");
        p.template_kwargs = to_json(*kwargs);
    }
    if (p.typical_p && *p.typical_p < 1)
        return fail(errc::unsupported_parameter, "'typical_p' below 1 is not available in this version", "typical_p");
    return p;
}

result<void> refuse_unbuilt(const json_object& o) {
    const auto refuse = [](std::string_view name) {
        return fail(
            errc::unsupported_parameter, fmt::format("'{}' is not available in this version", name), std::string(name));
    };
    for (const auto* name : {"tools", "functions"}) {
        const auto e = o.find(name);
        simdjson::dom::array list;
        if (e && (e->get(list) || list.size() > 0)) return refuse(name);
    }
    if (const auto e = o.find("tool_choice")) {
        std::string_view choice;
        if (e->get(choice) || (choice != "none" && choice != "auto")) return refuse("tool_choice");
    }
    for (const auto* name :
        {"grammar", "json_schema", "guided_json", "guided_regex", "structured_outputs", "logit_processors", "audio",
            "suffix", "best_of", "mirostat", "dry_multiplier", "xtc_probability", "dynatemp_range", "lora"}) {
        const auto e = o.find(name);
        std::int64_t i = -1;
        double d = -1;
        const bool off = e && ((!e->get(i) && (i == 0 || (i == 1 && std::string_view(name) == "best_of"))) ||
                                  (!e->get(d) && d == 0));
        if (e && !off) return refuse(name);
    }
    if (const auto e = o.find("response_format")) {
        TROUPE_TRY(const auto format, json_object::from(*e, "'response_format'"));
        TROUPE_TRY(const auto type, format.required_text("type"));
        if (type != "text") return refuse("response_format");
    }
    TROUPE_TRY(const auto n, o.integer("n", 1, limits::max_choices));
    if (n && *n > 1) return refuse("n");
    return {};
}

}  // namespace troupe::net
