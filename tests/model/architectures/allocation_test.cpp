// A step allocates nothing: all of its memory is reserved at load, on every table, for prefill and for decode.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/support/paged_runner.hpp"
#include "tests/support/test_models.hpp"

namespace {
std::atomic<long> allocations{0};
}

void* operator new(std::size_t size) {
    allocations.fetch_add(1, std::memory_order_relaxed);
    if (void* p = std::malloc(size)) return p;
    throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace troupe::testing {
namespace {

/// A batch of one prefill and three decoding sequences, built before counting begins.
class prepared_batch {
 public:
    explicit prepared_batch(model::model& m) {
        auto memory = model::kv_memory::reserve(m.layout(), static_cast<std::uint32_t>(m.layout().groups.size()));
        for (std::uint32_t s = 0; s < m.layout().groups.size(); ++s) EXPECT_TRUE((*memory)->commit(s).ok());
        kv = *std::move(memory);
        tokens.assign(20, 5);
        for (model::block_id i = 0; i < 4; ++i) {
            auto& mine = tables.emplace_back();
            for (std::size_t g = 0; g < m.layout().groups.size(); ++g) {
                const auto first = static_cast<model::block_id>(g * m.layout().groups[g].blocks_per_segment) + 2 * i;
                mine.push_back({first, first + 1});
            }
        }
        for (std::size_t i = 0; i < 4; ++i) {
            const auto piece = i == 0 ? std::span<const model::token_id>(tokens) : std::span(tokens).first(1);
            model::batch_seq seq{piece, 0, {}};
            for (const auto& t : tables[i]) seq.tables.emplace_back(t);
            batch.seqs.push_back(std::move(seq));
        }
        batch.logit_rows = {19, 20, 21, 22};
        logits.resize(4 * static_cast<std::size_t>(m.info().n_vocab));
    }
    std::unique_ptr<model::kv_memory> kv;
    std::vector<model::token_id> tokens;
    std::vector<std::vector<std::vector<model::block_id>>> tables;
    model::batch batch;
    std::vector<float> logits;
};

TEST(step_memory, a_step_allocates_nothing) {
    for (const char* name : {"tiny/llama.gguf", "tiny/gemma2.gguf", "tiny/gemma3.gguf", "tiny/phi3.gguf",
             "tiny/deepseek2.gguf", "tiny/deepseek2-mixed.gguf"})
        for (const kernels::ops* ops : kernels::available_tables()) {
            const loaded l = load_model(cache_path(name), *ops, kernels::dtype::f16);
            ASSERT_TRUE(l.m);
            prepared_batch p(*l.m);
            const long before = allocations.load();
            l.m->forward(p.batch, p.kv->base(), p.logits.data(), nullptr);
            EXPECT_EQ(allocations.load() - before, 0) << name << " on " << ops->name;
            EXPECT_TRUE(ops->all_finite(p.logits.data(), static_cast<std::int64_t>(p.logits.size())));
        }
}

}  // namespace
}  // namespace troupe::testing
