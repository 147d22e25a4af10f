// CHECK: a broken invariant is a bug and ends the process loudly; what the outside can cause is a result<T> instead.
#pragma once

namespace troupe {

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const char* message = nullptr);

}  // namespace troupe

/// On in every build. CHECK(cond) or CHECK(cond, "why it must hold").
#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) [[unlikely]]                                                                                 \
            ::troupe::check_failed(__FILE__, __LINE__, #condition __VA_OPT__(, ) __VA_ARGS__);                         \
    } while (false)
