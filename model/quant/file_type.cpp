// One row a file type.
#include "model/quant/file_type.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "core/check.hpp"

namespace troupe::model {
namespace {

using kernels::dtype;

struct row {
    file_type type;
    std::string_view name;
    dtype base;
};

constexpr std::array<row, 19> rows{{
    {file_type::q4_0, "Q4_0", dtype::q4_0},
    {file_type::q4_1, "Q4_1", dtype::q4_1},
    {file_type::q5_0, "Q5_0", dtype::q5_0},
    {file_type::q5_1, "Q5_1", dtype::q5_1},
    {file_type::q8_0, "Q8_0", dtype::q8_0},
    {file_type::q2_k, "Q2_K", dtype::q2_k},
    {file_type::q3_k_s, "Q3_K_S", dtype::q3_k},
    {file_type::q3_k_m, "Q3_K_M", dtype::q3_k},
    {file_type::q3_k_l, "Q3_K_L", dtype::q3_k},
    {file_type::q4_k_s, "Q4_K_S", dtype::q4_k},
    {file_type::q4_k_m, "Q4_K_M", dtype::q4_k},
    {file_type::q5_k_s, "Q5_K_S", dtype::q5_k},
    {file_type::q5_k_m, "Q5_K_M", dtype::q5_k},
    {file_type::q6_k, "Q6_K", dtype::q6_k},
    {file_type::iq4_nl, "IQ4_NL", dtype::iq4_nl},
    {file_type::iq4_xs, "IQ4_XS", dtype::iq4_xs},
    {file_type::f16, "F16", dtype::f16},
    {file_type::bf16, "BF16", dtype::bf16},
    {file_type::f32, "F32", dtype::f32},
}};

const row& row_of(file_type type) {
    const auto found = std::find_if(rows.begin(), rows.end(), [&](const row& r) { return r.type == type; });
    CHECK(found != rows.end());
    return *found;
}

}  // namespace

std::optional<file_type> file_type_from_name(std::string_view name) {
    std::string upper(name);
    for (char& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    if (upper == "Q3_K" || upper == "Q4_K" || upper == "Q5_K") upper += "_M";
    std::uint32_t number = 0;
    const auto [end, problem] = std::from_chars(upper.data(), upper.data() + upper.size(), number);
    const bool is_number = problem == std::errc() && end == upper.data() + upper.size();
    for (const row& r : rows)
        if (r.name == upper || (is_number && static_cast<std::uint32_t>(r.type) == number)) return r.type;
    return std::nullopt;
}

std::string_view file_type_name(file_type type) { return row_of(type).name; }

std::string file_type_names() {
    std::string list;
    for (const row& r : rows) list += (list.empty() ? "" : ", ") + std::string(r.name);
    return list;
}

dtype base_type(file_type type) { return row_of(type).base; }

}  // namespace troupe::model
