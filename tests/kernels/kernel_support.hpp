// Buffers with poison around them, random values, and sequences with paged KV memory, for the tests of the op tables.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/ops.hpp"

namespace troupe::kernels::testing {

inline constexpr double half_ulp = 0x1p-24;  ///< relative rounding error of one float operation

/// n floats at a chosen misalignment, between NaNs: what is read beyond the ends shows in results, what is written
/// there shows in intact().
class floats {
 public:
    explicit floats(std::size_t n, std::size_t misalign = 0);
    floats(const floats& other);
    floats& operator=(const floats&) = delete;

    float* data() { return memory_.get() + begin_; }
    const float* data() const { return memory_.get() + begin_; }
    std::size_t size() const { return n_; }
    float& operator[](std::size_t i) { return data()[i]; }
    float operator[](std::size_t i) const { return data()[i]; }
    floats& fill(std::mt19937& random, float low = -2, float high = 2);
    bool intact() const;
    bool same_bits(const floats& other) const {
        return n_ == other.n_ && std::memcmp(data(), other.data(), n_ * 4) == 0;
    }

 private:
    struct free_aligned {
        void operator()(float* p) const;
    };
    std::size_t n_, begin_, total_;
    std::unique_ptr<float, free_aligned> memory_;
};

/// 64-byte aligned bytes, filled with 0xff (as floats of any width: NaN).
class bytes {
 public:
    explicit bytes(std::size_t n);
    std::byte* data() { return reinterpret_cast<std::byte*>(lines_.data()); }
    std::size_t size() const { return n_; }
    std::span<std::byte> span() { return {data(), n_}; }

 private:
    struct alignas(64) line {
        std::byte b[64];
    };
    std::size_t n_;
    std::vector<line> lines_;
};

/// A pool and scratch of exactly the size a table asks for.
class machine {
 public:
    machine(const ops& table, int n_threads, std::int64_t max_rows, std::int64_t max_cols, int n_heads = 1,
        int head_dim = 64);
    context& ctx() { return context_; }

 private:
    pool threads_;
    bytes scratch_;
    context context_;
};

/// One sequence's KV memory: its blocks in random order, `offset` bytes of foreign data before the layer.
class paged_kv {
 public:
    paged_kv(const kv_geometry& g, int n_tokens, std::size_t offset, std::mt19937& random);
    std::byte* const* blocks() const { return pointers_.data(); }
    std::byte** mutable_blocks() { return pointers_.data(); }
    bytes& memory() { return memory_; }
    std::size_t block_bytes() const { return block_bytes_; }

 private:
    std::size_t block_bytes_;
    bytes memory_;
    std::vector<std::byte*> pointers_;
};

inline std::string table_name(const ::testing::TestParamInfo<const ops*>& info) {
    return std::string(info.param->name);
}

}  // namespace troupe::kernels::testing
