// What scheduler and executor say to each other about work: plain structs, no CAF. The executor runs plans strictly in
// order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/requests.hpp"
#include "model/kv_layout.hpp"

namespace troupe::actors {

using sequence_id = std::uint64_t;  ///< made by the scheduler, never reused
using token_id = std::int32_t;

/// Sampling and stopping of one sequence, resolved and checked. Mirrors model::sampling_params for the wire.
struct sequence_params {
    float temperature = 0, top_p = 1, min_p = 0, repeat_penalty = 1, frequency_penalty = 0, presence_penalty = 0;
    float typical_p = 1, top_n_sigma = -1, xtc_probability = 0, xtc_threshold = 0.1f;
    float dynatemp_range = 0, dynatemp_exponent = 1, dry_multiplier = 0, dry_base = 1.75f;
    float mirostat_tau = 5, mirostat_eta = 0.1f;
    std::int32_t top_k = 0, penalty_last_n = 64, n_logprobs = -1, choice = 0, min_keep = 0;
    std::int32_t dry_allowed_length = 2, dry_last_n = 64, mirostat = 0;
    std::string dry_breakers;  ///< packed ids, a -1 behind each sequence
    std::uint64_t seed = 0;
    std::vector<std::int32_t> bias_ids;
    std::vector<float> bias_values;
    std::vector<token_id> end_tokens;  ///< ids that end the generation; empty with ignore_eos
    std::int64_t min_tokens = 0;       ///< end tokens are banned before this many
    std::int64_t max_tokens = 0;       ///< generated tokens, those before a resume included
    std::string grammar;               ///< GBNF that the generated text follows; empty: any text
    bool prompt_logprobs = false;      ///< echo + logprobs: log-probabilities of the prompt's tokens
    bool post_sampling_logprobs = false;
    pooling pool = pooling::none;  ///< not none: the sequence is embedded, nothing is sampled

