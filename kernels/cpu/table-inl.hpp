// The one symbol an instruction set exports. Included last by each kernels_<isa>.cpp.

namespace troupe::kernels::TROUPE_ISA {

const isa_kernels kernel_set{
    .sum_squares = sum_squares,
    .scale_row = scale_row,
    .add = add_values,
    .add_scaled = add_scaled,
    .gated = gated,
    .softcap = softcap,
    .rope_row = rope_row,
    .all_finite = all_finite,
    .exp = exp_values,
    .tanh = tanh_values,
    .narrow_half = narrow_half_values,
    .widen = widen,
    .widen_q8_values = widen_q8_values,
    .widen_q8_keys = widen_q8_keys,
    .values_of_keys = values_of_keys,
    .piece_store = piece_store,
    .piece_merge = piece_merge,
    .merge = merge,
};

}  // namespace troupe::kernels::TROUPE_ISA
