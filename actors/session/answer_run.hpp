// One answer in the making, without an actor: what the scheduler says goes in, records to write and events to publish
// come out. The records of a step must be committed before its events are delivered.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/generation.hpp"
#include "actors/session/answer_text.hpp"
#include "actors/session/parameters.hpp"
#include "actors/store/records.hpp"
#include "core/events.hpp"
#include "model/tools/call_parser.hpp"

namespace troupe::actors {

struct answer_setup {
    std::string session;
    std::string generation;    ///< name of the generation's row; empty: nothing is stored
    stored_message assistant;  ///< id, parent and creation time; the text comes
    std::shared_ptr<const model::tokenizer> vocabulary;
    std::vector<std::string> stop;
    bool logprobs = false;
    bool ids = false;                ///< deltas name their tokens
    std::string echo;                ///< stands before the answer
    call_rules calls;                ///< what in the text is a tool call
    std::vector<token_id> echo_ids;  ///< its tokens, for their log-probabilities; empty: none are given
};

class answer_run {
 public:
    struct step {
        std::vector<record> records;
        std::vector<event_payload> events;
        std::optional<std::int64_t> stop_at;  ///< tell the scheduler: a stop string ended at this token
        bool over = false;
    };

    explicit answer_run(answer_setup setup);

    /// Goes on where a journal ends: its text comes as one delta from offset 0. That the numerics changed is said when
    /// the first token made with the new ones comes.
    step resume(const std::vector<token_id>& journal, bool numerics_changed);
    step on(const generation_position& x);
    step on(const prompt_progress& x);
    step on(const generation_tokens& x);
    step on(const generation_stalled& x);
    step on(const generation_moving& x);
    step on(const generation_finished& x);
    /// Ends it with an error of ours; what was generated is kept.
    step fail_with(error e);
    /// The user asked for the end; generation_finished follows.
    void request_stop() { stop_requested_ = true; }

    const std::string& message() const { return setup_.assistant.view.id; }

 private:
    void echo_first(step& s, const std::vector<token_score>& scores);
    void align_echo(std::vector<token_logprobs>& entries) const;
    void add_delta(step& s, answer_text::piece piece, bool last = false);
    void split_calls(delta_event& d, bool last);
    void close(step& s, const usage_counts& usage);
    answer_setup setup_;
    answer_text text_;
    std::optional<model::call_parser> calls_;
    std::string content_;
    bool echoed_ = false;
    bool numerics_changed_ = false;
    bool stop_requested_ = false;
    bool over_ = false;
};

}  // namespace troupe::actors
