// result<T>: a value or an error. Everything the outside can cause travels this way; exceptions never cross a layer.
#pragma once

#include <type_traits>
#include <utility>
#include <variant>

#include "core/check.hpp"
#include "core/error.hpp"

namespace troupe {

template <class T> class [[nodiscard]] result {
 public:
    result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    result(troupe::error e) : state_(std::in_place_index<1>, std::move(e)) {}
    template <class U>
    requires(std::is_convertible_v<U&&, T> && !std::is_same_v<std::decay_t<U>, T> &&
             !std::is_same_v<std::decay_t<U>, troupe::error> && !std::is_same_v<std::decay_t<U>, result>)
        result(U&& value)
        : state_(std::in_place_index<0>, std::forward<U>(value)) {}

    bool ok() const { return state_.index() == 0; }
    explicit operator bool() const { return ok(); }

    T& value() & {
        CHECK(ok(), "value of a failed result");
        return std::get<0>(state_);
    }
    const T& value() const& {
        CHECK(ok(), "value of a failed result");
        return std::get<0>(state_);
    }
    T&& value() && {
        CHECK(ok(), "value of a failed result");
        return std::get<0>(std::move(state_));
    }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T&& operator*() && { return std::move(*this).value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }

    const troupe::error& error() const& {
        CHECK(!ok(), "error of a good result");
        return std::get<1>(state_);
    }
    troupe::error&& error() && {
        CHECK(!ok(), "error of a good result");
        return std::get<1>(std::move(state_));
    }

 private:
    std::variant<T, troupe::error> state_;
};

template <> class [[nodiscard]] result<void> {
 public:
    result() = default;
    result(troupe::error e) : failed_(true), error_(std::move(e)) {}
    bool ok() const { return !failed_; }
    explicit operator bool() const { return ok(); }
    const troupe::error& error() const {
        CHECK(failed_, "error of a good result");
        return error_;
    }

 private:
    bool failed_ = false;
    troupe::error error_;
};

/// Shorthand: `return fail(errc::invalid_request, "temperature must be ...", "temperature");`
inline error fail(errc code, std::string message, std::string param = {}) {
    return error{code, std::move(message), std::move(param)};
}

}  // namespace troupe

#define TROUPE_CONCAT_(a, b) a##b
#define TROUPE_CONCAT(a, b) TROUPE_CONCAT_(a, b)
#define TROUPE_TRY_(tmp, declaration, ...)                                                                             \
    auto tmp = (__VA_ARGS__);                                                                                          \
    if (!tmp) return std::move(tmp).error();                                                                           \
    declaration = *std::move(tmp)
/// TROUPE_TRY(auto x, f()): declares x from the value, or returns f's error.
#define TROUPE_TRY(declaration, ...) TROUPE_TRY_(TROUPE_CONCAT(try_, __LINE__), declaration, __VA_ARGS__)
/// TROUPE_TRYV(f()): for result<void>.
#define TROUPE_TRYV(...)                                                                                               \
    do {                                                                                                               \
        if (auto tryv_ = (__VA_ARGS__); !tryv_) return tryv_.error();                                                  \
    } while (false)
