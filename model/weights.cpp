// Packs the planned tensors one after the other, each at a multiple of 64 bytes.
#include "model/weights.hpp"

#include <algorithm>

#include "core/check.hpp"

namespace troupe::model {
namespace {

std::uint64_t aligned(std::uint64_t bytes) { return (bytes + 63) / 64 * 64; }

std::uint64_t matrix_bytes(const kernels::ops& ops, const model_tensor& t) {
    return aligned(ops.packed_bytes(t.type, t.rows(), t.cols()));
}

std::uint64_t vector_bytes(const model_tensor& t) { return aligned(t.cols() * t.rows() * sizeof(float)); }

/// The tensor's bytes in file layout; what has to be made is made on all threads.
const std::byte* row_data(const model_tensor& t, kernels::pool& threads, std::vector<std::byte>& buffer) {
    if (!t.source) return t.data.data();
    constexpr std::int64_t rows_per_task = 64;
    const std::int64_t rows = t.rows();
    const std::size_t row_bytes = kernels::row_bytes(t.type, t.cols());
    buffer.resize(t.bytes());
    threads.run((rows + rows_per_task - 1) / rows_per_task, [&](std::int64_t task, int) {
        const std::int64_t first = task * rows_per_task;
        t.source->read_rows(
            first, std::min(rows_per_task, rows - first), buffer.data() + static_cast<std::size_t>(first) * row_bytes);
    });
    return buffer.data();
}

}  // namespace

std::uint64_t weight_plan::packed_bytes(const kernels::ops& ops) const {
    std::uint64_t sum = 0;
    for (const auto& m : matrices_) sum += matrix_bytes(ops, *m.tensor);
    for (const auto& v : vectors_) sum += vector_bytes(*v.tensor);
    return sum;
}

std::int64_t weight_plan::max_cols() const {
    std::int64_t most = 1;
    for (const auto& m : matrices_) most = std::max(most, m.tensor->cols());
    return most;
}

result<weight_store> weight_store::load(const weight_plan& plan, const kernels::ops& ops, kernels::pool& threads,
    const std::function<void(double)>& progress) {
    const std::uint64_t total = plan.packed_bytes(ops);
    TROUPE_TRYV(check_memory(total, "the model's weights"));
    weight_store store;
    // Not populated up front: packing touches every page itself, on all threads.
    TROUPE_TRY(store.memory_, anonymous_memory::map(total, "the model's weights", false));
    std::byte* at = store.memory_.bytes().data();
    std::vector<std::byte> buffer;
    for (const auto& v : plan.vectors_) {
        auto* values = reinterpret_cast<float*>(at);
        kernels::dequantize(
            v.tensor->type, v.tensor->contents(buffer).data(), v.tensor->cols() * v.tensor->rows(), values);
        *v.target = values;
        at += vector_bytes(*v.tensor);
    }
    for (const auto& m : plan.matrices_) {
        const model_tensor& t = *m.tensor;
        ops.pack(threads, t.type, t.rows(), t.cols(), row_data(t, threads, buffer), at);
        *m.target = {t.type, t.rows(), t.cols(), at};
        at += matrix_bytes(ops, t);
        if (progress) progress(static_cast<double>(at - store.memory_.bytes().data()) / static_cast<double>(total));
    }
    CHECK(static_cast<std::uint64_t>(at - store.memory_.bytes().data()) == total);
    return store;
}

}  // namespace troupe::model
