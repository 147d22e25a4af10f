// Writes plans for one or more sequences by hand: blocks one after the other, every position once.
#pragma once

#include <map>
#include <vector>

#include "actors/plan.hpp"
#include "model/kv_layout.hpp"

namespace troupe::test {

class plan_writer {
 public:
    /// One number a layer group.
    explicit plan_writer(std::vector<std::uint32_t> blocks_per_segment = {4}, std::uint64_t epoch = 1)
        : blocks_per_segment_(std::move(blocks_per_segment)), epoch_(epoch) {}

    actors::plan next() { return {.epoch = epoch_, .id = ++plans_}; }

    static void open(actors::plan& p, actors::sequence_id id, const std::vector<actors::token_id>& tokens,
        std::int64_t n_prompt, actors::sequence_params params = {}, bool watched = false) {
        p.opens.push_back({id, actors::pack_ids(tokens), n_prompt, std::move(params), watched});
    }

    /// A row with the blocks it is the first to need; commits segments as they are.
    void row(actors::plan& p, actors::sequence_id id, std::int32_t pos, std::int32_t n, bool sample) {
        actors::plan_row r{.seq = id, .pos = pos, .n = n, .sample = sample};
        auto& have = blocks_[id];
        const auto need = static_cast<std::uint32_t>((pos + n + model::block_tokens - 1) / model::block_tokens);
        for (std::uint32_t g = 0; g < blocks_per_segment_.size() && need > have; ++g) {
            actors::table_delta d{g, have, {}};
            while (d.first + d.blocks.size() < need) d.blocks.push_back(take(p, g));
            r.tables.push_back(std::move(d));
        }
        have = std::max(have, need);
        p.rows.push_back(std::move(r));
    }
    void forget(actors::sequence_id id) { blocks_.erase(id); }

 private:
    model::block_id take(actors::plan& p, std::uint32_t group) {
        auto& [next, end] = free_[group];
        if (next == end) {
            p.ops.push_back({actors::kv_op_kind::commit_segment, 0, 0, segments_});
            next = segments_++ * blocks_per_segment_[group];
            end = next + blocks_per_segment_[group];
        }
        return next++;
    }
    std::vector<std::uint32_t> blocks_per_segment_;
    std::uint32_t segments_ = 0;
    std::uint64_t epoch_, plans_ = 0;
    std::map<actors::sequence_id, std::uint32_t> blocks_;
    std::map<std::uint32_t, std::pair<model::block_id, model::block_id>> free_;
};

}  // namespace troupe::test
