#include "actors/session/parameters.hpp"

#include <algorithm>

#include <boost/json.hpp>
#include <fmt/format.h>

namespace troupe::actors {
namespace json = boost::json;
namespace {

constexpr std::size_t title_bytes = 60;

error too_long(std::int64_t n_prompt, std::int64_t n_ctx) {
    auto e = fail(errc::context_length_exceeded,
        fmt::format("the prompt has {} tokens and the context {}: not one token of answer fits", n_prompt, n_ctx),
        "messages");
    e.n_prompt_tokens = n_prompt;
    e.n_ctx = n_ctx;
    return e;
}

error unknown_id(std::int32_t id, const char* param) {
    return fail(
        errc::invalid_request, fmt::format("{} has token id {}, which the vocabulary does not have", param, id), param);
}

void fill_sampling(const generation_params& p, sequence_params& s) {
    s.temperature = static_cast<float>(p.temperature.value_or(0.8));
    s.top_k = std::max(p.top_k.value_or(40), 0);
    s.top_p = static_cast<float>(p.top_p.value_or(0.95));
    s.min_p = static_cast<float>(p.min_p.value_or(0.05));
    s.repeat_penalty = static_cast<float>(p.repeat_penalty.value_or(1));
    s.frequency_penalty = static_cast<float>(p.frequency_penalty.value_or(0));
    s.presence_penalty = static_cast<float>(p.presence_penalty.value_or(0));
    s.penalty_last_n = p.penalty_last_n.value_or(64);
    s.n_logprobs = p.n_logprobs.value_or(-1);
    s.min_tokens = std::max<std::int64_t>(p.min_tokens.value_or(0), 0);
}

result<void> fill_ids(const generation_params& p, const model::tokenizer& vocabulary, sequence_params& s) {
    const auto known = [&](std::int32_t id) { return id >= 0 && id < vocabulary.n_tokens(); };
    if (p.logit_bias)
        for (const auto& [id, value] : *p.logit_bias) {
            if (!known(id)) return unknown_id(id, "logit_bias");
            s.bias_ids.push_back(id);
            s.bias_values.push_back(static_cast<float>(value));
        }
    if (!p.ignore_eos.value_or(false)) {
        const auto ends = vocabulary.end_tokens();
        s.end_tokens.assign(ends.begin(), ends.end());
    }
    if (p.stop_token_ids)
        for (auto id : *p.stop_token_ids) {
            if (!known(id)) return unknown_id(id, "stop_token_ids");
            s.end_tokens.push_back(id);
        }
    std::sort(s.end_tokens.begin(), s.end_tokens.end());
    s.end_tokens.erase(std::unique(s.end_tokens.begin(), s.end_tokens.end()), s.end_tokens.end());
    return {};
}

}  // namespace

result<resolved_params> resolve(const resolve_input& in, const model::tokenizer& vocabulary) {
    const auto p = overlay(in.defaults, overlay(in.session, in.request));
    if (p.typical_p.value_or(1) != 1)
        return fail(errc::unsupported_parameter, "typical_p is not built yet", "typical_p");
    const std::int64_t room = in.n_ctx - in.n_prompt;
    const std::int64_t wanted = p.max_tokens.value_or(room);
    const bool only_echo = in.echo && p.max_tokens == 0;
    if (room < 0 || (room < 1 && !only_echo)) return too_long(in.n_prompt, in.n_ctx);
    if (wanted < 1 && !only_echo) return fail(errc::invalid_request, "max_tokens must be at least 1", "max_tokens");
    if (in.n_prompt == 0) return fail(errc::invalid_request, "the prompt is empty", "prompt");
    resolved_params r;
    fill_sampling(p, r.sequence);
    TROUPE_TRYV(fill_ids(p, vocabulary, r.sequence));
    const auto seed = p.seed.value_or(-1);
    r.sequence.seed = seed < 0 ? in.drawn_seed : static_cast<std::uint64_t>(seed);
    r.sequence.choice = in.choice;
    r.sequence.max_tokens = std::min(wanted, room);
    r.sequence.prompt_logprobs = in.echo && r.sequence.n_logprobs >= 0;
    r.stop = p.stop.value_or(std::vector<std::string>{});
    return r;
}

namespace {

template <class T> json::array array_of(const std::vector<T>& v) {
    json::array a;
    for (const auto& x : v) a.emplace_back(x);
    return a;
}

/// Visits every scalar field with its name.
template <class S, class F> void each_scalar(S& s, F&& f) {
    f("temperature", s.temperature);
    f("top_p", s.top_p);
    f("min_p", s.min_p);
    f("repeat_penalty", s.repeat_penalty);
    f("frequency_penalty", s.frequency_penalty);
    f("presence_penalty", s.presence_penalty);
    f("top_k", s.top_k);
    f("penalty_last_n", s.penalty_last_n);
    f("n_logprobs", s.n_logprobs);
    f("choice", s.choice);
    f("seed", s.seed);
    f("min_tokens", s.min_tokens);
    f("max_tokens", s.max_tokens);
}

template <class T> bool read_array(const json::object& o, const char* name, std::vector<T>& out) {
    const auto* v = o.if_contains(name);
    if (!v || !v->is_array()) return false;
    for (const auto& e : v->get_array()) {
        if constexpr (std::is_same_v<T, std::string>) {
            if (!e.is_string()) return false;
            out.emplace_back(e.get_string());
        } else {
            boost::system::error_code ec;
            out.push_back(
                static_cast<T>(e.to_number<std::conditional_t<std::is_floating_point_v<T>, double, std::int64_t>>(ec)));
            if (ec) return false;
        }
    }
    return true;
}

}  // namespace

std::string to_json(const resolved_params& p) {
    json::object o;
    each_scalar(p.sequence, [&](const char* name, const auto& x) {
        // float -> double -> text -> double -> float keeps every bit.
        if constexpr (std::is_floating_point_v<std::decay_t<decltype(x)>>)
            o[name] = static_cast<double>(x);
        else
            o[name] = x;
    });
    o["bias_ids"] = array_of(p.sequence.bias_ids);
    o["bias_values"] = array_of(p.sequence.bias_values);
    o["end_tokens"] = array_of(p.sequence.end_tokens);
    o["stop"] = array_of(p.stop);
    return json::serialize(o);
}

result<resolved_params> resolved_from_json(const std::string& text) {
    boost::system::error_code ec;
    const auto v = json::parse(text, ec);
    const auto bad = [] { return fail(errc::io, "the stored parameters of an answer cannot be read"); };
    if (ec || !v.is_object()) return bad();
    const auto& o = v.get_object();
    resolved_params p;
    bool good = true;
    each_scalar(p.sequence, [&](const char* name, auto& x) {
        using T = std::decay_t<decltype(x)>;
        const auto* f = o.if_contains(name);
        boost::system::error_code wrong;
        if (f) x = static_cast<T>(f->to_number<std::conditional_t<std::is_floating_point_v<T>, double, T>>(wrong));
        good = good && f && !wrong;
    });
    good = good && read_array(o, "bias_ids", p.sequence.bias_ids) &&
           read_array(o, "bias_values", p.sequence.bias_values) && read_array(o, "end_tokens", p.sequence.end_tokens) &&
           read_array(o, "stop", p.stop);
    if (!good || p.sequence.bias_ids.size() != p.sequence.bias_values.size()) return bad();
    return p;
}

std::string title_from(const std::string& content) {
    const auto first = content.find_first_not_of(" \t\r\n");
    if (first == std::string::npos) return {};
    std::string line = content.substr(first, content.find_first_of("\r\n", first) - first);
    if (line.size() <= title_bytes) return line;
    std::size_t cut = line.rfind(' ', title_bytes);
    if (cut == std::string::npos || cut < title_bytes / 2) {
        cut = title_bytes;
        while (cut > 0 && (static_cast<unsigned char>(line[cut]) & 0xC0) == 0x80) --cut;  // not inside a code point
    }
    return line.substr(0, cut) + "\u2026";
}

}  // namespace troupe::actors
