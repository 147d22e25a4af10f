// Every message an actor receives, filed by receiver. Wire messages (front <-> executor process) have inspect
// functions; the others stay inside the front process and travel as shared pointers or plain structs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <caf/actor.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/atom.hpp>
#include <caf/meta/type_name.hpp>
#include <caf/type_id.hpp>

#include "actors/generation.hpp"
#include "actors/kv_usage.hpp"
#include "actors/plan.hpp"
#include "actors/step_bounds.hpp"
#include "core/error.hpp"
#include "core/events.hpp"
#include "core/ports.hpp"
#include "core/requests.hpp"
#include "model/sampling/sampler.hpp"

namespace troupe::actors {

// -- executor (other process)
template <class I> typename I::result_type inspect(I& f, sequence_params& x) {
    return f(caf::meta::type_name("sequence_params"), x.temperature, x.top_p, x.min_p, x.repeat_penalty,
        x.frequency_penalty, x.presence_penalty, x.typical_p, x.top_n_sigma, x.xtc_probability, x.xtc_threshold,
        x.dynatemp_range, x.dynatemp_exponent, x.dry_multiplier, x.dry_base, x.mirostat_tau, x.mirostat_eta, x.top_k,
        x.penalty_last_n, x.n_logprobs, x.choice, x.min_keep, x.dry_allowed_length, x.dry_last_n, x.mirostat,
        x.dry_breakers, x.seed, x.bias_ids, x.bias_values, x.end_tokens, x.min_tokens, x.max_tokens, x.prompt_logprobs,
        x.post_sampling_logprobs, x.pool, x.grammar);
}
template <class I> typename I::result_type inspect(I& f, sequence_open& x) {
    return f(caf::meta::type_name("sequence_open"), x.id, x.tokens, x.n_prompt, x.params, x.watch_text, x.mu);
}
template <class I> typename I::result_type inspect(I& f, table_delta& x) {
    return f(caf::meta::type_name("table_delta"), x.group, x.first, x.blocks);
}
template <class I> typename I::result_type inspect(I& f, plan_row& x) {
    return f(caf::meta::type_name("plan_row"), x.seq, x.pos, x.n, x.sample, x.tables);
}
template <class I> typename I::result_type inspect(I& f, kv_op& x) {
    return f(caf::meta::type_name("kv_op"), x.kind, x.group, x.from, x.to);
}
template <class I> typename I::result_type inspect(I& f, kv_part& x) {
    return f(caf::meta::type_name("kv_part"), x.file, x.index, x.group, x.blocks);
}
template <class I> typename I::result_type inspect(I& f, kv_job& x) {
    return f(caf::meta::type_name("kv_job"), x.id, x.kind, x.tokens, x.first_block, x.parts);
}
template <class I> typename I::result_type inspect(I& f, kv_job_result& x) {
    return f(caf::meta::type_name("kv_job_result"), x.epoch, x.id, x.good_parts, x.bytes, x.us, x.reason);
}
template <class I> typename I::result_type inspect(I& f, kv_image_info& x) {
    return f(caf::meta::type_name("kv_image_info"), x.file, x.bytes, x.first_block, x.keys, x.groups);
}
template <class I> typename I::result_type inspect(I& f, plan& x) {
    return f(caf::meta::type_name("plan"), x.epoch, x.id, x.opens, x.closes, x.ops, x.rows, x.jobs);
}
template <class I> typename I::result_type inspect(I& f, logprob_entry& x) {
    return f(caf::meta::type_name("logprob_entry"), x.id, x.logprob);
}
template <class I> typename I::result_type inspect(I& f, row_result& x) {
    return f(caf::meta::type_name("row_result"), x.seq, x.pos, x.n, x.status, x.sampled, x.token, x.logprob, x.top,
        x.ended, x.complete, x.mu, x.prompt_scores, x.embedding);
}
template <class I> typename I::result_type inspect(I& f, plan_result& x) {
    return f(caf::meta::type_name("plan_result"), x.epoch, x.plan, x.rows, x.step_us, x.ops_ok);
}
template <class I> typename I::result_type inspect(I& f, executor_info& x) {
    return f(caf::meta::type_name("executor_info"), x.epoch, x.pid, x.kernels, x.numerics_id, x.model_hash, x.device,
        x.n_ctx, x.n_vocab, x.max_rows, x.n_threads, x.kv_type, x.n_embd, x.segment_bytes, x.max_segments,
        x.group_window, x.group_layers, x.group_block_bytes, x.group_latent, x.weight_bytes, x.kv_disk, x.images,
        x.images_refused);
}
template <class I> typename I::result_type inspect(I& f, executor_status& x) {
    return f(caf::meta::type_name("executor_status"), x.epoch, x.progress, x.plan_started, x.plans_done, x.busy,
        x.load_progress);
}
template <class I> typename I::result_type inspect(I& f, executor_fault& x) {
    return f(caf::meta::type_name("executor_fault"), x.kind, x.after_steps, x.times, x.slow_ms, x.only_watched);
}
// clang-format off
// Door actor:
//   (hello_atom, std::string cookie)         -> executor_info (after load); wrong cookie: error
// Executor actor:
//   (plan)                                   void; answers plan_result to the scheduler it was given
//   (attach_atom, caf::actor scheduler)      -> executor_info
//   (cancel_atom, std::vector<sequence_id>)  void; bypasses the plan queue
//   (status_atom)                            -> executor_status (from counters, never waits for the worker)
//   (executor_fault)                         -> bool armed
// clang-format on

// -- scheduler
/// A generation to run (or to go on with, after a front restart: `accepted` not empty). Sent by a session.
struct submit_generation {
    generation_id id = 0;
    std::string client_key, session, model;
    std::shared_ptr<const std::vector<token_id>> prompt;  ///< ids, checked against the context
    std::vector<token_id> accepted;
    sequence_params params;
    float mu = 0;  ///< mirostat's, after the last accepted token
    bool batch_priority = false;
    bool resumed = false;     ///< it was taken once already, before the front or its session died
    bool keep = false;        ///< of a stored session: its KV may be kept on disk
    std::string prompt_text;  ///< only kept when fault injection is on (request_contains)
    caf::actor owner;         ///< the session: receives the messages below
};
// clang-format off
// (submit_generation)                 -> accepted (bool true) or errc as error (queue_full, out_of_memory ...):
//                                     see make_caf_error
// (cancel_atom, generation_id)        void: owner gets generation_finished{cancelled} at once
// (stop_at_atom, generation_id, std::int64_t n_accepted)
//                                     void: a stop string ended at this token count
// (executor_up)  (executor_down)      from the supervisor
// (plan_result)  (kv_job_result)      from the executor
// (state_atom)                        -> std::string JSON
// (compactor_atom, caf::actor)        void: who gets kv_usage when it changed much, at most once a second
// (memory_order)  (memory_pressure)   void: from the compactor
// (compact_atom)                      -> std::string JSON, when it is done: live blocks are packed together, the
//                                     segments that get empty are returned
// (fault_spec)                        void: with request_contains: sequences whose prompt_text contains it are
//                                     opened with watch_text
// (step_bounds)                       void: from the next plan on
// (activity_atom, caf::actor)         void: who gets work_state, now and whenever it changes
// (unload_atom)                       -> bool: everything that waits or runs has ended with errc::not_ready
// (drain_atom)                        -> bool: from now on submissions get shutting_down
// clang-format on
struct executor_up {
    caf::actor executor;
    executor_info info;
};
/// To who follows the scheduler's activity.
struct work_state {
    bool idle = true;  ///< nothing waits and nothing runs
};
struct executor_down {
    std::uint64_t epoch = 0;
    std::string reason;
    std::uint64_t plan_started = 0;
};

// -- session (from the scheduler)
// Defined in actors/generation.hpp: generation_position, prompt_progress, generation_tokens, generation_stalled,
// generation_moving, generation_finished.

// -- tokenizer
struct render_chat {
    std::vector<chat_message> messages;
    std::string template_kwargs;
    bool add_generation_prompt = true;
    std::string tools;        ///< JSON list; empty: none
    std::string tool_choice;  ///< auto, required or a tool's name
    bool parallel_tool_calls = true;
};
struct rendered_chat {
    std::shared_ptr<const std::vector<token_id>> ids;
    std::string text;
    call_rules calls;
};
/// What an answer must be -> GBNF as std::string, or the error that goes to the client.
struct constrain_output {
    std::optional<std::string> grammar, json_schema;
    std::string field;  ///< of the request
};
// clang-format off
// (render_chat)       -> rendered_chat
// (constrain_output)  -> std::string
// (encode_atom, std::string text, bool add_special, bool parse_special)
//                     -> ids
// clang-format on

// -- store
// Defined in actors/store/store_messages.hpp (sessions, messages, generations, journal).

// -- supervisor
// clang-format off
// (health_atom)   -> health_report
// (restart_atom)  -> bool
// (fault_spec)    -> bool
// More: see actors/supervisor/supervisor.hpp. The scheduler need not report progress: the supervisor reads the
// executor's counters itself.
// clang-format on

/// errc travels through CAF's error as a code in this category and back with its message and param.
caf::error make_caf_error(const error& e);
error from_caf_error(const caf::error& e);

}  // namespace troupe::actors

