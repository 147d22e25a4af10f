// Packs the planned tensors one after the other, each at a multiple of 64 bytes.
#include "model/weights.hpp"

#include <algorithm>

#include "core/check.hpp"

namespace troupe::model {
namespace {

using kernels::dtype;

std::uint64_t aligned(std::uint64_t bytes) { return (bytes + 63) / 64 * 64; }

std::uint64_t vector_bytes(const model_tensor& t) { return aligned(t.cols() * t.rows() * sizeof(float)); }

/// Rows [first, first + n) of a tensor in file layout; what has to be made is made on all threads, into `buffer`.
const std::byte* rows_of(
    const model_tensor& t, std::int64_t first, std::int64_t n, kernels::pool& threads, std::vector<std::byte>& buffer) {
    constexpr std::int64_t rows_per_task = 64;
    const std::size_t row_bytes = kernels::row_bytes(t.type, t.cols());
    if (!t.source) return t.data.data() + static_cast<std::size_t>(first) * row_bytes;
    buffer.resize(static_cast<std::size_t>(n) * row_bytes);
    threads.run((n + rows_per_task - 1) / rows_per_task, [&](std::int64_t task, int) {
        const std::int64_t at = task * rows_per_task;
        t.source->read_rows(
            first + at, std::min(rows_per_task, n - at), buffer.data() + static_cast<std::size_t>(at) * row_bytes);
    });
    return buffer.data();
}

/// rows x cols values of `size` bytes, rows and columns exchanged.
void transpose(const std::byte* from, std::int64_t rows, std::int64_t cols, std::int64_t size, std::byte* to) {
    for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < cols; ++c)
            std::copy_n(from + (r * cols + c) * size, size, to + (c * rows + r) * size);
}

}  // namespace

kernels::weight weight_plan::matrix_item::shape() const {
    return {as_float ? dtype::f32 : tensor->type, tensor->rows(), tensor->cols()};
}

kernels::weight_stack weight_plan::stack_item::shape() const {
    const std::int64_t cols = tensor->cols();
    if (!slices.transposed) return {tensor->type, slices.count, slices.rows, cols};
    const bool quantized = kernels::info(tensor->type).quantized;
    return {quantized ? dtype::f32 : tensor->type, slices.count, cols, slices.rows};
}

std::uint64_t weight_plan::packed_bytes(const kernels::ops& ops) const {
    std::uint64_t sum = 0;
    for (const auto& m : matrices_) {
        const kernels::weight w = m.shape();
        sum += aligned(ops.packed_bytes(w.type, w.rows, w.cols));
    }
    for (const auto& s : stacks_) {
        const kernels::weight_stack w = s.shape();
        sum += static_cast<std::uint64_t>(w.count) * ops.packed_bytes(w.type, w.rows, w.cols);
    }
    for (const auto& v : vectors_) sum += vector_bytes(*v.tensor);
    return sum;
}

std::int64_t weight_plan::max_cols() const {
    std::int64_t most = 1;
    for (const auto& m : matrices_) most = std::max(most, m.tensor->cols());
    return most;
}

/// Writes into the store from the front. Buffers are one matrix long.
class weight_store::packer {
 public:
    packer(const kernels::ops& ops, kernels::pool& threads, std::byte* begin)
        : ops_(ops), threads_(threads), at_(begin) {}
    const std::byte* at() const { return at_; }

    void vector(const weight_plan::vector_item& v) {
        auto* values = reinterpret_cast<float*>(at_);
        kernels::dequantize(
            v.tensor->type, v.tensor->contents(read_).data(), v.tensor->cols() * v.tensor->rows(), values);
        *v.target = values;
        at_ += vector_bytes(*v.tensor);
    }
    void matrix(const weight_plan::matrix_item& m) {
        *m.target = m.shape();
        m.target->data = at_;
        const std::byte* rows = rows_of(*m.tensor, 0, m.target->rows, threads_, read_);
        if (m.as_float) rows = floats(m.tensor->type, rows, m.target->rows * m.target->cols);
        put(m.target->type, m.target->rows, m.target->cols, rows);
    }
    void stack(const weight_plan::stack_item& s) {
        *s.target = s.shape();
        s.target->data = at_;
        const kernels::weight_stack& w = *s.target;
        for (std::int64_t i = 0; i < w.count; ++i) {
            const std::byte* rows =
                rows_of(*s.tensor, s.slices.first + i * s.slices.step, s.slices.rows, threads_, read_);
            if (s.slices.transposed) {
                if (w.type != s.tensor->type) rows = floats(s.tensor->type, rows, w.rows * w.cols);
                const auto size = static_cast<std::int64_t>(kernels::row_bytes(w.type, 1));
                turned_.resize(static_cast<std::size_t>(w.rows * w.cols * size));
                transpose(rows, w.cols, w.rows, size, turned_.data());
                rows = turned_.data();
            }
            put(w.type, w.rows, w.cols, rows);
        }
    }

 private:
    const std::byte* floats(dtype type, const std::byte* rows, std::int64_t n) {
        floats_.resize(static_cast<std::size_t>(n));
        kernels::dequantize(type, rows, n, floats_.data());
        return reinterpret_cast<const std::byte*>(floats_.data());
    }
    void put(dtype type, std::int64_t rows, std::int64_t cols, const std::byte* from) {
        ops_.pack(threads_, type, rows, cols, from, at_);
        at_ += aligned(ops_.packed_bytes(type, rows, cols));
    }

    const kernels::ops& ops_;
    kernels::pool& threads_;
    std::byte* at_;
    std::vector<std::byte> read_, turned_;
    std::vector<float> floats_;
};

result<weight_store> weight_store::load(const weight_plan& plan, const kernels::ops& ops, kernels::pool& threads,
    const std::function<void(double)>& progress) {
    const std::uint64_t total = plan.packed_bytes(ops);
    TROUPE_TRYV(check_memory(total, "the model's weights"));
    weight_store store;
    // Not populated up front: packing touches every page itself, on all threads.
    TROUPE_TRY(store.memory_, anonymous_memory::map(total, "the model's weights", false));
    const std::byte* begin = store.memory_.bytes().data();
    packer p(ops, threads, store.memory_.bytes().data());
    const auto tell = [&] {
        if (progress) progress(static_cast<double>(p.at() - begin) / static_cast<double>(total));
    };
    for (const auto& v : plan.vectors_) p.vector(v);
    for (const auto& m : plan.matrices_) p.matrix(m), tell();
    for (const auto& s : plan.stacks_) p.stack(s), tell();
    CHECK(static_cast<std::uint64_t>(p.at() - begin) == total);
    return store;
}

}  // namespace troupe::model
