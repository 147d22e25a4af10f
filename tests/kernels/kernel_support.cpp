// See kernel_support.hpp.
#include "kernel_support.hpp"

#include <algorithm>
#include <cstdlib>

namespace troupe::kernels::testing {
namespace {

constexpr std::uint32_t poison = 0x7fc0dead;
constexpr std::size_t margin = 32;

}  // namespace

void floats::free_aligned::operator()(float* p) const { std::free(p); }

floats::floats(std::size_t n, std::size_t misalign)
    : n_(n), begin_(margin + misalign), total_((n + misalign + 2 * margin + 15) / 16 * 16),
      memory_(static_cast<float*>(std::aligned_alloc(64, total_ * 4))) {
    std::fill(memory_.get(), memory_.get() + total_, std::bit_cast<float>(poison));
}

floats::floats(const floats& other) : floats(other.n_, other.begin_ - margin) {
    std::memcpy(memory_.get(), other.memory_.get(), total_ * 4);
}

floats& floats::fill(std::mt19937& random, float low, float high) {
    std::uniform_real_distribution<float> value(low, high);
    for (std::size_t i = 0; i < n_; ++i) data()[i] = value(random);
    return *this;
}

bool floats::intact() const {
    for (std::size_t i = 0; i < total_; ++i) {
        const bool inside = i >= begin_ && i < begin_ + n_;
        if (!inside && std::bit_cast<std::uint32_t>(memory_.get()[i]) != poison) return false;
    }
    return true;
}

bytes::bytes(std::size_t n) : n_(n), lines_((n + 63) / 64 + 1) { std::memset(lines_.data(), 0xff, lines_.size() * 64); }

machine::machine(
    const ops& table, int n_threads, std::int64_t max_rows, std::int64_t max_cols, int n_heads, int head_dim)
    : threads_(n_threads),
      scratch_(table.scratch_bytes({max_rows, max_cols, n_heads, head_dim, n_threads})), context_{threads_,
                                                                                             scratch_.span()} {}

paged_kv::paged_kv(const kv_geometry& g, int n_tokens, std::size_t offset, std::mt19937& random)
    : block_bytes_((offset + kv_layer_block_bytes(g) + 63) / 64 * 64),
      memory_(block_bytes_ * static_cast<std::size_t>((n_tokens + kv_block_tokens - 1) / kv_block_tokens)),
      pointers_(static_cast<std::size_t>((n_tokens + kv_block_tokens - 1) / kv_block_tokens)) {
    for (std::size_t i = 0; i < pointers_.size(); ++i) pointers_[i] = memory_.data() + i * block_bytes_;
    std::shuffle(pointers_.begin(), pointers_.end(), random);
}

}  // namespace troupe::kernels::testing
