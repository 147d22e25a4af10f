#include "actors/session/answer_text.hpp"

#include "core/utf8.hpp"

namespace troupe::actors {

answer_text::answer_text(std::shared_ptr<const model::tokenizer> vocabulary, std::vector<std::string> stops,
    bool logprobs, std::uint64_t offset)
    : vocabulary_(std::move(vocabulary)), stops_(std::move(stops)), want_logprobs_(logprobs), offset_(offset) {}

answer_text::piece answer_text::feed(std::span<const accepted_token> tokens) {
    std::string out;
    std::vector<std::int32_t> ids;
    for (const auto& t : tokens) {
        if (stopped_at_) break;
        ++n_tokens_;
        if (want_ids_) ids.push_back(t.id);
        const auto bytes = vocabulary_->piece(t.id);
        const std::string text = utf8_.push(bytes);
        certain_ += text.size();
        // Bytes that are still an incomplete code point show with the text that completes them.
        if (want_logprobs_)
            waiting_.push_back(
                {certain_ + (text.empty() && !bytes.empty() ? 1 : 0), entry(*vocabulary_, t.id, t.logprob, t.top)});
        out += stops_.push(text);
        if (stops_.matched()) stopped_at_ = n_tokens_;
    }
    auto p = take(std::move(out), false);
    p.ids = std::move(ids);
    return p;
}

token_logprobs answer_text::entry(
    const model::tokenizer& vocabulary, token_id id, float logprob, const std::vector<logprob_entry>& top) {
    const auto choice = [&](token_id token, float value) {
        return token_choice{std::string(vocabulary.piece(token, true)), value, token};
    };
    const auto shown = vocabulary.piece(id);
    token_logprobs e{choice(id, logprob), {}, static_cast<std::int32_t>(count_characters(shown))};
    e.top.reserve(top.size());
    for (const auto& t : top) e.top.push_back(choice(t.id, t.logprob));
    return e;
}

answer_text::piece answer_text::finish(const std::optional<accepted_token>& end_token) {
    if (stopped_at_) return take({}, false);
    if (end_token && want_logprobs_) {
        auto e = entry(*vocabulary_, end_token->id, end_token->logprob, end_token->top);
        e.n_chars = 0;
        e.end = true;
        waiting_.push_back({0, std::move(e)});
    }
    const std::string tail = utf8_.flush();
    certain_ += tail.size();
    std::string out = stops_.push(tail);
    if (!stops_.matched()) out += stops_.flush();
    return take(std::move(out), !stops_.matched());
}

answer_text::piece answer_text::take(std::string text, bool all) {
    piece p{offset_ + released_, std::move(text), {}, {}};
    released_ += p.text.size();
    while (!waiting_.empty() && (all || waiting_.front().needs <= released_)) {
        p.logprobs.push_back(std::move(waiting_.front().entry));
        waiting_.pop_front();
    }
    return p;
}

}  // namespace troupe::actors
