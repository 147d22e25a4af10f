// What docs/correctness.md lists: a test that compares with an oracle records its figure and the tolerance it must keep.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include <fmt/format.h>

namespace troupe::testing {

/// Appends one row to the file TROUPE_FIGURES names (scripts/correctness sets it); does nothing without it.
/// `section` is a heading ("Logits of tiny models"), `what` names the case ("qwen2 F16, KV f32, avx2"), `figure` what was
/// measured ("relative L2 3.1e-07"), `tolerance` what it must keep and where that comes from ("< 1e-5").
inline void record_figure(
    const std::string& section, const std::string& what, const std::string& figure, const std::string& tolerance) {
    const char* path = std::getenv("TROUPE_FIGURES");
    if (path == nullptr) return;
    const std::string row = fmt::format("{}\t{}\t{}\t{}\n", section, what, figure, tolerance);
    if (std::FILE* file = std::fopen(path, "a")) {  // one short write: tests of other processes append too
        std::fwrite(row.data(), 1, row.size(), file);
        std::fclose(file);
    }
}

}  // namespace troupe::testing
