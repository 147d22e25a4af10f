// One conversation: asks for answers, journals tokens before it publishes them, keeps the message tree. Decisions are
// in conversation, answer_run, parameters and outbox; this is the shell that receives and sends.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <caf/behavior.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include "actors/messages.hpp"
#include "actors/session/answer_run.hpp"
#include "actors/session/conversation.hpp"
#include "actors/session/outbox.hpp"
#include "actors/session/session_messages.hpp"

namespace troupe::actors {

struct session_setup {
    stored_session stored;          ///< ephemeral: only info.id
    bool ephemeral = false;         ///< one answer, nothing is stored, leaves when it is over
    bool resume = true;             ///< go on with an unfinished answer, or else end it with an error
    bool keep_prompt_text = false;  ///< for armed faults with request_contains
    generation_params defaults;
    session_peers peers;
    caf::actor gateway;
    std::shared_ptr<std::atomic<std::uint64_t>> next_generation;
    std::shared_ptr<std::atomic<std::int64_t>> fault;  ///< token batches until an injected crash; negative: none
};

class session_core;
struct session_state {
    static inline const char* name = "session";
    std::unique_ptr<session_core> core;
    session_state();
    ~session_state();
};
using session_self = caf::stateful_actor<session_state>;

caf::behavior session_actor(session_self* self, std::shared_ptr<const session_setup> setup);

/// An answer before the scheduler has accepted it.
struct answer_plan {
    std::uint64_t serial = 0;
    std::optional<stored_message> user;
    stored_message assistant;
    std::vector<chat_message> context;  ///< chat
    bool text = false;                  ///< prompt or ids instead of context
    std::string prompt;
    std::optional<std::vector<token_id>> ids;
    bool echo = false, prompt_only = false, token_ids = false;
    std::int32_t choice = 0;
    pooling pool = pooling::none;
    std::string prompt_name = "messages";
    std::string tools, tool_choice;
    bool parallel_tool_calls = true;
    call_rules calls;
    std::optional<std::string> grammar;  ///< GBNF of the answer, once it is known; empty: any text
    generation_params params;
    command::origin from;
    answer<posted> done;
    answer<generation_ticket> ticket;
    std::vector<answer<posted>> repeats;  ///< the same id came again meanwhile
    bool stop_requested = false;
    int tries = 0;
    generation_id generation = 0;
    std::string row;  ///< name of the generation's row; empty: ephemeral
    std::shared_ptr<const std::vector<token_id>> prompt_ids;
    resolved_params resolved;
    std::vector<token_id> accepted;  ///< of a resumed answer
    float mu = 0;                    ///< and where its mirostat was
    bool resumed = false;
};

class session_core {
 public:
    session_core(session_self* self, const session_setup& setup);

    void handle(command::update& c);
    void handle(command::remove& c);
    void handle(command::export_json& c);
    void handle(command::message& c);
    void handle(command::regenerate& c);
    void handle(command::edit& c);
    void handle(command::stop& c);
    void handle(command::complete& c);
    void handle(command::cancel& c);
    template <class T> void handle(T&) { CHECK(false, "a command for the gateway reached a session"); }

    template <class M> void scheduler_says(const M& m) {
        if (run_ && m.id == generation_) take(run_->on(m));
    }
    void acknowledged(const store_ack& a);
    void peers_changed(const session_peers& p);
    void answer_snapshot(const snapshot_request& q);
    void retire();
    void timer(std::uint64_t serial);  ///< ask again for the plan with this serial
    void maybe_crash();

 private:
    enum class phase { idle, preparing, running };
    void begin(answer_plan plan);
    void ask_for_prompt();
    void prompt_ready(std::shared_ptr<const std::vector<token_id>> ids, const std::string& text);
    bool ask_for_grammar();
    void prompt_failed(std::uint64_t serial, const caf::error& e);
    void submit();
    void accepted();
    void start_run();
    void refused(error e);
    void resume_unfinished();
    void take(answer_run::step s);
    void emit(std::vector<record> records, std::vector<event_payload> events, command::origin from = {},
        std::function<void()> after = {});
    void send_write(const out_item& item);
    void drain_outbox();
    void fold(const event_payload& e);
    void became_idle();
    std::shared_ptr<snapshot_event> snapshot() const;
    answer_plan plan_for(const std::string& parent, const generation_params& params) const;
    posted repeated(const std::string& user_message) const;
    bool refuse_busy(const answer<posted>& done) const;
    std::optional<error> cannot_start() const;
    put_session session_row() const { return {info_, next_leaf_, 0}; }
    bool stored() const { return !setup_.ephemeral; }

    session_self* self_;
    session_setup setup_;
    session_view info_;
    conversation tree_;      // as published
    std::string next_leaf_;  // as written
    std::vector<stored_generation> unfinished_;
    std::vector<std::uint64_t> held_snapshots_;  // tokens of requests that wait for the model's vocabulary
    phase phase_ = phase::idle;
    std::optional<answer_plan> plan_;
    /// A user's message between its acceptance and its publication: the same id may come again.
    struct posting {
        std::string id;
        std::vector<answer<posted>> repeats;
    };
    std::optional<posting> posting_;
    std::unique_ptr<answer_run> run_;
    generation_id generation_ = 0;
    std::optional<generating_view> generating_;  // as published
    outbox out_;
    std::uint64_t last_ticket_ = 0, last_serial_ = 0;
    bool store_full_ = false, removed_ = false, retiring_ = false;
};

}  // namespace troupe::actors
