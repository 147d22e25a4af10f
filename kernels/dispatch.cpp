// Chooses the op table once, at start: by name, or the best this processor runs.
#include <array>
#include <string>

#include "kernels/ops.hpp"
#include "kernels/ref/ref.hpp"

namespace troupe::kernels {
namespace {

struct tables {
    std::array<const ops*, 3> found{};
    std::size_t n = 0;

    tables() { found[n++] = &ref::table; }
};

const tables& detected() {
    static const tables t;
    return t;
}

}  // namespace

std::span<const ops* const> available_tables() { return {detected().found.data(), detected().n}; }

result<const ops*> table(std::string_view name) {
    const auto all = available_tables();
    if (name == "auto") return all.back();
    std::string names;
    for (const ops* t : all) {
        if (t->name == name) return t;
        names += names.empty() ? "" : ", ";
        names += t->name;
    }
    return fail(errc::usage, "no kernels named \"" + std::string(name) + "\" for this processor; it runs: auto, " + names, "kernels");
}

}  // namespace troupe::kernels
