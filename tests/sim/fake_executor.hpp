// An executor that computes nothing but remembers everything: each block slot keeps the token and position written into
// it, and each row checks that all it may look at is there. The next token is a hash of all tokens before it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "actors/plan.hpp"
#include "image_store.hpp"

namespace troupe::actors::sim {

inline constexpr token_id vocabulary = 1000;
inline constexpr token_id end_token = 7;
inline constexpr token_id killer_token = 998;  ///< a row that computes it kills the executor
inline constexpr token_id nan_token = 999;     ///< what has seen it is not finite

/// The model: the next token is a hash of all before it.
class text_so_far {
 public:
    void add(token_id t) { hash_ = (hash_ ^ static_cast<std::uint64_t>(t)) * 1099511628211ull; }
    token_id next() const;

 private:
    std::uint64_t hash_ = 1469598103934665603ull;
};
/// What a request must answer: the text, without the end token. ends = false: for requests without end tokens.
std::vector<token_id> answer_of(const std::vector<token_id>& prompt, std::int64_t max_tokens, bool ends = true);

class fake_executor {
 public:
    /// images: null if the info says that there is no disk tier.
    fake_executor(executor_info info, std::mt19937_64& random, double commit_failure, image_store* images = nullptr)
        : info_(std::move(info)), layout_(layout_of(info_)), random_(random), commit_failure_(commit_failure),
          images_(images) {
        for (const auto& g : layout_.groups) blocks_.emplace_back(info_.max_segments * g.blocks_per_segment);
    }

    const executor_info& info() const { return info_; }
    void receive(plan p) { queue_.push_back(std::move(p)); }
    void cancel(const std::vector<sequence_id>& ids) { cancelled_.insert(ids.begin(), ids.end()); }
    bool has_work() const { return !queue_.empty(); }
    std::uint64_t plan_started() const { return plan_started_; }
    const plan& next() const { return queue_.front(); }
    /// Runs the oldest plan. Nothing: it died of a row.
    std::optional<plan_result> step();
    std::size_t n_jobs() const { return jobs_.size(); }
    /// Finishes the oldest job.
    kv_job_result finish_job();
    /// The n-th commit from now on fails, counted from 1.
    void fail_commit_number(int n) { commit_to_fail_ = n; }
    std::size_t committed_segments() const { return segments_.size(); }
    std::size_t open_sequences() const { return sequences_.size(); }

    std::vector<std::string> faults;  ///< what the scheduler did wrong; empty is good
    bool memory_short = false;        ///< no commit succeeds
    double void_rows = 0;             ///< chance that a row of a living sequence is left out

 private:
    struct sequence {
        std::vector<token_id> tokens;
        text_so_far text;
        std::int64_t n_prompt = 0;
        sequence_params params;
        std::vector<std::vector<model::block_id>> tables;
        bool ended = false;
    };

    bool save(const kv_job& job, const kv_part& part, const std::vector<token_id>& tokens);
    bool load(const kv_part& part, const std::vector<token_id>& tokens);
    std::uint64_t bytes_of(const kv_part& part) const;
    void fault(const std::string& what);
    bool run_op(const kv_op& op);
    block* find(std::size_t group, model::block_id b);
    void write(const plan_row& row, sequence& s);
    bool look(const plan_row& row, const sequence& s);
    void sample(sequence& s, row_result& r);

    executor_info info_;
    model::kv_layout layout_;
    std::mt19937_64& random_;
    double commit_failure_;
    int commit_to_fail_ = 0;
    image_store* images_;
    std::deque<kv_job> jobs_;
    std::deque<plan> queue_;
    std::set<sequence_id> cancelled_;
    std::map<sequence_id, sequence> sequences_;
    std::map<std::uint64_t, std::uint32_t> segments_;  ///< committed -> group
    std::vector<std::vector<block>> blocks_;           ///< a group, by id; empty: never written
    std::uint64_t plan_started_ = 0, last_plan_ = 0;
};

}  // namespace troupe::actors::sim
