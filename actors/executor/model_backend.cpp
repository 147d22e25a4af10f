#include "actors/executor/model_backend.hpp"

#include <algorithm>
#include <mutex>
#include <thread>

#include "core/check.hpp"
#include "core/log.hpp"
#include "kernels/ops.hpp"
#include "kernels/pool.hpp"
#include "model/formats/model_file.hpp"
#include "model/host_memory.hpp"
#include "model/kv_memory.hpp"

namespace troupe::actors {
namespace {

constexpr int kv_layout_version = 1;  ///< raised when the bytes of a KV block change their meaning

/// Memory left alone when a KV segment is taken, so that the rest of the machine lives.
constexpr std::uint64_t host_reserve = 64u << 20;

/// Segments that one sequence of n tokens needs.
std::uint64_t segments_for(const model::kv_layout& layout, std::int64_t n_tokens, std::int64_t max_rows) {
    constexpr std::int64_t block = model::block_tokens;
    std::uint64_t segments = 0;
    for (const auto& g : layout.groups) {
        // A window's blocks live until the chunk that leaves them behind is through.
        const std::int64_t live =
            g.window == 0 ? n_tokens : std::min<std::int64_t>(n_tokens, g.window + max_rows + block);
        const auto blocks = static_cast<std::uint64_t>((live + block - 1) / block);
        segments += (blocks + g.blocks_per_segment - 1) / g.blocks_per_segment;
    }
    return segments;
}

/// The longest sequence (a multiple of a block, or n_ctx) that fits into the segments; 0: none.
std::int64_t longest_sequence(
    const model::kv_layout& layout, std::uint64_t segments, std::int64_t n_ctx, std::int64_t max_rows) {
    if (segments_for(layout, n_ctx, max_rows) <= segments) return n_ctx;
    std::int64_t low = 0,
                 high = n_ctx / model::block_tokens;  // in blocks: low fits, high does not (or is n_ctx rounded)
    while (low < high) {
        const std::int64_t middle = (low + high + 1) / 2;
        if (segments_for(layout, middle * model::block_tokens, max_rows) <= segments)
            low = middle;
        else
            high = middle - 1;
    }
    return low * model::block_tokens;
}

class model_backend final : public backend {
 public:
    static result<std::unique_ptr<backend>> load(
        const executor_arguments& a, const std::function<void(double)>& progress) {
        TROUPE_TRY(const kernels::ops* ops, kernels::table(a.kernels));
        const auto kv_type = kernels::dtype_from_name(a.kv_type);
        if (!kv_type) return fail(errc::usage, a.kv_type + " is no KV type", "kv-type");
        TROUPE_TRY(auto file, model::model_file::open(a.model));
        auto self = std::unique_ptr<model_backend>(new model_backend(*ops, a));
        TROUPE_TRY(self->model_, model::model::load(file, {.ops = ops,
                                                              .threads = &self->threads_,
                                                              .kv_type = *kv_type,
                                                              .max_rows = a.max_rows,
                                                              .n_ctx = a.ctx,
                                                              .progress = progress}));
        TROUPE_TRYV(self->reserve_kv(a));
        if (!a.kv_folder.empty()) self->disk_ = {a.kv_folder, a.kv_disk};
        self->file_ = std::move(file);
        self->fill_info(a);
        return std::unique_ptr<backend>(std::move(self));
    }

    const executor_info& info() const override { return info_; }
    const model::kv_layout& layout() const override { return model_->layout(); }

    result<void> commit(std::uint32_t segment) override { return kv_->commit(segment, host_reserve); }
    void release(std::uint32_t segment) override { kv_->release(segment); }
    void copy_block(std::size_t group, model::block_id from, model::block_id to) override {
        kv_->copy_block(group, from, to);
    }
    void zero_block(std::size_t group, model::block_id b) override { kv_->zero_block(group, b); }

    void read_block(std::size_t group, model::block_id b, std::span<std::byte> to) override {
        std::ranges::copy(kv_->bytes(group, b), to.begin());
    }
    void write_block(std::size_t group, model::block_id b, std::span<const std::byte> from) override {
        std::ranges::copy(from, kv_->bytes(group, b).begin());
    }
    kv_disk disk() const override { return disk_; }

