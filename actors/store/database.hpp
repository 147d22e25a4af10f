// The SQL layer: one SQLite file (WAL, synchronous NORMAL) with sessions, messages, generations and their journal.
// Knows no CAF; every failure is a result.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/store/records.hpp"
#include "core/ports.hpp"
#include "core/result.hpp"

struct sqlite3;

namespace troupe::actors {

class database {
 public:
    /// Opens or creates `file`. A file that is no database, or fails its check, is renamed to <file>.damaged-<unix ms>
    /// and a fresh one takes its place (see notice()). errc::io if the place cannot be written or the file is too new.
    /// A sound file of a newer schema is refused and left as it is. `suspect`: check it whatever its size.
    static result<std::unique_ptr<database>> open(const std::filesystem::path& file, bool suspect = false);
    /// Lives in memory only: what the engine falls back to when there is no writable place.
    static result<std::unique_ptr<database>> open_in_memory();
    ~database();

    /// All of them in one transaction, or none. errc::io with SQLite's reason (disk full, locked, damaged).
    result<void> apply(std::span<const record> records);
    /// nullopt: no such session.
    result<std::optional<stored_session>> load(const std::string& session);
    /// Newest first; `after`: the id of the last session of the page before; `search`: only sessions with this text in
    /// title or messages (case of ASCII letters ignored). errc::not_found if `after` is unknown.
    result<session_page> list(std::int64_t limit, const std::string& after, const std::string& search);
    /// Ids of sessions with an unfinished generation, oldest first.
    result<std::vector<std::string>> unfinished();

    /// A call has failed because the file is damaged: open it again with `suspect`.
    bool damaged() const;
    /// What happened at open that a person should know (the damaged file's new name); empty: nothing.
    const std::string& notice() const { return notice_; }

 private:
    explicit database(sqlite3* handle) : db_(handle) {}
    static result<std::unique_ptr<database>> open_file(const std::string& file);
    result<std::int64_t> version();
    result<void> prepare_schema();
    result<void> apply_one(const record& r);
    result<void> load_messages(stored_session& s);
    result<void> load_unfinished(stored_session& s);

    sqlite3* db_;
    bool damaged_ = false;
    std::string notice_;
};

}  // namespace troupe::actors
