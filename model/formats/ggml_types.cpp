// One row a type number; numbers ggml has retired keep their names so that errors about old files say what they hold.
#include "model/formats/ggml_types.hpp"

#include <array>

namespace troupe::model {

namespace {

using kernels::dtype;

constexpr std::array<std::string_view, 41> names = {"f32", "f16", "q4_0", "q4_1", "q4_2", "q4_3", "q5_0", "q5_1",
    "q8_0", "q8_1", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "q8_k", "iq2_xxs", "iq2_xs", "iq3_xxs", "iq1_s", "iq4_nl",
    "iq3_s", "iq2_s", "iq4_xs", "i8", "i16", "i32", "i64", "f64", "iq1_m", "bf16", "q4_0_4_4", "q4_0_4_8", "q4_0_8_8",
    "tq1_0", "tq2_0", "iq4_nl_4_4", "iq4_nl_4_8", "iq4_nl_8_8", "mxfp4", "nvfp4"};

struct supported_type {
    std::uint32_t number;
    dtype type;
};

constexpr std::array<supported_type, 16> supported = {
    {{0, dtype::f32}, {1, dtype::f16}, {30, dtype::bf16}, {2, dtype::q4_0}, {3, dtype::q4_1}, {6, dtype::q5_0},
        {7, dtype::q5_1}, {8, dtype::q8_0}, {10, dtype::q2_k}, {11, dtype::q3_k}, {12, dtype::q4_k}, {13, dtype::q5_k},
        {14, dtype::q6_k}, {20, dtype::iq4_nl}, {23, dtype::iq4_xs}, {39, dtype::mxfp4}}};
static_assert(supported.size() == static_cast<std::size_t>(dtype::awq_32), "the types behind it have no number");

}  // namespace

std::string_view ggml_type_name(std::uint32_t number) { return number < names.size() ? names[number] : "unknown"; }

std::optional<kernels::dtype> ggml_dtype(std::uint32_t number) {
    for (const auto& entry : supported)
        if (entry.number == number) return entry.type;
    return std::nullopt;
}

std::optional<std::uint32_t> ggml_number(dtype type) {
    for (const auto& entry : supported)
        if (entry.type == type) return entry.number;
    return std::nullopt;
}

std::string supported_ggml_types() {
    std::string list;
    for (const auto& entry : supported) list += (list.empty() ? "" : ", ") + std::string(names[entry.number]);
    return list;
}

}  // namespace troupe::model
