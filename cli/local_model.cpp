#include "cli/local_model.hpp"

#include <algorithm>
#include <thread>

#include <fmt/format.h>

namespace troupe::cli {
namespace {
constexpr std::int32_t chunk_rows = 512;
}

result<std::unique_ptr<local_model>> local_model::load(const local_options& o) {
    auto m = std::unique_ptr<local_model>(new local_model);
    const auto kv_type = kernels::dtype_from_name(o.kv_type);
    if (!kv_type) return fail(errc::usage, fmt::format("'{}' is no key/value type", o.kv_type), "kv-type");
    TROUPE_TRY(m->ops_, kernels::table(o.kernels));
    TROUPE_TRY(m->file_, model::model_file::open(o.path));
    const auto cores = std::max(1u, std::thread::hardware_concurrency());
    m->threads_ =
        std::make_unique<kernels::pool>(o.threads > 0 ? static_cast<int>(o.threads) : static_cast<int>(cores));
    model::load_options load;
    load.ops = m->ops_;
    load.threads = m->threads_.get();
    load.kv_type = *kv_type;
    load.n_ctx = static_cast<std::int32_t>(o.ctx);
    load.max_rows = chunk_rows;
    TROUPE_TRY(m->model_, model::model::load(m->file_, load));
    m->n_ctx_ = m->model_->n_ctx();
    m->logits_.resize(static_cast<std::size_t>(m->model_->info().n_vocab));
    TROUPE_TRYV(m->reserve(std::min<std::int64_t>(o.positions > 0 ? o.positions : m->n_ctx_, m->n_ctx_)));
    return m;
}

result<void> local_model::reserve(std::int64_t positions) {
    n_ctx_ = static_cast<std::int32_t>(positions);
    const auto& layout = model_->layout();
    const auto n_blocks = (positions + model::block_tokens - 1) / model::block_tokens;
    std::uint64_t segments = 0;
    for (const auto& g : layout.groups) {
        // Each group's blocks come from segments of its own, one behind the other.
        std::vector<model::block_id> table;
        const auto first = segments * g.blocks_per_segment;
        for (std::int64_t b = 0; b < n_blocks; ++b)
            table.push_back(static_cast<model::block_id>(first + static_cast<std::uint64_t>(b)));
        segments += (static_cast<std::uint64_t>(n_blocks) + g.blocks_per_segment - 1) / g.blocks_per_segment;
        tables_.push_back(std::move(table));
    }
    TROUPE_TRY(memory_, model::kv_memory::reserve(layout, static_cast<std::uint32_t>(segments)));
    for (std::uint32_t s = 0; s < segments; ++s) TROUPE_TRYV(memory_->commit(s));
    return {};
}

void local_model::step(std::span<const model::token_id> tokens, std::int32_t pos, std::size_t n_logits, float* logits) {
    model::batch b;
    model::batch_seq s{tokens, pos, {}};
    const auto blocks = (static_cast<std::size_t>(pos) + tokens.size() + model::block_tokens - 1) / model::block_tokens;
    for (const auto& t : tables_) s.tables.emplace_back(std::span(t).first(blocks));
    b.seqs.push_back(std::move(s));
    for (auto i = tokens.size() - n_logits; i < tokens.size(); ++i)
        b.logit_rows.push_back(static_cast<std::int32_t>(i));
    model_->forward(b, memory_->base(), logits, nullptr);
}

void local_model::run(std::span<const model::token_id> tokens, std::int32_t pos) {
    threads_->begin_step();
    while (!tokens.empty()) {
        const auto n = std::min<std::size_t>(tokens.size(), chunk_rows);
        step(tokens.first(n), pos, n == tokens.size() ? 1 : 0, logits_.data());
        tokens = tokens.subspan(n);
        pos += static_cast<std::int32_t>(n);
    }
    threads_->end_step();
}

void local_model::run_rows(std::span<const model::token_id> tokens, std::size_t first,
    const std::function<void(std::size_t, std::span<const float>)>& use) {
    constexpr std::size_t rows_with_logits = 64;  // of a vocabulary of 262,144: 64 MiB
    const auto n_vocab = static_cast<std::size_t>(info().n_vocab);
    std::vector<float> logits(rows_with_logits * n_vocab);
    for (std::size_t at = 0; at < tokens.size();) {
        const bool wanted = at >= first;
        const auto n =
            std::min<std::size_t>(wanted ? rows_with_logits : chunk_rows, (wanted ? tokens.size() : first) - at);
        step(tokens.subspan(at, n), static_cast<std::int32_t>(at), wanted ? n : 0, logits.data());
        if (wanted) use(at, std::span(logits).first(n * n_vocab));
        at += n;
    }
}

}  // namespace troupe::cli
