#include "net/llama_wire.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/limits.hpp"
#include "core/utf8.hpp"
#include "net/event_json.hpp"
#include "net/openai_wire.hpp"
#include "net/params.hpp"

namespace troupe::net {
namespace json = boost::json;
namespace {

result<void> read_lengths(const json_object& o, llama_wire& w) {
    constexpr std::int64_t most = std::int64_t{1} << 40;
    TROUPE_TRY(const auto n_predict, o.integer("n_predict", -1, most));
    auto& p = w.request.params;
    if (n_predict && *n_predict >= 0)
        p.max_tokens = *n_predict;
    else if (n_predict)
        p.max_tokens.reset();  // to the end of the context
    w.request.prompt_only = p.max_tokens == 0;
    TROUPE_TRY(const auto probs, o.integer("n_probs", 0, limits::max_top_logprobs));
    if (probs && *probs > 0) p.n_logprobs = static_cast<std::int32_t>(*probs);
    if (probs == 0) p.n_logprobs.reset();
    TROUPE_TRY(const auto limit, o.integer("t_max_predict_ms", -1, most));
    w.t_max_predict_ms = std::max<std::int64_t>(0, limit.value_or(0));
    return {};
}

result<void> read_response_fields(const json_object& o, llama_wire& w) {
    const auto e = o.find("response_fields");
    if (!e) return {};
    const auto bad = fail(errc::invalid_request, "'response_fields' must be a list of strings", "response_fields");
    simdjson::dom::array list;
    if (e->get(list)) return bad;
    for (const auto item : list) {
        std::string_view path;
        if (item.get(path)) return bad;
        w.response_fields.emplace_back(path);
    }
    return {};
}

/// What "a/b/c" leads to, under the name "c"; paths that lead nowhere are left out.
json::object selected(const json::object& o, const std::vector<std::string>& paths) {
    json::object out;
    for (const auto& path : paths) {
        const json::value* at = nullptr;
        const json::object* in = &o;
        std::string name;
        for (std::size_t from = 0; in != nullptr && from <= path.size();) {
            const auto slash = std::min(path.find('/', from), path.size());
            name = path.substr(from, slash - from);
            at = in->if_contains(name);
            in = at != nullptr ? at->if_object() : nullptr;
            from = slash + 1;
            if (in == nullptr && from <= path.size()) at = nullptr;
        }
        if (at != nullptr) out[name] = *at;
    }
    return out;
}

}  // namespace

result<llama_wire> read_llama_request(const json_object& o, std::int64_t n_vocab) {
    llama_wire w;
    TROUPE_TRYV(refuse_unbuilt(o));
    TROUPE_TRYV(check_ignored(o));
    param_rules rules;
    rules.n_vocab = n_vocab;
    rules.allow_zero_max_tokens = true;
    rules.logprobs_is_count = true;
    TROUPE_TRY(w.request.params, read_params(o, rules));
    TROUPE_TRYV(read_lengths(o, w));
    TROUPE_TRYV(read_response_fields(o, w));
    TROUPE_TRY(w.n, read_choices(o));
    const auto flag = [&](const char* name, bool& to) -> result<void> {
        TROUPE_TRY(const auto value, o.boolean(name));
        to = value.value_or(false);
        return {};
    };
    TROUPE_TRYV(flag("stream", w.stream));
    TROUPE_TRYV(flag("return_tokens", w.return_tokens));
    TROUPE_TRYV(flag("timings_per_token", w.timings_per_token));
    TROUPE_TRYV(flag("return_progress", w.return_progress));
    TROUPE_TRY(const auto model, o.text("model"));
    w.request.model = model.value_or("");
    w.request.what = completion_request::kind::text;
    w.request.prompt_name = "prompt";
    w.request.token_ids = true;
    TROUPE_TRY(w.prompts, read_prompts(o, "prompt", n_vocab));
    if (w.prompts.size() * static_cast<std::size_t>(w.n) > limits::max_prompts)
        return fail(
            errc::invalid_request, fmt::format("n times the prompts must be at most {}", limits::max_prompts), "n");
    return w;
}

llama_writer::llama_writer(
    const llama_wire& wire, std::string model, const generation_params& defaults, std::size_t index, bool several)
    : wire_(wire), model_(std::move(model)), params_(overlay(defaults, wire.request.params)), index_(index),
      several_(several) {}

json::object llama_writer::probability(const token_choice& c) const {
    auto o = token_json(c);
    o["id"] = c.id;
    if (params_.post_sampling_probs.value_or(false)) {
        o.erase("logprob");
        o["prob"] = std::exp(c.logprob);
    }
    return o;
}

json::array llama_writer::probabilities(const std::vector<token_logprobs>& list) const {
    json::array all;
    for (const auto& t : list) {
        auto o = probability(t.token);
        json::array top;
        for (const auto& other : t.top) top.push_back(probability(other));
        o[params_.post_sampling_probs.value_or(false) ? "top_probs" : "top_logprobs"] = std::move(top);
        all.push_back(std::move(o));
    }
    return all;
}

json::object llama_writer::partial(const delta_event& d) {
    text_ += d.text;
    tokens_.insert(tokens_.end(), d.ids.begin(), d.ids.end());
    logprobs_.insert(logprobs_.end(), d.logprobs.begin(), d.logprobs.end());
    json::object o{{"content", d.text}, {"tokens", json::array(d.ids.begin(), d.ids.end())}, {"stop", false}};
    if (several_) o["index"] = index_;
    if (params_.n_logprobs) o["completion_probabilities"] = probabilities(d.logprobs);
    if (wire_.timings_per_token) o["timings"] = json::object{{"predicted_n", d.n_tokens}};
    return o;
}

json::object llama_writer::progress(const generation_progress& p) const {
    json::object o{{"content", ""}, {"tokens", json::array{}}, {"stop", false}};
    if (several_) o["index"] = index_;
    o["prompt_progress"] = json::object{{"total", p.total}, {"cache", p.cached}, {"processed", p.processed}};
    return o;
}

/// Parameters by llama-server's names; what nobody set shows its built-in value.
json::object llama_writer::settings() const {
    const auto& p = params_;
    json::object o{{"n_predict", p.max_tokens.value_or(-1)}, {"seed", p.seed.value_or(-1)},
        {"temperature", p.temperature.value_or(0.8)}, {"dynatemp_range", p.dynatemp_range.value_or(0)},
        {"dynatemp_exponent", p.dynatemp_exponent.value_or(1)}, {"top_k", p.top_k.value_or(40)},
        {"top_p", p.top_p.value_or(0.95)}, {"min_p", p.min_p.value_or(0.05)},
        {"top_n_sigma", p.top_n_sigma.value_or(-1)}, {"xtc_probability", p.xtc_probability.value_or(0)},
        {"xtc_threshold", p.xtc_threshold.value_or(0.1)}, {"typical_p", p.typical_p.value_or(1)},
        {"repeat_last_n", p.penalty_last_n.value_or(64)}, {"repeat_penalty", p.repeat_penalty.value_or(1)},
        {"presence_penalty", p.presence_penalty.value_or(0)}, {"frequency_penalty", p.frequency_penalty.value_or(0)},
        {"dry_multiplier", p.dry_multiplier.value_or(0)}, {"dry_base", p.dry_base.value_or(1.75)},
        {"dry_allowed_length", p.dry_allowed_length.value_or(2)},
        {"dry_penalty_last_n", p.dry_penalty_last_n.value_or(64)}, {"mirostat", p.mirostat.value_or(0)},
        {"mirostat_tau", p.mirostat_tau.value_or(5)}, {"mirostat_eta", p.mirostat_eta.value_or(0.1)},
        {"min_keep", p.min_keep.value_or(0)}, {"n_probs", p.n_logprobs.value_or(0)},
        {"ignore_eos", p.ignore_eos.value_or(false)}, {"stream", wire_.stream},
        {"post_sampling_probs", p.post_sampling_probs.value_or(false)}};
    json::array stop;
    for (const auto& s : p.stop.value_or(std::vector<std::string>{})) stop.push_back(json::value(s));
    o["stop"] = std::move(stop);
    json::array bias;
    if (p.logit_bias)
        for (const auto& [id, value] : *p.logit_bias) bias.push_back({{"token", id}, {"bias", value}});
    o["logit_bias"] = std::move(bias);
    return o;
}

json::value llama_writer::final(const generation_done& d) const {
    const auto tokens =
        wire_.return_tokens && !wire_.stream ? json::array(tokens_.begin(), tokens_.end()) : json::array();
    json::object o{{"index", index_}, {"content", wire_.stream ? "" : text_}, {"tokens", tokens}, {"id_slot", -1},
        {"stop", true}, {"model", model_}, {"tokens_predicted", d.usage.completion_tokens},
        {"tokens_evaluated", d.usage.prompt_tokens}, {"generation_settings", settings()},
        {"prompt", to_valid_utf8(prompt_)}, {"has_new_line", has_new_line()}, {"truncated", false},
        {"stop_type", d.stop_type.empty() ? "none" : d.stop_type}, {"stopping_word", d.stopping_word},
        {"tokens_cached", d.usage.cached_tokens}, {"timings", timings_json(d.timings, d.usage)}};
    if (!wire_.stream && params_.n_logprobs) o["completion_probabilities"] = probabilities(logprobs_);
    if (wire_.response_fields.empty()) return o;
    return selected(o, wire_.response_fields);
}

}  // namespace troupe::net
