// The tensors a network uses: first a plan (nothing allocated), then one allocation that holds them packed for an op
// table.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/result.hpp"
#include "kernels/ops.hpp"
#include "model/formats/model_file.hpp"
#include "model/host_memory.hpp"

namespace troupe::model {

/// What goes where. Targets are filled by weight_store::load and must stay at their address until then.
class weight_plan {
 public:
    /// A matrix of `linear`: rows = product of all dimensions but the first.
    void add_matrix(const model_tensor& tensor, kernels::weight& target) { matrices_.push_back({&tensor, &target}); }
    /// Norms and biases: f32, f16 or bf16 in the file, float in memory.
    void add_vector(const model_tensor& tensor, const float*& target) { vectors_.push_back({&tensor, &target}); }

    std::uint64_t packed_bytes(const kernels::ops& ops) const;
    std::int64_t max_cols() const;  ///< longest input row of any matrix

 private:
    friend class weight_store;
    template <class T> struct item {
        const model_tensor* tensor;
        T* target;
    };
    std::vector<item<kernels::weight>> matrices_;
    std::vector<item<const float*>> vectors_;
};

class weight_store {
 public:
    /// Checks memory, packs, fills the targets. `progress` (may be empty) hears 0..1.
    static result<weight_store> load(const weight_plan& plan, const kernels::ops& ops, kernels::pool& threads,
        const std::function<void(double)>& progress);

 private:
    anonymous_memory memory_;
};

}  // namespace troupe::model
