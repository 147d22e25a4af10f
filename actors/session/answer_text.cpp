#include "actors/session/answer_text.hpp"

namespace troupe::actors {

answer_text::answer_text(std::shared_ptr<const model::tokenizer> vocabulary, std::vector<std::string> stops,
    bool logprobs, std::uint64_t offset)
    : vocabulary_(std::move(vocabulary)), stops_(std::move(stops)), want_logprobs_(logprobs), offset_(offset) {}

answer_text::piece answer_text::feed(std::span<const accepted_token> tokens) {
    std::string out;
    for (const auto& t : tokens) {
        if (stopped_at_) break;
        ++n_tokens_;
        const auto bytes = vocabulary_->piece(t.id);
        const std::string text = utf8_.push(bytes);
        certain_ += text.size();
        if (want_logprobs_) {
            const auto choice = [this](const logprob_entry& e) {
                return token_choice{std::string(vocabulary_->piece(e.id, true)), e.logprob, e.id};
            };
            token_logprobs entry{choice({t.id, t.logprob}), {}};
            for (const auto& e : t.top) entry.top.push_back(choice(e));
            // Bytes that are still an incomplete code point show with the text that completes them.
            waiting_.push_back({certain_ + (text.empty() && !bytes.empty() ? 1 : 0), std::move(entry)});
        }
        out += stops_.push(text);
        if (stops_.matched()) stopped_at_ = n_tokens_;
    }
    return take(std::move(out), false);
}

answer_text::piece answer_text::finish() {
    if (stopped_at_) return take({}, false);
    const std::string tail = utf8_.flush();
    certain_ += tail.size();
    std::string out = stops_.push(tail);
    if (!stops_.matched()) out += stops_.flush();
    return take(std::move(out), !stops_.matched());
}

answer_text::piece answer_text::take(std::string text, bool all) {
    piece p{offset_ + released_, std::move(text), {}};
    released_ += p.text.size();
    while (!waiting_.empty() && (all || waiting_.front().needs <= released_)) {
        p.logprobs.push_back(std::move(waiting_.front().entry));
        waiting_.pop_front();
    }
    return p;
}

}  // namespace troupe::actors
