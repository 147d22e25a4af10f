// Random batches: whatever is computed together, in whatever pieces, on shared or recomputed prefixes and with however
// many threads, every sequence gets the bits it gets alone. TROUPE_BATCHES says how many (scripts/invariance runs
// 10,000); a failure names its number, which is its seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/support/figures.hpp"
#include "tests/support/paged_runner.hpp"
#include "tests/support/test_models.hpp"

namespace troupe::testing {
namespace {

using model::token_id;

constexpr std::int32_t max_rows = 64;
constexpr int block = model::block_tokens;

struct conversation {
    std::vector<token_id> tokens;
    std::vector<float> alone;  ///< logits at every position
    int shares_with = -1;      ///< the conversation that begins with the same `shared` tokens
    int shared = 0;
    paged_sequence at;
    std::size_t done() const { return static_cast<std::size_t>(at.pos); }
};

class batch {
 public:
    batch(model::model& one_thread, model::model& threads, std::uint32_t seed)
        : random_(seed), width_(static_cast<std::size_t>(threads.info().n_vocab)), forgets_(pick(0, 2) == 0),
          runner_(threads, seed | 1, forgets_) {
        const int n = pick(1, 7);
        for (int i = 0; i < n; ++i) conversations_.push_back(draw(i, threads.info().n_vocab));
        for (auto& c : conversations_) {
            paged_runner alone(one_thread);
            paged_sequence seq;
            c.alone = alone.feed_all(seq, c.tokens, static_cast<std::size_t>(max_rows));
        }
    }

    /// False at the first bit that differs.
    bool run() {
        while (true) {
            std::vector<paged_runner::feed> feeds;
            std::vector<conversation*> fed;
            int rows = max_rows;
            for (auto& c : conversations_) {
                if (pick(0, 15) == 0) c.at = {};  // lost, as by an executor's death: computed again
                if (c.done() == 0) adopt(c);
                const int left = static_cast<int>(c.tokens.size() - c.done());
                if (left == 0 || rows == 0 || pick(0, 2) == 0) continue;
                const int n = std::min({left, rows, pick(0, 1) == 0 ? 1 : pick(1, 40)});
                rows -= n;
                feeds.push_back({&c.at, std::span(c.tokens).subspan(c.done(), static_cast<std::size_t>(n)), want::all});
                fed.push_back(&c);
            }
            if (feeds.empty()) {
                if (std::all_of(conversations_.begin(), conversations_.end(),
                        [](const conversation& c) { return c.done() == c.tokens.size(); }))
                    return true;
                continue;
            }
            if (!compare_step(feeds, fed)) return false;
        }
    }

 private:
    int pick(int lowest, int highest) { return std::uniform_int_distribution<int>(lowest, highest)(random_); }

    conversation draw(int i, std::int32_t n_vocab) {
        conversation c;
        c.tokens.resize(static_cast<std::size_t>(pick(1, 48)));
        for (auto& t : c.tokens) t = pick(0, n_vocab - 1);
        if (i == 0 || forgets_ || pick(0, 1) == 0) return c;
        c.shares_with = pick(0, i - 1);
        const auto& other = conversations_[static_cast<std::size_t>(c.shares_with)].tokens;
        c.shared = std::min(static_cast<int>(other.size()), static_cast<int>(c.tokens.size()) - 1) / block * block;
        std::copy_n(other.begin(), c.shared, c.tokens.begin());
        return c;
    }

    /// Begins on blocks of another conversation, as with a prefix that is cached.
    void adopt(conversation& c) {
        if (c.shared == 0) return;
        const auto& other = conversations_[static_cast<std::size_t>(c.shares_with)].at;
        if (other.pos < c.shared) return;
        for (const auto& table : other.tables)
            c.at.tables.emplace_back(table.begin(), table.begin() + c.shared / block);
        c.at.pos = c.shared;
    }

    bool compare_step(const std::vector<paged_runner::feed>& feeds, const std::vector<conversation*>& fed) {
        std::vector<std::size_t> from;
        for (const auto* c : fed) from.push_back(c->done());
        const auto logits = runner_.step(feeds);
        const float* at = logits.data();
        for (std::size_t i = 0; i < fed.size(); ++i) {
            const std::size_t n = feeds[i].tokens.size() * width_;
            if (std::memcmp(at, fed[i]->alone.data() + from[i] * width_, n * sizeof(float)) != 0) return false;
            at += n;
        }
        return true;
    }

    std::mt19937 random_;
    std::size_t width_;
    bool forgets_;  ///< blocks behind a window are handed out again
    paged_runner runner_;
    std::vector<conversation> conversations_;
};

class random_batches : public ::testing::TestWithParam<const char*> {};

TEST_P(random_batches, give_every_sequence_its_own_bits) {
    const char* wanted = std::getenv("TROUPE_BATCHES");
    const int n = wanted != nullptr ? std::atoi(wanted) : 100;
    ASSERT_GT(n, 0);
    const std::string path = cache_path("tiny/" + std::string(GetParam()) + ".gguf");
    const kernels::dtype kv_types[] = {
        kernels::dtype::f16, kernels::dtype::bf16, kernels::dtype::f32, kernels::dtype::q8_0};
    for (const kernels::ops* ops : kernels::available_tables()) {
        const int batches = ops->name == "ref" ? std::max(1, n / 25) : n;  // scalar and slow, and plain to see
        for (int k = 0; k < 4; ++k) {
            const loaded one = load_model(path, *ops, kv_types[k], max_rows, 1),
                         threads = load_model(path, *ops, kv_types[k], max_rows, 3);
            ASSERT_TRUE(one.m && threads.m);
            for (int seed = k; seed < batches; seed += 4)
                ASSERT_TRUE(batch(*one.m, *threads.m, static_cast<std::uint32_t>(seed)).run())
                    << "batch " << seed << " of " << GetParam() << " on " << ops->name << ", KV "
                    << kernels::info(kv_types[k]).name;
        }
        record_figure("Invariance", std::string(GetParam()) + ", " + std::string(ops->name),
            fmt::format("{} random batches, no bit different", batches),
            "alone = batched = chunked = cached = resumed");
    }
}

INSTANTIATE_TEST_SUITE_P(tiny, random_batches,
    ::testing::Values("llama", "gemma2", "gemma3", "mistral", "phi3", "qwen2", "qwen3", "smollm3", "deepseek2"),
    [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace troupe::testing
