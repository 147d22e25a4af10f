// What runs a batch, as the executor's worker sees it: op table + weights + KV memory. Tests have a small deterministic
// one.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>

#include "actors/plan.hpp"
#include "core/result.hpp"
#include "model/grammar/token_trie.hpp"
#include "model/kv_layout.hpp"
#include "model/model.hpp"

namespace troupe::actors {

/// Where KV images are kept; an empty folder: nowhere.
struct kv_disk {
    std::filesystem::path folder;
    std::uint64_t bytes = 0;  ///< most that may lie there, images of other models included
};

/// Called by the worker thread only.
class backend {
 public:
    virtual ~backend() = default;

    virtual const executor_info& info() const = 0;  ///< epoch and pid are the caller's to fill in
    virtual const model::kv_layout& layout() const = 0;

    // -- KV memory ----------------------------------------------------------------------------------------------------
    virtual result<void> commit(std::uint32_t segment) = 0;
    virtual void release(std::uint32_t segment) = 0;
    virtual void copy_block(std::size_t group, model::block_id from, model::block_id to) = 0;
    virtual void zero_block(std::size_t group, model::block_id b) = 0;

    /// For the tiers below: copies out of and into memory. Beside a step, by another thread than the worker's, for
    /// blocks that no plan in flight touches.
    virtual void read_block(std::size_t group, model::block_id b, std::span<std::byte> to) = 0;
    virtual void write_block(std::size_t group, model::block_id b, std::span<const std::byte> from) = 0;
    virtual kv_disk disk() const { return {}; }

    // -- steps --------------------------------------------------------------------------------------------------------
    /// Helpers stay awake between the two.
    virtual void begin_step() = 0;
    virtual void end_step() = 0;
    /// See model::model::forward. At most info().max_rows rows.
    virtual void forward(const model::batch& b, float* logits, std::atomic<std::uint64_t>* progress) = 0;
    virtual bool all_finite(const float* x, std::int64_t n) const = 0;
    /// The tokens' bytes, for grammars; null: this backend has no vocabulary. Thread-safe; the first call takes long.
    virtual std::shared_ptr<const model::token_trie> vocabulary() const { return nullptr; }
    /// task(i, thread) for i in [0, n), thread in [0, info().n_threads); which thread runs a task is not fixed.
    virtual void parallel(std::int64_t n, const std::function<void(std::int64_t, int)>& task) = 0;
};

/// Makes a backend; hears 0..1 about its progress. Runs on the worker thread.
using backend_loader = std::function<result<std::unique_ptr<backend>>(const std::function<void(double)>& progress)>;

}  // namespace troupe::actors
