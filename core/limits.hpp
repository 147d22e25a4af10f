// Every bound in one place, related by static_assert. Full means a typed refusal, never an unbounded queue.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace troupe::limits {

using namespace std::chrono_literals;

// -- requests ---------------------------------------------------------------------------------------------------------
inline constexpr std::size_t max_body_default = 16u << 20;
inline constexpr std::size_t max_websocket_frame = 1u << 20;
inline constexpr int max_json_depth = 64;
inline constexpr std::size_t max_stop_strings = 16;
inline constexpr std::size_t max_stop_string_bytes = 1024;
inline constexpr std::size_t max_client_id = 64;
inline constexpr int max_choices = 16;
inline constexpr int max_top_logprobs = 20;
inline constexpr std::size_t max_prompts = 2048;       ///< of one request
inline constexpr std::size_t max_parallel_parts = 16;  ///< prompts and choices of one request that run at once
inline constexpr std::size_t max_title_bytes = 1024;
inline constexpr std::size_t max_system_prompt_bytes = 1u << 20;

// -- connections ------------------------------------------------------------------------------------------------------
inline constexpr std::size_t max_connections = 4096;
inline constexpr std::size_t http_connections_kept = 256;               ///< of these, for others than WebSockets
inline constexpr std::size_t descriptors_kept = 128;                    ///< of the process, for other than connections
inline constexpr std::size_t max_unanswered_commands = 64;              ///< reading from a socket stops at this many
inline constexpr std::size_t client_queue_coalesce_bytes = 256u << 10;  ///< past this deltas are merged
inline constexpr std::size_t client_queue_drop_bytes = 4u << 20;        ///< past this the connection is dropped
inline constexpr auto peer_unreachable_after = 120s;  ///< bytes sent that long ago and not acknowledged
inline constexpr auto websocket_auth_within = 5s;
inline constexpr auto sse_ping_every = 10s;
inline constexpr auto http_read_timeout = 30s;
inline constexpr auto http_write_timeout = 120s;  ///< one write that makes no progress

// -- sessions ---------------------------------------------------------------------------------------------------------
inline constexpr std::size_t event_ring_events = 4096;
inline constexpr std::size_t event_ring_bytes = 1u << 20;
inline constexpr auto position_event_every = 500ms;
inline constexpr std::size_t store_backlog_bytes = 64u << 20;  ///< unsaved records kept while the disk refuses them
inline constexpr auto store_retry_every = 1s;                  ///< only while persistence is degraded
inline constexpr std::uint64_t seq_reservation = 4096;         ///< event numbers reserved in the store at a time
inline constexpr std::size_t max_loaded_sessions = 256;        ///< past this idle, unwatched sessions are unloaded
inline constexpr auto actor_request_timeout = 30s;             ///< an answer that takes longer counts as lost
inline constexpr std::size_t bulk_text_bytes = 64u << 10;      ///< longer texts are tokenized apart from the others

// -- scheduler --------------------------------------------------------------------------------------------------------
inline constexpr int block_tokens = 16;
inline constexpr int max_step_rows = 512;  ///< rows of one forward pass
inline constexpr int max_step_seqs = 64;
inline constexpr int max_run_ahead = 4;
inline constexpr int max_preemptions = 8;  ///< of one request

// -- grammars ---------------------------------------------------------------------------------------------------------
inline constexpr std::size_t max_grammar_bytes = 2u << 20;   ///< of GBNF, also of one made from a schema
inline constexpr std::size_t max_schema_bytes = 512u << 10;  ///< of a JSON schema, or of all schemas of the tools
inline constexpr std::size_t max_grammar_expressions = 200'000;
inline constexpr int max_grammar_nesting = 100;                ///< of groups
inline constexpr std::int32_t max_grammar_repeat = 1'000'000;  ///< in {n,m}; counted, not unrolled
inline constexpr std::size_t max_grammar_nodes = 1'000'000;    ///< of the automaton
inline constexpr std::int32_t max_unrolled_repeat = 256;       ///< {n,m} of something that may be empty
inline constexpr int max_grammar_depth = 512;             ///< rules within rules at run time: deeper text is not made
inline constexpr std::size_t max_grammar_threads = 4096;  ///< ways of reading one text at the same time
inline constexpr std::size_t grammar_cache_bytes = 16u << 20;  ///< of states, and of masks, for each grammar
inline constexpr std::size_t grammars_kept = 4;                ///< compiled ones that no sequence uses
inline constexpr int max_tools = 128;

// -- supervisor -------------------------------------------------------------------------------------------------------
inline constexpr auto health_probe_deadline = 1s;
inline constexpr auto health_cache = 1s;
inline constexpr int deaths_to_open_circuit = 5;
inline constexpr auto restart_backoff_first = 100ms;
inline constexpr auto restart_backoff_max = 10s;
inline constexpr auto circuit_retry = 60s;
inline constexpr auto min_progress_deadline = 2s;
inline constexpr double progress_deadline_factor = 8;
inline constexpr std::size_t supervisor_events_kept = 100;

// -- shutdown ---------------------------------------------------------------------------------------------------------
inline constexpr auto drain_deadline = 3s;
inline constexpr auto executor_exit_deadline = 2s;

static_assert(client_queue_coalesce_bytes < client_queue_drop_bytes);
static_assert(max_websocket_frame <= max_body_default);
static_assert(max_step_seqs <= max_step_rows);
static_assert(event_ring_bytes <= client_queue_drop_bytes, "a full replay must fit into one client's queue");
static_assert(max_parallel_parts >= max_choices);
static_assert(restart_backoff_first < restart_backoff_max && restart_backoff_max < circuit_retry);

}  // namespace troupe::limits