    void begin_step() override { threads_.begin_step(); }
    void end_step() override { threads_.end_step(); }
    void forward(const model::batch& b, float* logits, std::atomic<std::uint64_t>* progress) override {
        model_->forward(b, kv_->base(), logits, progress);
    }
    bool all_finite(const float* x, std::int64_t n) const override { return ops_.all_finite(x, n); }
    std::shared_ptr<const model::token_trie> vocabulary() const override {
        const std::lock_guard lock(vocabulary_mutex_);
        if (vocabulary_) return vocabulary_;
        const auto words = model::tokenizer::load(*file_);
        if (words)
            vocabulary_ = model::token_trie::of(**words);
        else
            log::error("vocabulary_not_read reason=\"{}\"", words.error().message);
        return vocabulary_;
    }
    void parallel(std::int64_t n, const std::function<void(std::int64_t, int)>& task) override {
        if (n == 1) return task(0, 0);
        threads_.run(n, [&](std::int64_t i, int thread) { task(i, thread); });
    }

 private:
    static int thread_count(const executor_arguments& a) {
        return a.threads > 0 ? a.threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    }
    model_backend(const kernels::ops& ops, const executor_arguments& a) : ops_(ops), threads_(thread_count(a)) {}

    result<void> reserve_kv(const executor_arguments& a) {
        const auto& layout = model_->layout();
        const std::uint64_t bytes = a.kv_memory != 0 ? a.kv_memory : model::available_memory() / 4;
        const std::uint64_t segments = std::min<std::uint64_t>(bytes / layout.segment_bytes, UINT32_MAX / 2);
        n_ctx_ = longest_sequence(layout, segments, model_->n_ctx(), a.max_rows);
        if (n_ctx_ == 0)
            return fail(errc::out_of_memory,
                fmt::format("{} MiB of KV memory are too few: this model needs at least {} MiB", bytes >> 20,
                    segments_for(layout, model::block_tokens, a.max_rows) * layout.segment_bytes >> 20),
                "kv-memory");
        if (n_ctx_ < model_->n_ctx())
            log::warn("context_cut n_ctx={} of={} reason=kv_memory kv_mib={}", n_ctx_, model_->n_ctx(), bytes >> 20);
        TROUPE_TRY(kv_, model::kv_memory::reserve(layout, static_cast<std::uint32_t>(segments)));
        return {};
    }

    void fill_info(const executor_arguments& a) {
        const auto& m = model_->info();
        const auto& layout = model_->layout();
        info_ = {.kernels = std::string(ops_.name),
            .numerics_id = numerics_id(ops_.name, layout, m.numerics),
            .model_hash = m.model_hash,
            .device = "cpu",
            .n_ctx = static_cast<std::int32_t>(n_ctx_),
            .n_vocab = m.n_vocab,
            .max_rows = a.max_rows,
            .n_threads = threads_.size(),
            .kv_type = static_cast<std::int32_t>(layout.type),
            .n_embd = m.n_embd,
            .segment_bytes = layout.segment_bytes,
            .max_segments = kv_->n_segments(),
            .weight_bytes = static_cast<std::uint64_t>(m.weight_bytes)};
        for (const auto& g : layout.groups) {
            info_.group_window.push_back(g.window);
            info_.group_layers.push_back(g.n_layers);
            info_.group_block_bytes.push_back(g.block_bytes);
            info_.group_latent.push_back(g.latent);
        }
        // The scheduler computes the layout from these numbers; both must name the same bytes.
        CHECK(layout_of(info_) == layout);
    }

    const kernels::ops& ops_;
    kernels::pool threads_;
    std::unique_ptr<model::model> model_;
    std::unique_ptr<model::kv_memory> kv_;
    std::shared_ptr<const model::model_file> file_;
    mutable std::mutex vocabulary_mutex_;
    mutable std::shared_ptr<const model::token_trie> vocabulary_;  ///< read when a grammar first asks for it
    std::int64_t n_ctx_ = 0;
    kv_disk disk_;
    executor_info info_;
};

}  // namespace

std::string numerics_id(std::string_view table, const model::kv_layout& layout, std::string_view model_numerics) {
    std::string kinds;
    for (const auto& g : layout.groups)
        if (g.latent > 0) kinds += fmt::format("-latent{}", g.latent);
    return fmt::format("{}/kv{}-{}{}{}{}/{}", table, kv_layout_version, kernels::info(layout.type).name, kinds,
        model_numerics.empty() ? "" : "/", model_numerics, build_version);
}

backend_loader load_model(executor_arguments arguments) {
    return [a = std::move(arguments)](
               const std::function<void(double)>& progress) { return model_backend::load(a, progress); };
}

}  // namespace troupe::actors
