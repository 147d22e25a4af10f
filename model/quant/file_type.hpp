// The types of whole files that `quantize` writes, as llama-quantize names and numbers them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/types.hpp"

namespace troupe::model {

/// The numbers are those of general.file_type.
enum class file_type : std::uint32_t {
    f32 = 0,
    f16 = 1,
    q4_0 = 2,
    q4_1 = 3,
    q8_0 = 7,
    q5_0 = 8,
    q5_1 = 9,
    q2_k = 10,
    q3_k_s = 11,
    q3_k_m = 12,
    q3_k_l = 13,
    q4_k_s = 14,
    q4_k_m = 15,
    q5_k_s = 16,
    q5_k_m = 17,
    q6_k = 18,
    iq4_nl = 25,
    iq4_xs = 30,
    bf16 = 32,
};

/// "Q4_K_M" in any case, the aliases Q3_K, Q4_K, Q5_K (their _M), or the number.
std::optional<file_type> file_type_from_name(std::string_view name);
std::string_view file_type_name(file_type type);
/// For error messages and --help: "Q4_0, Q4_1, ...".
std::string file_type_names();
/// What a tensor becomes that no rule treats specially.
kernels::dtype base_type(file_type type);

}  // namespace troupe::model
