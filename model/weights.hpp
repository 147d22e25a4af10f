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

/// Equal parts of one tensor that become the matrices of a stack: matrix m is rows [first + m * step, + rows).
struct stack_slices {
    std::int64_t count = 1, rows = 1, first = 0, step = 0;
    /// The matrices are wanted with rows and columns exchanged. Float types stay what they are; a quantized tensor's
    /// blocks run along the other direction then, so its values are kept as float: exact, where quantizing them again
    /// would cost accuracy.
    bool transposed = false;
};

/// What goes where. Targets are filled by weight_store::load and must stay at their address until then.
class weight_plan {
 public:
    /// A matrix of `linear`: rows = product of all dimensions but the first.
    /// `as_float`: its values as f32, whatever the type in the file.
    void add_matrix(const model_tensor& tensor, kernels::weight& target, bool as_float = false) {
        matrices_.push_back({&tensor, &target, as_float});
    }
    void add_stack(const model_tensor& tensor, const stack_slices& slices, kernels::weight_stack& target) {
        stacks_.push_back({&tensor, slices, &target});
    }
    /// Norms and biases: f32, f16 or bf16 in the file, float in memory.
    void add_vector(const model_tensor& tensor, const float*& target) { vectors_.push_back({&tensor, &target}); }

    std::uint64_t packed_bytes(const kernels::ops& ops) const;
    std::int64_t max_cols() const;  ///< longest input row of any matrix, stacks not counted

 private:
    friend class weight_store;
    struct matrix_item {
        const model_tensor* tensor;
        kernels::weight* target;
        bool as_float;
        kernels::weight shape() const;
    };
    struct stack_item {
        const model_tensor* tensor;
        stack_slices slices;
        kernels::weight_stack* target;
        kernels::weight_stack shape() const;
    };
    struct vector_item {
        const model_tensor* tensor;
        const float** target;
    };
    std::vector<matrix_item> matrices_;
    std::vector<stack_item> stacks_;
    std::vector<vector_item> vectors_;
};

class weight_store {
 public:
    /// Checks memory, packs, fills the targets. `progress` (may be empty) hears 0..1.
    static result<weight_store> load(const weight_plan& plan, const kernels::ops& ops, kernels::pool& threads,
        const std::function<void(double)>& progress);

 private:
    class packer;
    anonymous_memory memory_;
};

}  // namespace troupe::model
