#include "actors/session/answer_run.hpp"

#include <algorithm>
#include <limits>

#include "core/check.hpp"
#include "core/ids.hpp"
#include "core/utf8.hpp"

namespace troupe::actors {

answer_run::answer_run(answer_setup setup)
    : setup_(std::move(setup)), text_(setup_.vocabulary, setup_.stop, setup_.logprobs, setup_.echo.size()),
      echoed_(setup_.echo.empty() && setup_.echo_ids.empty()) {
    if (setup_.ids) text_.keep_ids();
    if (setup_.calls.style != model::call_style::unknown) calls_.emplace(setup_.calls.style, setup_.calls.names);
}

void answer_run::echo_first(step& s, const std::vector<token_score>& scores) {
    if (std::exchange(echoed_, true)) return;
    delta_event d{message(), 0, setup_.echo};
    const auto& ids = setup_.echo_ids;
    // The first token of a prompt has no probability: not a number says so.
    const token_score unknown{std::numeric_limits<float>::quiet_NaN(), {}};
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const auto& score = i >= 1 && i - 1 < scores.size() ? scores[i - 1] : unknown;
        d.logprobs.push_back(answer_text::entry(*setup_.vocabulary, ids[i], score.logprob, score.top));
    }
    align_echo(d.logprobs);
    content_ += d.text;
    s.events.emplace_back(std::move(d));
}

/// A vocabulary may put a space before a text's first word; the echo is the text as it was sent.
void answer_run::align_echo(std::vector<token_logprobs>& entries) const {
    std::size_t shown = 0;
    for (const auto& e : entries) shown += static_cast<std::size_t>(e.n_chars);
    if (shown != count_characters(setup_.echo) + 1) return;
    const auto first = std::find_if(entries.begin(), entries.end(), [](const auto& e) { return e.n_chars > 0; });
    if (first->token.bytes.starts_with(' ') && !setup_.echo.starts_with(' ')) --first->n_chars;
}

void answer_run::add_delta(step& s, answer_text::piece piece, bool last) {
    if (piece.empty() && !(last && calls_)) return;
    delta_event d{message(), piece.offset, std::move(piece.text), 0, std::move(piece.logprobs)};
    d.n_tokens = text_.n_tokens();
    d.ids = std::move(piece.ids);
    if (calls_) split_calls(d, last);
    content_ += d.text;
    if (!d.text.empty() || !d.logprobs.empty() || !d.calls.empty() || !d.ids.empty())
        s.events.emplace_back(std::move(d));
}

/// Calls leave the text: offsets count what stays.
void answer_run::split_calls(delta_event& d, bool last) {
    auto pieces = calls_->push(d.text);
    if (last)
        for (auto& p : calls_->finish()) pieces.push_back(std::move(p));
    d.text.clear();
    d.offset = content_.size();
    for (auto& p : pieces) {
        switch (p.what) {
        case model::call_piece::kind::content:
            d.text += p.text;
            break;
        case model::call_piece::kind::name:
            d.calls.push_back({p.index, make_id("call_"), std::move(p.text), {}});
            break;
        case model::call_piece::kind::arguments:
            d.calls.push_back({p.index, {}, {}, std::move(p.text)});
            break;
        }
    }
}

answer_run::step answer_run::resume(const std::vector<token_id>& journal, bool numerics_changed) {
    numerics_changed_ = numerics_changed;
    CHECK(echoed_, "stored answers have no echo");
    step s;
    std::vector<accepted_token> tokens;
    for (auto id : journal) tokens.push_back({id});
    add_delta(s, text_.feed(tokens));
    s.stop_at = text_.stopped_at();
    return s;
}

answer_run::step answer_run::on(const generation_position& x) {
    step s;
    if (!over_) s.events.emplace_back(generation_queued{message(), x.position, x.eta_ms});
    return s;
}

answer_run::step answer_run::on(const prompt_progress& x) {
    step s;
    if (!over_) s.events.emplace_back(generation_progress{message(), x.processed, x.total, x.cached});
    return s;
}

answer_run::step answer_run::on(const generation_tokens& x) {
    step s;
    if (over_ || text_.stopped_at()) return s;
    CHECK(x.n_before == text_.n_tokens(), "the scheduler's tokens come in order, each once");
    if (!setup_.generation.empty() && !x.tokens.empty()) {
        append_tokens row{setup_.generation, x.n_before, {}, x.mu};
        for (const auto& t : x.tokens) row.tokens.push_back(t.id);
        s.records.emplace_back(std::move(row));
    }
    if (std::exchange(numerics_changed_, false)) s.events.emplace_back(generation_resumed{message(), 0, true});
    if (!x.embedding.empty()) s.events.emplace_back(embedding_ready{message(), x.embedding});
    echo_first(s, x.prompt_scores);
    add_delta(s, text_.feed(x.tokens));
    s.stop_at = text_.stopped_at();
    return s;
}

answer_run::step answer_run::on(const generation_stalled& x) {
    step s;
    if (!over_) s.events.emplace_back(generation_paused{message(), x.reason});
    return s;
}

answer_run::step answer_run::on(const generation_moving& x) {
    step s;
    if (!over_) s.events.emplace_back(generation_resumed{message(), x.after_ms, x.numerics_changed});
    return s;
}

answer_run::step answer_run::on(const generation_finished& x) {
    if (x.why == finish::failed && !text_.stopped_at() && !stop_requested_) return fail_with(x.err);
    step s;
    if (over_) return s;
    echo_first(s, {});
    add_delta(s, text_.finish(x.end_token), true);
    auto usage = x.usage;
    if (text_.stopped_at()) usage.completion_tokens = *text_.stopped_at();
    auto& view = setup_.assistant.view;
    view.finish_reason = x.why == finish::length && !text_.stopped_at() ? "length" : "stop";
    if (view.finish_reason == "stop" && calls_ && calls_->n_calls() > 0) view.finish_reason = "tool_calls";
    const bool cut = x.why == finish::cancelled || x.why == finish::failed;
    const bool by_user = stop_requested_ && cut && !text_.stopped_at();
    generation_done done{message(), view.finish_reason, by_user ? "user" : "", usage, x.timings, {}, {}};
    if (text_.stopped_at())
        done.stop_type = "word", done.stopping_word = text_.stop_string();
    else if (x.why == finish::length)
        done.stop_type = "limit";
    else if (x.why == finish::stop)
        done.stop_type = "eos";
    s.events.emplace_back(std::move(done));
    close(s, usage);
    return s;
}

answer_run::step answer_run::fail_with(error e) {
    step s;
    if (over_) return s;
    add_delta(s, text_.finish(), true);
    setup_.assistant.view.err = e;
    s.events.emplace_back(generation_error{message(), std::move(e)});
    close(s, {0, text_.n_tokens(), 0});
    return s;
}

void answer_run::close(step& s, const usage_counts& usage) {
    over_ = s.over = true;
    if (setup_.generation.empty()) return;
    setup_.assistant.view.content = content_;
    setup_.assistant.usage = usage;
    s.records.emplace_back(put_message{setup_.session, setup_.assistant});
    s.records.emplace_back(end_generation{setup_.generation});
}

}  // namespace troupe::actors
