// Chooses the op table once, at start: by name, or the best this processor runs.
#include <cpuid.h>

#include <array>
#include <string>

#include "kernels/cpu/tables.hpp"
#include "kernels/ops.hpp"
#include "kernels/ref/ref.hpp"

namespace troupe::kernels {
namespace {

/// __builtin_cpu_supports asks the operating system too (saved registers); clang 14 does not know "f16c" there.
bool has_f16c() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

bool runs_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c(); }

bool runs_avx512() {
    return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vnni");
}

/// Ascending by speed.
struct detected_tables {
    std::array<const ops*, 3> found{};
    std::size_t n = 0;

    detected_tables() {
        found[n++] = &ref::table;
        if (runs_avx2()) found[n++] = &cpu::avx2_table;
        if (runs_avx512()) found[n++] = &cpu::avx512_table;
    }
};

}  // namespace

std::span<const ops* const> available_tables() {
    static const detected_tables tables;
    return {tables.found.data(), tables.n};
}

result<const ops*> table(std::string_view name) {
    const auto all = available_tables();
    if (name == "auto") return all.back();
    std::string names;
    for (const ops* t : all) {
        if (t->name == name) return t;
        names += names.empty() ? "" : ", ";
        names += t->name;
    }
    return fail(
        errc::usage, "no kernels \"" + std::string(name) + "\" on this processor; it runs auto, " + names, "kernels");
}

}  // namespace troupe::kernels
