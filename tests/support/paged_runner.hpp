// Runs a model over paged KV memory the way an executor does, with block tables kept by the simplest possible
// allocator.
#pragma once

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "core/check.hpp"
#include "model/kv_memory.hpp"
#include "model/model.hpp"

namespace troupe::testing {

/// One conversation's blocks and how far it has come.
struct paged_sequence {
    std::vector<std::vector<model::block_id>> tables;  ///< a layer group
    std::int32_t pos = 0;
};

enum class want : std::uint8_t { none, last, all, rows };

class paged_runner {
 public:
    struct feed {
        paged_sequence* seq;
        std::span<const model::token_id> tokens;
        want logits = want::all;
        std::span<const std::int32_t> rows = {};  ///< with want::rows: which of the tokens, ascending
    };

    /// `scatter` != 0 hands blocks out in a shuffled order. `forget` drops table entries behind a window.
    explicit paged_runner(model::model& m, std::uint32_t scatter = 0, bool forget = false)
        : model_(m), forget_(forget), shuffle_(scatter), scatter_(scatter != 0), free_(m.layout().groups.size()) {
        auto memory = model::kv_memory::reserve(m.layout(), 256);
        CHECK(memory.ok());
        kv_ = *std::move(memory);
    }

    /// One step over all feeds; their logits, row by row, in order.
    std::vector<float> step(std::span<const feed> feeds) {
        model::batch b;
        std::int32_t row = 0;
        for (const feed& f : feeds) {
            const auto n = static_cast<std::int32_t>(f.tokens.size());
            grow(*f.seq, f.seq->pos + n);
            model::batch_seq s{f.tokens, f.seq->pos, {}};
            for (const auto& t : f.seq->tables) s.tables.emplace_back(t);
            b.seqs.push_back(std::move(s));
            for (const std::int32_t i : f.rows) b.logit_rows.push_back(row + i);
            for (std::int32_t i = 0; i < n; ++i)
                if (f.logits == want::all || (f.logits == want::last && i == n - 1)) b.logit_rows.push_back(row + i);
            row += n;
        }
        std::vector<float> logits(b.logit_rows.size() * static_cast<std::size_t>(model_.info().n_vocab));
        model_.forward(b, kv_->base(), logits.data(), &progress_);
        for (const feed& f : feeds) f.seq->pos += static_cast<std::int32_t>(f.tokens.size());
        return logits;
    }

    /// Feeds tokens in steps of at most `chunk`.
    std::vector<float> feed_all(
        paged_sequence& seq, std::span<const model::token_id> tokens, std::size_t chunk, want logits = want::all) {
        std::vector<float> all;
        for (std::size_t at = 0; at < tokens.size(); at += chunk) {
            const auto piece = tokens.subspan(at, std::min(chunk, tokens.size() - at));
            const bool final_piece = at + piece.size() == tokens.size();
            const feed f{&seq, piece, logits == want::last && !final_piece ? want::none : logits};
            const auto rows = step({&f, 1});
            all.insert(all.end(), rows.begin(), rows.end());
        }
        return all;
    }

    std::uint64_t progress() const { return progress_.load(); }

 private:
    void grow(paged_sequence& seq, std::int32_t end) {
        const auto n_blocks = static_cast<std::size_t>((end + model::block_tokens - 1) / model::block_tokens);
        seq.tables.resize(free_.size());
        for (std::size_t g = 0; g < free_.size(); ++g) {
            while (seq.tables[g].size() < n_blocks) seq.tables[g].push_back(take(g));
            const std::int32_t window = model_.layout().groups[g].window;
            if (!forget_ || window == 0) continue;
            const std::int32_t first_seen = std::max(0, seq.pos - window + 1);
            for (std::int32_t i = 0; (i + 1) * model::block_tokens <= first_seen; ++i)
                release(g, seq.tables[g][static_cast<std::size_t>(i)]);
        }
    }

    /// A block behind a window goes back and will be handed out again, full of old values that must not be seen.
    void release(std::size_t group, model::block_id& b) {
        if (b != model::no_block) free_[group].insert(free_[group].begin(), std::exchange(b, model::no_block));
    }

    model::block_id take(std::size_t group) {
        auto& list = free_[group];
        if (list.empty()) {
            CHECK(next_segment_ < kv_->n_segments() && kv_->commit(next_segment_).ok());
            const std::uint32_t count = model_.layout().groups[group].blocks_per_segment;
            list.resize(count);
            std::iota(list.rbegin(), list.rend(), next_segment_++ * count);
            if (scatter_) std::shuffle(list.begin(), list.end(), shuffle_);
        }
        const model::block_id b = list.back();
        list.pop_back();
        kv_->zero_block(group, b);
        return b;
    }

    model::model& model_;
    bool forget_;
    std::mt19937 shuffle_;
    bool scatter_;
    std::unique_ptr<model::kv_memory> kv_;
    std::vector<std::vector<model::block_id>> free_;
    std::uint32_t next_segment_ = 0;
    std::atomic<std::uint64_t> progress_{0};
};

}  // namespace troupe::testing
