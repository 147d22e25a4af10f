// CHECK: a broken invariant is a bug and ends the process loudly; what the outside can cause is a result<T> instead.
#pragma once

namespace troupe {

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const char* message = nullptr);

}  // namespace troupe

/// Always on. CHECK(cond) or CHECK(cond, "why it must hold").
#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) [[unlikely]]                                                                                 \
            ::troupe::check_failed(__FILE__, __LINE__, #condition __VA_OPT__(, ) __VA_ARGS__);                         \
    } while (false)

/// For hot loops: on in sanitizer and debug builds only.
#if !defined(NDEBUG) || defined(__SANITIZE_ADDRESS__)
#define DCHECK(condition, ...) CHECK(condition __VA_OPT__(, ) __VA_ARGS__)
#else
#define DCHECK(condition, ...)                                                                                         \
    do {                                                                                                               \
    } while (false)
#endif