    /// Is something besides generated tokens wanted: then its prompt runs though max_tokens is 0.
    bool measures() const { return prompt_logprobs || pool != pooling::none; }
    /// Does every prompt position have to be computed, whatever the cache holds?
    bool wants_whole_prompt() const { return prompt_logprobs || pool == pooling::mean; }
};

/// Makes a sequence known to this executor incarnation. `tokens` = prompt + everything accepted so far (little-endian
/// int32 as bytes: element-wise serialization is slow); rows refer to it by position.
struct sequence_open {
    sequence_id id = 0;
    std::string tokens;
    std::int64_t n_prompt = 0;
    sequence_params params;
    bool watch_text = false;  ///< an armed fault with request_contains matched this prompt
    float mu = 0;             ///< mirostat's, after the last of `tokens`
};

/// Entries [first, first + blocks.size()) of one group's block table; older entries stay as they are.
struct table_delta {
    std::uint32_t group = 0, first = 0;
    std::vector<model::block_id> blocks;
};

/// n tokens from position pos. Decode: n = 1 and pos = the last token's position. The last row is sampled if `sample`.
struct plan_row {
    sequence_id seq = 0;
    std::int32_t pos = 0, n = 0;
    bool sample = false;
    std::vector<table_delta> tables;
};

enum class kv_op_kind : std::uint8_t { commit_segment, release_segment, copy_block };
/// Runs before the rows of its plan, in order. copy_block: `from` -> `to` within `group`.
struct kv_op {
    kv_op_kind kind{};
    std::uint32_t group = 0;
    std::uint64_t from = 0, to = 0;  ///< segments: `to` is the index
};

enum class kv_job_kind : std::uint8_t { save, load, drop };
/// One image file and which of its blocks: block `index[i]` (counted from position 0) of group `group[i]` lies at
/// `blocks[i]`.
struct kv_part {
    std::string file;
    std::vector<std::uint32_t> index, group;
    std::vector<model::block_id> blocks;
};
/// Work of the tiers below: begun when its plan runs, done beside the steps that follow. No plan touches its blocks
/// until kv_job_result is back. save: one part, whose blocks are of the end of `tokens`; load: of parts of it; drop:
/// the files go.
struct kv_job {
    std::uint64_t id = 0;
    kv_job_kind kind{};
    std::string tokens;             ///< packed, from position 0
    std::uint32_t first_block = 0;  ///< save
    std::vector<kv_part> parts;
};
struct kv_job_result {
    std::uint64_t epoch = 0, id = 0;
    std::uint32_t good_parts = 0;  ///< so many from the first on are done
    std::uint64_t bytes = 0, us = 0;
    std::string reason;  ///< of the part after them: unreadable, truncated, checksum, malformed, foreign, io
};
/// An image that lies on the disk.
struct kv_image_info {
    std::string file;
    std::uint64_t bytes = 0;
    std::uint32_t first_block = 0;
    std::vector<std::uint64_t> keys;    ///< model::prefix_key of each block
    std::vector<std::uint32_t> groups;  ///< of each block: bits of the layer groups
};

struct plan {
    std::uint64_t epoch = 0, id = 0;
    std::vector<sequence_open> opens;
    std::vector<sequence_id> closes;  ///< forgotten before the rows run
    std::vector<kv_op> ops;
    std::vector<plan_row> rows;
    std::vector<kv_job> jobs;  ///< begun after the operations
};

enum class row_status : std::uint8_t {
    ok,
    void_row,           ///< not computed: the sequence had ended, was cancelled or is unknown
    not_finite,         ///< logits not finite: nothing from pos on may be used
    constraint_failed,  ///< no token of the vocabulary goes on in the sequence's grammar, or it is too ambiguous
};
struct logprob_entry {
    token_id id = 0;
    float logprob = 0;
};
/// Log-probability of a prompt token and of the likeliest ones in its place.
struct token_score {
    float logprob = 0;
    std::vector<logprob_entry> top;
};
struct row_result {
    sequence_id seq = 0;
    std::int32_t pos = 0, n = 0;
    row_status status = row_status::ok;
    bool sampled = false;
    token_id token = 0;
    float logprob = 0;
    std::vector<logprob_entry> top;
    bool ended = false;         ///< an end token (not part of the text) or max_tokens was reached with this token
    bool complete = false;      ///< the text is complete under its grammar and nothing can follow; ended, too
    float mu = 0;               ///< mirostat's, after this token
    std::string prompt_scores;  ///< packed token_score: of the prompt tokens this row predicts
    std::string embedding;      ///< packed floats: with the last row of an embedded sequence
};
struct plan_result {
    std::uint64_t epoch = 0, plan = 0;
    std::vector<row_result> rows;
    std::uint64_t step_us = 0;
    std::vector<std::uint8_t> ops_ok;  ///< one for each kv_op: 0 = commit failed (memory short)
};

/// What a ready executor tells about itself.
struct executor_info {
    std::uint64_t epoch = 0;
    std::int32_t pid = 0;
    std::string kernels, numerics_id, model_hash, device;
    std::int32_t n_ctx = 0, n_vocab = 0, max_rows = 0, n_threads = 0;
    std::int32_t kv_type = 0, n_embd = 0;
    std::uint64_t segment_bytes = 0, max_segments = 0;  ///< of the KV range it reserved
    std::vector<std::int32_t> group_window, group_layers, group_latent;
    std::vector<std::uint64_t> group_block_bytes;
    std::uint64_t weight_bytes = 0;
    std::uint64_t kv_disk = 0;          ///< bytes of KV images that may be kept; 0: no disk tier
    std::vector<kv_image_info> images;  ///< used longest ago first
    std::uint64_t images_refused = 0;   ///< while they were looked through
};
model::kv_layout layout_of(const executor_info& info);

struct executor_status {
    std::uint64_t epoch = 0;
    std::uint64_t progress = 0;      ///< layers done since start: moves while a step runs
    std::uint64_t plan_started = 0;  ///< id of the plan the worker began last
    std::uint64_t plans_done = 0;
    bool busy = false;
    double load_progress = 1;
};

/// Arms a fault inside the executor (POST /admin/faults).
struct executor_fault {
    std::string kind;
    std::int64_t after_steps = 0, times = 1, slow_ms = 0;
    bool only_watched = false;  ///< fires only on plans with a row of a sequence opened with watch_text
};

// Bulk travels as bytes in the machine's order.
std::string pack_ids(const std::vector<token_id>& ids);
std::vector<token_id> unpack_ids(const std::string& bytes);
void append_score(std::string& bytes, const token_score& s);
/// CHECKs the format: both ends are this program.
std::vector<token_score> unpack_scores(const std::string& bytes);
std::string pack_floats(const std::vector<float>& values);
std::vector<float> unpack_floats(const std::string& bytes);

}  // namespace troupe::actors
