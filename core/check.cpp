#include "core/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace troupe {

void check_failed(const char* file, int line, const char* condition, const char* message) {
    std::fprintf(
        stderr, "CHECK failed at %s:%d: %s%s%s\n", file, line, condition, message ? ": " : "", message ? message : "");
    std::abort();
}

}  // namespace troupe
