// Cuts an op's scratch memory into aligned arrays; the same cuts, on an arena without memory, give the bytes needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/check.hpp"

namespace troupe::kernels::cpu {

class arena {
 public:
    arena() = default;  ///< measures only: arrays are null
    explicit arena(std::span<std::byte> memory) : memory_(memory), real_(true) {}

    template <class T> T* array(std::size_t n) {
        const std::size_t at = used_;
        used_ += (n * sizeof(T) + 63) / 64 * 64;
        if (!real_) return nullptr;
        CHECK(used_ <= memory_.size(), "scratch smaller than scratch_bytes() says");
        return reinterpret_cast<T*>(memory_.data() + at);
    }
    std::size_t used() const { return used_; }

 private:
    std::span<std::byte> memory_;
    std::size_t used_ = 0;
    bool real_ = false;
};

}  // namespace troupe::kernels::cpu
