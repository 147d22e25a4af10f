// A backend whose "model" is a hash: the logits at a position depend on every token before it, read back through the
// block tables. A wrong table, a lost copy or a block that was not written changes every later token.
#pragma once

#include <chrono>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "actors/executor/backend.hpp"
#include "core/check.hpp"

namespace troupe::test {

struct fake_options {
    std::int32_t n_vocab = 61, n_ctx = 512, max_rows = 32, n_layers = 3;
    std::uint32_t blocks_per_segment = 4, max_segments = 64;
    std::vector<std::int32_t> windows{0};  ///< one a layer group; the first must be 0
    std::chrono::microseconds layer_time{0};
    std::vector<std::string> pieces;  ///< bytes of each token, for grammars; empty: no vocabulary
    actors::kv_disk disk;
    std::function<void(std::int64_t pass)> on_pass;  ///< before each forward pass, counted from the warm-up's 0
};

class fake_backend final : public actors::backend {
 public:
    explicit fake_backend(fake_options o) : options_(std::move(o)) {
        constexpr std::uint64_t block_bytes = model::block_tokens * sizeof(std::int32_t);
        info_ = {.kernels = "fake",
            .numerics_id = "fake/1",
            .model_hash = "0",
            .device = "none",
            .n_ctx = options_.n_ctx,
            .n_vocab = options_.n_vocab,
            .max_rows = options_.max_rows,
            .n_threads = 1,
            .n_embd = 4,
            .segment_bytes = options_.blocks_per_segment * block_bytes,
            .max_segments = options_.max_segments};
        for (const std::int32_t w : options_.windows) {
            info_.group_window.push_back(w);
            info_.group_layers.push_back(options_.n_layers);
            info_.group_block_bytes.push_back(block_bytes);
            info_.group_latent.push_back(0);
        }
        layout_ = actors::layout_of(info_);
    }

    const actors::executor_info& info() const override { return info_; }
    const model::kv_layout& layout() const override { return layout_; }

    result<void> commit(std::uint32_t segment) override {
        CHECK(segment < options_.max_segments && !memory_.contains(segment));
        // Poisoned: what was never zeroed must not be read.
        memory_[segment].assign(options_.blocks_per_segment * model::block_tokens, -1);
        return {};
    }
    void release(std::uint32_t segment) override { CHECK(memory_.erase(segment) == 1); }
    void copy_block(std::size_t group, model::block_id from, model::block_id to) override {
        std::memcpy(block(group, to), block(group, from), model::block_tokens * sizeof(std::int32_t));
    }
    void zero_block(std::size_t group, model::block_id b) override {
        std::memset(block(group, b), 0, model::block_tokens * sizeof(std::int32_t));
    }

    void read_block(std::size_t group, model::block_id b, std::span<std::byte> to) override {
        std::memcpy(to.data(), block(group, b), to.size());
    }
    void write_block(std::size_t group, model::block_id b, std::span<const std::byte> from) override {
        std::memcpy(block(group, b), from.data(), from.size());
    }
    actors::kv_disk disk() const override { return options_.disk; }

    std::shared_ptr<const model::token_trie> vocabulary() const override {
        if (options_.pieces.empty()) return nullptr;
        return std::make_shared<const model::token_trie>(
            std::vector<std::string_view>(options_.pieces.begin(), options_.pieces.end()));
    }
    void begin_step() override {}
    void end_step() override {}
    void forward(const model::batch& b, float* logits, std::atomic<std::uint64_t>* progress) override {
        if (options_.on_pass) options_.on_pass(passes_);
        ++passes_;
        std::int32_t row = 0;
        std::size_t wanted = 0, hidden = 0;
        for (const auto& seq : b.seqs)
            for (std::size_t i = 0; i < seq.tokens.size(); ++i, ++row) {
                const auto pos = seq.pos + static_cast<std::int32_t>(i);
                for (std::size_t g = 0; g < seq.tables.size(); ++g) slot(g, seq.tables[g], pos) = seq.tokens[i];
                if (hidden < b.hidden_rows.size() && b.hidden_rows[hidden] == row)
                    write_hidden(seq, pos, b.hidden + hidden++ * static_cast<std::size_t>(info_.n_embd));
                if (wanted == b.logit_rows.size() || b.logit_rows[wanted] != row) continue;
                write_logits(seq, pos, logits + wanted++ * static_cast<std::size_t>(options_.n_vocab));
            }
        CHECK(row >= 1 && row <= options_.max_rows && wanted == b.logit_rows.size() && hidden == b.hidden_rows.size());
        rows_ += row;
        for (int layer = 0; layer < options_.n_layers; ++layer) {
            if (options_.layer_time.count() > 0) std::this_thread::sleep_for(options_.layer_time);
            progress->fetch_add(1);
        }
    }
    bool all_finite(const float* x, std::int64_t n) const override {
        for (std::int64_t i = 0; i < n; ++i)
            if (!(x[i] - x[i] == 0)) return false;
        return true;
    }
    void parallel(std::int64_t n, const std::function<void(std::int64_t, int)>& task) override {
        for (std::int64_t i = 0; i < n; ++i) task(i, 0);
    }

    std::int64_t passes() const { return passes_; }
    std::int64_t rows() const { return rows_; }
    std::size_t segments() const { return memory_.size(); }

 private:
    std::int32_t* block(std::size_t group, model::block_id b) {
        const auto it = memory_.find(static_cast<std::uint32_t>(layout_.segment_of(group, b)));
        CHECK(it != memory_.end(), "a block of a segment that is not committed");
        return it->second.data() + (b % options_.blocks_per_segment) * model::block_tokens;
    }
    std::int32_t& slot(std::size_t group, std::span<const model::block_id> table, std::int32_t pos) {
        return block(group, table[static_cast<std::size_t>(pos / model::block_tokens)])[pos % model::block_tokens];
    }
    std::uint64_t history_hash(const model::batch_seq& seq, std::int32_t pos) {
        std::uint64_t h = 0x9E3779B97F4A7C15u;
        for (std::int32_t p = 0; p <= pos; ++p)
            for (std::size_t g = 0; g < seq.tables.size(); ++g) {
                const auto w = options_.windows[g];
                if (w != 0 && p <= pos - w) continue;
                h = mix(h ^ static_cast<std::uint64_t>(slot(g, seq.tables[g], p) + 1));
            }
        return h;
    }
    void fill(std::uint64_t h, std::int32_t n, float* out) {
        for (std::int32_t v = 0; v < n; ++v)
            out[v] = static_cast<float>(mix(h + static_cast<std::uint64_t>(v)) >> 40) / static_cast<float>(1 << 24) * 6;
    }
    void write_logits(const model::batch_seq& seq, std::int32_t pos, float* out) {
        fill(history_hash(seq, pos), options_.n_vocab, out);
    }
    void write_hidden(const model::batch_seq& seq, std::int32_t pos, float* out) {
        fill(~history_hash(seq, pos), info_.n_embd, out);
    }
    static std::uint64_t mix(std::uint64_t x) {  // the finalizer of SplitMix64
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
        x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
        return x ^ (x >> 31);
    }

    fake_options options_;
    actors::executor_info info_;
    model::kv_layout layout_;
    std::map<std::uint32_t, std::vector<std::int32_t>> memory_;
    std::int64_t passes_ = 0, rows_ = 0;
};

inline actors::backend_loader load_fake(fake_options o) {
    return [o](const std::function<void(double)>& progress) -> result<std::unique_ptr<actors::backend>> {
        progress(0.5);
        return std::unique_ptr<actors::backend>(std::make_unique<fake_backend>(o));
    };
}

}  // namespace troupe::test
