#include "actors/session/parameters.hpp"

#include <algorithm>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "model/sampling/dry.hpp"

namespace troupe::actors {
namespace json = boost::json;
namespace {

constexpr std::size_t title_bytes = 60;

error too_long(std::int64_t n_prompt, std::int64_t n_ctx, const std::string& param) {
    auto e = fail(errc::context_length_exceeded,
        fmt::format("the prompt has {} tokens and the context {}: not one token of answer fits", n_prompt, n_ctx),
        param);
    e.n_prompt_tokens = n_prompt;
    e.n_ctx = n_ctx;
    return e;
}

error unknown_id(std::int32_t id, const char* param) {
    return fail(
        errc::invalid_request, fmt::format("{} has token id {}, which the vocabulary does not have", param, id), param);
}

void fill_sampling(const generation_params& p, sequence_params& s) {
    const auto real = [](const std::optional<double>& given, double built_in) {
        return static_cast<float>(given.value_or(built_in));
    };
    s.temperature = real(p.temperature, 0.8);
    s.typical_p = real(p.typical_p, 1);
    s.top_n_sigma = real(p.top_n_sigma, -1);
    s.xtc_probability = real(p.xtc_probability, 0);
    s.xtc_threshold = real(p.xtc_threshold, 0.1);
    s.dynatemp_range = real(p.dynatemp_range, 0);
    s.dynatemp_exponent = real(p.dynatemp_exponent, 1);
    s.mirostat = p.mirostat.value_or(0);
    s.mirostat_tau = real(p.mirostat_tau, 5);
    s.mirostat_eta = real(p.mirostat_eta, 0.1);
    s.min_keep = p.min_keep.value_or(0);
    s.top_k = std::max(p.top_k.value_or(40), 0);
    s.top_p = real(p.top_p, 0.95);
    s.min_p = real(p.min_p, 0.05);
    s.repeat_penalty = real(p.repeat_penalty, 1);
    s.frequency_penalty = real(p.frequency_penalty, 0);
    s.presence_penalty = real(p.presence_penalty, 0);
    s.penalty_last_n = p.penalty_last_n.value_or(64);
    s.n_logprobs = p.n_logprobs.value_or(-1);
    s.post_sampling_logprobs = p.post_sampling_probs.value_or(false);
    s.min_tokens = std::max<std::int64_t>(p.min_tokens.value_or(0), 0);
}

void fill_dry(const generation_params& p, const model::tokenizer& vocabulary, sequence_params& s) {
    s.dry_multiplier = static_cast<float>(p.dry_multiplier.value_or(0));
    s.dry_base = static_cast<float>(p.dry_base.value_or(1.75));
    s.dry_allowed_length = p.dry_allowed_length.value_or(2);
    s.dry_last_n = p.dry_penalty_last_n.value_or(64);
    if (s.dry_multiplier == 0 || s.dry_last_n == 0) return;
    static const std::vector<std::string> usual{"\n", ":", "\"", "*"};
    std::vector<token_id> flat;
    for (const auto& breaker : model::dry_breakers(vocabulary, p.dry_sequence_breakers.value_or(usual))) {
        flat.insert(flat.end(), breaker.begin(), breaker.end());
        flat.push_back(-1);
    }
    s.dry_breakers = pack_ids(flat);
}

result<void> fill_ids(const generation_params& p, const model::tokenizer& vocabulary, sequence_params& s) {
    const auto known = [&](std::int32_t id) { return id >= 0 && id < vocabulary.n_tokens(); };
    if (p.logit_bias)
        for (const auto& [id, value] : *p.logit_bias) {
            if (!known(id)) return unknown_id(id, "logit_bias");
            s.bias_ids.push_back(id);
            s.bias_values.push_back(static_cast<float>(value));
        }
    if (p.logit_bias_text)
        for (const auto& [text, value] : *p.logit_bias_text)
            for (const token_id id : vocabulary.encode(text, false, false)) {
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
    const std::int64_t room = in.n_ctx - in.n_prompt;
    const bool embeds = in.pool != pooling::none;
    const std::int64_t wanted = embeds ? 0 : p.max_tokens.value_or(room);
    const bool only_prompt = embeds || ((in.echo || in.prompt_only) && p.max_tokens == 0);
    if (room < 0 || (room < 1 && !only_prompt)) return too_long(in.n_prompt, in.n_ctx, in.prompt_name);
    if (wanted < 1 && !only_prompt) return fail(errc::invalid_request, "max_tokens must be at least 1", "max_tokens");
    if (in.n_prompt == 0) return fail(errc::invalid_request, "the prompt is empty", in.prompt_name);
    resolved_params r;
    fill_sampling(p, r.sequence);
    fill_dry(p, vocabulary, r.sequence);
    TROUPE_TRYV(fill_ids(p, vocabulary, r.sequence));
    const auto seed = p.seed.value_or(-1);
    r.sequence.seed = seed < 0 ? in.drawn_seed : static_cast<std::uint64_t>(seed);
    r.sequence.choice = in.choice;
    r.sequence.max_tokens = std::min(wanted, room);
    r.sequence.prompt_logprobs = in.echo && r.sequence.n_logprobs >= 0;
    r.sequence.pool = in.pool;
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

/// The same for those that came later: a row of an older version lacks them, which means their default.
template <class S, class F> void each_newer_scalar(S& s, F&& f) {
    f("typical_p", s.typical_p);
    f("top_n_sigma", s.top_n_sigma);
    f("xtc_probability", s.xtc_probability);
    f("xtc_threshold", s.xtc_threshold);
    f("dynatemp_range", s.dynatemp_range);
    f("dynatemp_exponent", s.dynatemp_exponent);
    f("dry_multiplier", s.dry_multiplier);
    f("dry_base", s.dry_base);
    f("dry_allowed_length", s.dry_allowed_length);
    f("dry_last_n", s.dry_last_n);
    f("mirostat", s.mirostat);
    f("mirostat_tau", s.mirostat_tau);
    f("mirostat_eta", s.mirostat_eta);
    f("min_keep", s.min_keep);
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
    const auto put = [&](const char* name, const auto& x) {
        // float -> double -> text -> double -> float keeps every bit.
        if constexpr (std::is_floating_point_v<std::decay_t<decltype(x)>>)
            o[name] = static_cast<double>(x);
        else
            o[name] = x;
    };
    each_scalar(p.sequence, put);
    each_newer_scalar(p.sequence, put);
    o["dry_breakers"] = array_of(unpack_ids(p.sequence.dry_breakers));
    o["bias_ids"] = array_of(p.sequence.bias_ids);
    o["bias_values"] = array_of(p.sequence.bias_values);
    o["end_tokens"] = array_of(p.sequence.end_tokens);
    o["stop"] = array_of(p.stop);
    if (!p.sequence.grammar.empty()) o["grammar"] = p.sequence.grammar;
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
    const auto take = [&](const char* name, auto& x) {
        using T = std::decay_t<decltype(x)>;
        const auto* f = o.if_contains(name);
        boost::system::error_code wrong;
        if (f) x = static_cast<T>(f->to_number<std::conditional_t<std::is_floating_point_v<T>, double, T>>(wrong));
        good = good && !wrong;
        return f != nullptr;
    };
    each_scalar(p.sequence, [&](const char* name, auto& x) { good = take(name, x) && good; });
    each_newer_scalar(p.sequence, take);
    std::vector<token_id> breakers;
    if (o.contains("dry_breakers")) good = read_array(o, "dry_breakers", breakers) && good;
    p.sequence.dry_breakers = pack_ids(breakers);
    good = good && read_array(o, "bias_ids", p.sequence.bias_ids) &&
           read_array(o, "bias_values", p.sequence.bias_values) && read_array(o, "end_tokens", p.sequence.end_tokens) &&
           read_array(o, "stop", p.stop);
    if (const auto* grammar = o.if_contains("grammar"); grammar && grammar->is_string())
        p.sequence.grammar = std::string(grammar->get_string());
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
