// The scheduler's decisions: who waits, who runs, what the next step holds, what a result means. Plain code: the time
// is passed in, plans and notices are taken out, nothing is sent from here. The actor beside it does the sending.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/generation.hpp"
#include "actors/kv_usage.hpp"
#include "actors/plan.hpp"
#include "actors/scheduler/cost_model.hpp"
#include "actors/scheduler/counters.hpp"
#include "actors/scheduler/entry.hpp"
#include "actors/scheduler/fair_share.hpp"
#include "actors/scheduler/kv_manager.hpp"
#include "actors/scheduler/transfer.hpp"
#include "actors/step_bounds.hpp"
#include "core/clock.hpp"
#include "core/config.hpp"
#include "core/result.hpp"

namespace troupe::actors {

struct policy_settings {
    int max_seqs = 16, run_ahead = 2;
    std::int64_t step_budget_ms = 50, queue_limit = 64, queue_timeout_s = 300;
    std::uint64_t kv_memory = 0;  ///< bytes; 0: what the executor reserved
};
policy_settings settings_from(const config& c);

/// For the owner of a generation.
using notice = std::variant<generation_position, prompt_progress, generation_tokens, generation_stalled,
    generation_moving, generation_finished>;
generation_id about(const notice& n);

class scheduler_policy {
 public:
    explicit scheduler_policy(policy_settings settings);

    // -- what happens
    /// queue_full (with retry_after_ms), out_of_memory and context_length_exceeded (can never fit), conflict (id in
    /// use), shutting_down.
    result<void> submit(generation_request r, steady_time now);
    void cancel(generation_id id, steady_time now);
    /// The text ended (stop string) after n_accepted tokens.
    void stop_at(generation_id id, std::int64_t n_accepted, steady_time now);
    void executor_up(const executor_info& info, steady_time now);
    /// reason starting with "killed" or "operator" came from outside: nobody is suspected. "unloaded" is no death:
    /// the supervisor has put the executor to sleep.
    void executor_down(std::uint64_t epoch, const std::string& reason, std::uint64_t plan_started, steady_time now);
    void done(const plan_result& r, steady_time now);
    void job_done(const kv_job_result& r, steady_time now);
    /// Queue timeouts and positions; call it at `wakeup`.
    void tick(steady_time now);
    void drain() { draining_ = true; }
    /// From the next plan on; those that run already go on.
    void bound_steps(const step_bounds& b) { bounds_ = b; }
    /// Ends everything that waits or runs with this error.
    void end_all(const error& e, steady_time now);
    /// Cached blocks go (those of stored sessions when they are on the disk), blocks move and segments return with the
    /// next plans.
    void give_back(const memory_order& order, steady_time now);
    /// While memory is short new requests get out_of_memory; those that were taken go on.
    void pressed(const memory_pressure& p) { pressure_ = p; }
    bool giving_back() const { return kv_ && (kv_->packing() || giving_); }

    // -- what to do
    /// The next step, if there is one to send now. Ask until there is none.
    std::optional<plan> next_plan(steady_time now);
    std::vector<notice> take_notices() { return std::exchange(notices_, {}); }
    /// Sequences to cancel past the plan queue.
    std::vector<sequence_id> take_cancels() { return std::exchange(cancels_, {}); }
    /// When to call tick and next_plan again though nothing happened; nothing when idle or when a result will come.
    std::optional<steady_time> wakeup(steady_time now) const;

    // -- how it stands
    bool idle() const { return entries_.empty() && in_flight_.empty(); }
    bool up() const { return info_.has_value(); }
    std::int64_t n_waiting() const;
    std::int64_t n_running() const { return static_cast<std::int64_t>(running_.size()); }
    std::size_t n_in_flight() const { return in_flight_.size(); }
    const scheduler_counters& counters() const { return counters_; }
    scheduler_observations take_observations() { return std::exchange(observed_, {}); }
    const disk_index& disk() const { return disk_; }
    const kv_manager* kv() const { return kv_ ? &*kv_ : nullptr; }
    kv_usage usage() const;
    const std::optional<executor_info>& info() const { return info_; }
    const cost_model& costs() const { return costs_; }
    const std::map<generation_id, std::unique_ptr<entry>>& entries() const { return entries_; }
    /// Waiting requests in the order in which they would start, as things are.
    std::vector<const entry*> queue_order(steady_time now) const;
    std::optional<std::int64_t> eta_ms(std::int64_t position) const;
    std::int64_t sequence_limit() const {
        return sequence_limit_;
    }  ///< min(model context, what memory allows); 0: no executor
    /// CHECKs every invariant (design section 6): accounts, references, states.
    void check() const;

 private:
    struct sent_row {
        generation_id id = 0;
        sequence_id seq = 0;
        std::int32_t pos = 0, n = 0;
        bool sample = false, prompt = false;
    };
    struct sent_plan {
        std::uint64_t id = 0;
        std::vector<sent_row> rows;
        std::vector<kv_op> ops;
    };

