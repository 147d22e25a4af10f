#include "actors/session/answer_run.hpp"

#include <limits>

#include "core/check.hpp"

namespace troupe::actors {

answer_run::answer_run(answer_setup setup)
    : setup_(std::move(setup)), text_(setup_.vocabulary, setup_.stop, setup_.logprobs, setup_.echo.size()),
      echoed_(setup_.echo.empty() && setup_.echo_ids.empty()) {}

void answer_run::echo_first(step& s, const std::vector<float>& logprobs) {
    if (std::exchange(echoed_, true)) return;
    delta_event d{message(), 0, setup_.echo};
    const auto& ids = setup_.echo_ids;
    // The first token of a prompt has no probability: not a number says so.
    const std::size_t shift = logprobs.size() < ids.size() ? 1 : 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const bool known = i >= 1 && i - shift < logprobs.size();
        d.logprobs.push_back({{std::string(setup_.vocabulary->piece(ids[i], true)),
                                  known ? logprobs[i - shift] : std::numeric_limits<double>::quiet_NaN(), ids[i]},
            {}});
    }
    content_ += d.text;
    s.events.emplace_back(std::move(d));
}

void answer_run::add_delta(step& s, answer_text::piece piece) {
    if (piece.empty()) return;
    content_ += piece.text;
    s.events.emplace_back(
        delta_event{message(), piece.offset, std::move(piece.text), 0, std::move(piece.logprobs), text_.n_tokens()});
}

answer_run::step answer_run::resume(const std::vector<token_id>& journal, bool numerics_changed) {
    CHECK(echoed_, "stored answers have no echo");
    step s;
    std::vector<accepted_token> tokens;
    for (auto id : journal) tokens.push_back({id});
    add_delta(s, text_.feed(tokens));
    if (numerics_changed) s.events.emplace_back(generation_resumed{message(), 0, true});
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
        append_tokens row{setup_.generation, x.n_before, {}};
        for (const auto& t : x.tokens) row.tokens.push_back(t.id);
        s.records.emplace_back(std::move(row));
    }
    echo_first(s, x.prompt_logprobs);
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
    add_delta(s, text_.finish());
    auto usage = x.usage;
    if (text_.stopped_at()) usage.completion_tokens = *text_.stopped_at();
    auto& view = setup_.assistant.view;
    view.finish_reason = x.why == finish::length && !text_.stopped_at() ? "length" : "stop";
    const bool by_user = stop_requested_ && x.why == finish::cancelled && !text_.stopped_at();
    s.events.emplace_back(generation_done{message(), view.finish_reason, by_user ? "user" : "", usage, x.timings});
    close(s, usage);
    return s;
}

answer_run::step answer_run::fail_with(error e) {
    step s;
    if (over_) return s;
    add_delta(s, text_.finish());
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