CAF_BEGIN_TYPE_ID_BLOCK(troupe, caf::first_custom_type_id)
CAF_ADD_TYPE_ID(troupe, (troupe::actors::sequence_params))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::sequence_open))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::table_delta))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::plan_row))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::kv_op))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::plan))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::logprob_entry))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::row_result))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::plan_result))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::executor_info))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::executor_status))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::executor_fault))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::kv_part))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::kv_job))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::kv_job_result))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::kv_image_info))
CAF_ADD_ATOM(troupe, troupe::actors, hello_atom, "hello")
CAF_ADD_ATOM(troupe, troupe::actors, attach_atom, "attach")
CAF_ADD_ATOM(troupe, troupe::actors, cancel_atom, "cancel")
CAF_ADD_ATOM(troupe, troupe::actors, status_atom, "status")
CAF_ADD_ATOM(troupe, troupe::actors, stop_at_atom, "stopat")
CAF_ADD_ATOM(troupe, troupe::actors, state_atom, "state")
CAF_ADD_ATOM(troupe, troupe::actors, encode_atom, "encode")
CAF_ADD_ATOM(troupe, troupe::actors, health_atom, "health")
CAF_ADD_ATOM(troupe, troupe::actors, restart_atom, "restart")
CAF_ADD_ATOM(troupe, troupe::actors, timer_atom, "timer")
CAF_ADD_ATOM(troupe, troupe::actors, drain_atom, "drain")
CAF_ADD_ATOM(troupe, troupe::actors, compact_atom, "compact")
CAF_ADD_ATOM(troupe, troupe::actors, compactor_atom, "compactor")
CAF_ADD_ATOM(troupe, troupe::actors, counters_atom, "counters")
CAF_ADD_ATOM(troupe, troupe::actors, activity_atom, "activity")
CAF_ADD_ATOM(troupe, troupe::actors, unload_atom, "unload")
CAF_ADD_ATOM(troupe, troupe::actors, sleep_atom, "sleep")
CAF_ADD_ATOM(troupe, troupe::actors, sample_atom, "sample")
CAF_END_TYPE_ID_BLOCK(troupe)

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::submit_generation)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::kv_usage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::memory_order)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::memory_pressure)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::executor_up)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::work_state)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::step_bounds)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::executor_down)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::generation_position)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::prompt_progress)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::generation_tokens)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::generation_stalled)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::generation_moving)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::generation_finished)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::render_chat)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::rendered_chat)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::constrain_output)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::health_report)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::fault_spec)
