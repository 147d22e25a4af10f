// One prepared SQLite statement: binds in order, steps, reads columns. Private to the store.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <sqlite3.h>

#include "core/result.hpp"

namespace troupe::actors {

inline error sql_error(sqlite3* db, std::string_view what) {
    return fail(errc::io, fmt::format("{}: {}", what, sqlite3_errmsg(db)));
}

class statement {
 public:
    statement(sqlite3* db, std::string_view sql) : db_(db) {
        ok_ = sqlite3_prepare_v2(db, sql.data(), static_cast<int>(sql.size()), &handle_, nullptr) == SQLITE_OK;
    }
    ~statement() { sqlite3_finalize(handle_); }
    statement(const statement&) = delete;
    statement& operator=(const statement&) = delete;

    statement& bind(std::string_view text) {
        if (ok_)
            ok_ = sqlite3_bind_text64(handle_, ++index_, text.empty() ? "" : text.data(), text.size(), SQLITE_TRANSIENT,
                      SQLITE_UTF8) == SQLITE_OK;
        return *this;
    }
    statement& bind(std::int64_t value) {
        if (ok_) ok_ = sqlite3_bind_int64(handle_, ++index_, value) == SQLITE_OK;
        return *this;
    }
    statement& bind_real(double value) {
        if (ok_) ok_ = sqlite3_bind_double(handle_, ++index_, value) == SQLITE_OK;
        return *this;
    }
    /// Token ids as little-endian int32.
    statement& bind(const std::vector<std::int32_t>& ids) {
        if (ok_)
            ok_ = sqlite3_bind_blob64(handle_, ++index_, ids.empty() ? "" : static_cast<const void*>(ids.data()),
                      ids.size() * sizeof(std::int32_t), SQLITE_TRANSIENT) == SQLITE_OK;
        return *this;
    }
    statement& bind_null() {
        if (ok_) ok_ = sqlite3_bind_null(handle_, ++index_) == SQLITE_OK;
        return *this;
    }

    /// True: a row is there. False: done.
    result<bool> step() {
        if (!ok_) return sql_error(db_, "store");
        const int rc = sqlite3_step(handle_);
        if (rc == SQLITE_ROW) return true;
        if (rc == SQLITE_DONE) return false;
        return sql_error(db_, "store");
    }
    result<void> run() {
        auto r = step();
        if (!r) return r.error();
        return {};
    }

    std::string text(int column) const {
        const auto* p = reinterpret_cast<const char*>(sqlite3_column_text(handle_, column));
        return p ? std::string(p, static_cast<std::size_t>(sqlite3_column_bytes(handle_, column))) : std::string();
    }
    std::int64_t integer(int column) const { return sqlite3_column_int64(handle_, column); }
    double real(int column) const { return sqlite3_column_double(handle_, column); }
    bool is_null(int column) const { return sqlite3_column_type(handle_, column) == SQLITE_NULL; }
    std::vector<std::int32_t> ids(int column) const {
        const auto* p = static_cast<const char*>(sqlite3_column_blob(handle_, column));
        const auto n = static_cast<std::size_t>(sqlite3_column_bytes(handle_, column)) / sizeof(std::int32_t);
        std::vector<std::int32_t> r(n);
        if (n) __builtin_memcpy(r.data(), p, n * sizeof(std::int32_t));
        return r;
    }

 private:
    sqlite3* db_;
    sqlite3_stmt* handle_ = nullptr;
    int index_ = 0;
    bool ok_ = false;
};

}  // namespace troupe::actors