    // policy.cpp
    entry* find(generation_id id);
    std::optional<error> refuse(const generation_request& r) const;
    void tell_positions(steady_time now);
    void time_out(steady_time now);
    void stall(entry& e, const char* reason, steady_time now);
    bool waits_as_batch(const entry& e, steady_time now) const;

    // policy_plan.cpp
    std::size_t depth() const;
    std::int64_t max_seqs() const;
    std::int64_t max_rows() const;
    void admit_trial(steady_time now);
    std::int64_t n_active() const;
    bool may_run(const entry& e) const;
    void admit(steady_time now);
    bool start(entry& e, steady_time now);
    bool room_for(const entry& e) const;
    block_need outstanding() const;
    void commit_ahead();
    bool behind_twin(const entry& e) const;
    void add_decode_rows(plan& p, sent_plan& sent, steady_time now);
    void add_prompt_rows(plan& p, sent_plan& sent, steady_time now);
    void add_row(plan& p, sent_plan& sent, entry& e, std::int64_t n, bool sample);
    bool blocks_for(entry& e, std::int64_t end, steady_time now);
    void make_room(entry& e, steady_time now);
    double prompt_budget_ms(bool somebody_decodes) const;
    void retry_later(steady_time now);
    void evict(entry& e, const char* reason, steady_time now);
    entry* suspect() const;
    std::vector<entry*> admission_order(steady_time now) const;
    void charge(const entry& e, std::int64_t tokens) {
        shares_.charge(e.request.client_key, e.request.session, tokens);
    }

    // policy_memory.cpp
    std::vector<sequence_kv*> block_holders();
    void take_tables(plan& p, const sent_plan& sent);

    // policy_tiers.cpp
    bool wants_save(const prefix_cache::node& n) const;
    std::size_t n_transfers(bool loads) const;
    void advance_giving(steady_time now);
    bool start_save(prefix_cache::node& leaf, steady_time now);
    void drop_images(std::vector<std::string> files);
    std::chrono::milliseconds patience() const;
    double load_ms(std::uint64_t bytes) const;
    bool awaits_load(entry& e, steady_time now);
    bool find_blocks(transfer& t, prefix_cache::match at_hand = {});
    void give_up(transfer& t);
    void serve_loads(steady_time now);
    std::optional<steady_time> load_deadline(const entry& e) const;
    void saved(transfer& t, const kv_job_result& r);
    void loaded(transfer& t, const kv_job_result& r);
    void forget_transfers();

    // policy_results.cpp
    void row_done(const sent_row& sent, const row_result* r, steady_time now);
    void row_ok(entry& e, const sent_row& sent, const row_result& r, steady_time now);
    void token_done(entry& e, const row_result& r, steady_time now);
    void observe(const sent_plan& p, const plan_result& r);
    void settle(entry& e, steady_time now);
    void requeue(entry& e, steady_time now);
    void publish(entry& e);
    void finish_entry(entry& e, finish why, error err, steady_time now);
    void fail(entry& e, errc code, std::string message, steady_time now);
    void forget(entry& e);
    void enqueue(entry& e);

    // policy_faults.cpp
    void suspect_started(std::uint64_t plan_started);
    void interrupt(entry& e, steady_time now);
    bool poisoned(const entry& e) const;

    policy_settings settings_;
    step_bounds bounds_;
    std::optional<executor_info> info_;
    std::optional<kv_manager> kv_;
    std::map<generation_id, std::unique_ptr<entry>> entries_;
    std::vector<entry*> waiting_, running_;  ///< by arrival; running_ holds prefill, decode, ending and evicting
    std::deque<sent_plan> in_flight_;
    std::vector<sequence_id> closes_, cancels_;
    std::vector<notice> notices_;
    disk_index disk_;
    std::map<std::uint64_t, std::unique_ptr<transfer>> transfers_;  ///< by job
    std::vector<kv_job> jobs_;                                      ///< for the next plan
    memory_pressure pressure_;
    std::optional<memory_order> giving_;  ///< not done yet
    double load_ms_a_mib_ = 0;            ///< moving; 0: not known yet
    std::uint64_t next_job_ = 1;
    fair_share shares_;
    prompt_share prompt_share_;
    int mixed_plans_ = 0;
    cost_model costs_;
    scheduler_counters counters_;
    scheduler_observations observed_;
    std::uint64_t next_plan_ = 1, next_seq_ = 1, next_arrival_ = 1;
    std::uint64_t epoch_ = 0;  ///< of the executor that is up, or of the last one
    double run_ms_ = 0;        ///< moving time from start to end of a request
    std::optional<steady_time> next_positions_, retry_at_;
    entry* trial_ = nullptr;  ///< while a plan is made: the suspect that runs alone
    std::int64_t sequence_limit_ = 0;
    bool draining_ = false;
};

/// The state as JSON object: queue, running sequences, KV pools, counters.
std::string state_json(const scheduler_policy& policy, steady_time now);

}  // namespace troupe::actors
