#include "actors/store/database.hpp"

#include <iterator>
#include <system_error>

#include <fmt/format.h>

#include "actors/session/settings_json.hpp"
#include "actors/store/statement.hpp"
#include "core/clock.hpp"

namespace troupe::actors {
namespace {

constexpr int cache_kib = 8 << 10;   // SQLite's pages in memory
constexpr int log_bytes = 32 << 20;  // of the write-ahead log that stay after a checkpoint

constexpr std::int64_t schema_version = 2;
constexpr std::uintmax_t quick_check_up_to = 256u << 20;  // a larger file would delay the start for seconds
constexpr int busy_wait_ms = 200;                         // nobody else should be there: the directory is locked

constexpr const char* schema = R"sql(
CREATE TABLE IF NOT EXISTS sessions(
  id TEXT PRIMARY KEY, title TEXT NOT NULL, settings TEXT NOT NULL, leaf TEXT NOT NULL,
  created INTEGER NOT NULL, updated INTEGER NOT NULL, seq_reserved INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS sessions_newest ON sessions(created DESC, id DESC);
CREATE TABLE IF NOT EXISTS messages(
  session TEXT NOT NULL, id TEXT NOT NULL, ord INTEGER NOT NULL, parent TEXT NOT NULL, role TEXT NOT NULL,
  content TEXT NOT NULL, created INTEGER NOT NULL, finish_reason TEXT NOT NULL,
  error_code TEXT, error_message TEXT, error_param TEXT,
  prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL,
  PRIMARY KEY(session, id));
CREATE TABLE IF NOT EXISTS generations(
  id TEXT PRIMARY KEY, session TEXT NOT NULL, message TEXT NOT NULL, prompt_ids BLOB, params TEXT NOT NULL,
  model TEXT NOT NULL, model_hash TEXT NOT NULL, numerics_id TEXT NOT NULL, finished INTEGER NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS generations_open ON generations(session) WHERE finished = 0;
CREATE TABLE IF NOT EXISTS journal(
  generation TEXT NOT NULL, pos INTEGER NOT NULL, tokens BLOB NOT NULL, mu REAL NOT NULL DEFAULT 0,
  PRIMARY KEY(generation, pos)) WITHOUT ROWID;
)sql";

/// What turns the schema of a version into the next one's, from version 1 on.
constexpr const char* migrations[] = {"ALTER TABLE journal ADD COLUMN mu REAL NOT NULL DEFAULT 0"};
static_assert(std::size(migrations) == schema_version - 1);

result<void> execute(sqlite3* db, const char* sql) {
    if (sqlite3_exec(db, sql, nullptr, nullptr, nullptr) != SQLITE_OK) return sql_error(db, "store");
    return {};
}

std::string escape_like(std::string_view text) {
    std::string r = "%";
    for (char c : text) {
        if (c == '%' || c == '_' || c == '\\') r += '\\';
        r += c;
    }
    return r + '%';
}

/// Is what lies there a sound database? A missing or empty file is.
bool sound(sqlite3* db, bool check_pages) {
    statement version(db, "PRAGMA schema_version");
    if (!version.step().ok()) return false;
    if (!check_pages) return true;
    statement check(db, "PRAGMA quick_check(1)");
    auto row = check.step();
    return row.ok() && *row && check.text(0) == "ok";
}

bool tells_of_damage(sqlite3* db) {
    const int code = sqlite3_errcode(db);
    return code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
}

}  // namespace

database::~database() { sqlite3_close_v2(db_); }

result<std::unique_ptr<database>> database::open_file(const std::string& file) {
    sqlite3* handle = nullptr;
    const int rc = sqlite3_open_v2(
        file.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
    std::unique_ptr<database> d(new database(handle));
    if (rc != SQLITE_OK)
        return fail(errc::io, fmt::format("cannot open {}: {}", file, handle ? sqlite3_errmsg(handle) : "memory"));
    sqlite3_busy_timeout(handle, busy_wait_ms);
    return d;
}

bool database::damaged() const { return damaged_ || tells_of_damage(db_); }

result<std::unique_ptr<database>> database::open(const std::filesystem::path& file, bool suspect) {
    TROUPE_TRY(auto d, open_file(file.string()));
    std::error_code ec;
    const auto size = std::filesystem::file_size(file, ec);
    if (!ec && size > 0 && !sound(d->db_, suspect || size <= quick_check_up_to)) {
        const int code = sqlite3_errcode(d->db_);
        if (code == SQLITE_BUSY || code == SQLITE_CANTOPEN || code == SQLITE_IOERR || code == SQLITE_READONLY)
            return sql_error(d->db_, fmt::format("cannot read {}", file.string()));
        d.reset();
        const std::string aside = fmt::format("{}.damaged-{}", file.string(), unix_ms());
        std::filesystem::rename(file, aside, ec);
        if (ec)
            return fail(errc::io, fmt::format("{} is damaged and cannot be renamed: {}", file.string(), ec.message()));
        for (const char* suffix : {"-wal", "-shm"}) {
            std::error_code missing;
            std::filesystem::rename(file.string() + suffix, aside + suffix, missing);
        }
        TROUPE_TRY(d, open_file(file.string()));
        d->notice_ = fmt::format("the database was damaged and lies now at {}", aside);
    }
    TROUPE_TRYV(d->version());  // before anything is written
    TROUPE_TRYV(execute(d->db_, "PRAGMA journal_mode=WAL"));
    TROUPE_TRYV(execute(d->db_, "PRAGMA synchronous=NORMAL"));
    TROUPE_TRYV(execute(d->db_, fmt::format("PRAGMA cache_size=-{}", cache_kib).c_str()));
    TROUPE_TRYV(execute(d->db_, fmt::format("PRAGMA journal_size_limit={}", log_bytes).c_str()));
    TROUPE_TRYV(d->prepare_schema());
    return d;
}

result<std::unique_ptr<database>> database::open_in_memory() {
    TROUPE_TRY(auto d, open_file(":memory:"));
    TROUPE_TRYV(d->prepare_schema());
    return d;
}

/// Of the schema in the file; errc::io if it is too new.
result<std::int64_t> database::version() {
    statement s(db_, "PRAGMA user_version");
    TROUPE_TRY(const bool row, s.step());
    const std::int64_t version = row ? s.integer(0) : 0;
    if (version > schema_version)
        return fail(errc::io,
            fmt::format("the database was written by a newer Troupe (schema {}, this one knows {}); update, or give "
                        "--data-dir another place",
                version, schema_version));
    return version;
}

result<void> database::prepare_schema() {
    TROUPE_TRY(auto version, this->version());
    if (version == schema_version) {
        // A write that changes nothing: a place that only looks writable is found out now, not at the first message.
        TROUPE_TRYV(execute(db_, "BEGIN IMMEDIATE"));
        return execute(db_, "ROLLBACK");
    }
    TROUPE_TRYV(execute(db_, "BEGIN IMMEDIATE"));
    result<void> made;
    if (version == 0) made = execute(db_, schema);
    for (; made && version > 0 && version < schema_version; ++version) made = execute(db_, migrations[version - 1]);
    if (!made) {
        (void)execute(db_, "ROLLBACK");
        return made.error();
    }
    TROUPE_TRYV(execute(db_, fmt::format("PRAGMA user_version={}", schema_version).c_str()));
    return execute(db_, "COMMIT");
}

result<void> database::apply(std::span<const record> records) {
    TROUPE_TRYV(execute(db_, "BEGIN IMMEDIATE"));
    for (const auto& r : records)
        if (auto done = apply_one(r); !done) {
            damaged_ = tells_of_damage(db_);
            (void)execute(db_, "ROLLBACK");
            return done.error();
        }
    if (auto done = execute(db_, "COMMIT"); !done) {
        damaged_ = tells_of_damage(db_);
        (void)execute(db_, "ROLLBACK");
        return done.error();
    }
    return {};
}

namespace {

result<void> write(sqlite3* db, const put_session& r) {
    return statement(db,
        "INSERT INTO sessions(id,title,settings,leaf,created,updated,seq_reserved) VALUES(?,?,?,?,?,?,?) "
        "ON CONFLICT(id) DO UPDATE SET title=excluded.title, settings=excluded.settings, "
        "leaf=excluded.leaf, updated=excluded.updated, "
        "seq_reserved=max(seq_reserved, excluded.seq_reserved)")
        .bind(r.info.id)
        .bind(r.info.title)
        .bind(settings_to_json(r.info.settings))
        .bind(r.leaf)
        .bind(r.info.created)
        .bind(r.info.updated)
        .bind(static_cast<std::int64_t>(r.seq_reserved))
        .run();
}

result<void> write(sqlite3* db, const put_message& r) {
    const auto& v = r.message.view;
    statement s(db,
        "INSERT INTO messages(session,id,ord,parent,role,content,created,finish_reason,error_code,"
        "error_message,error_param,prompt_tokens,completion_tokens,cached_tokens) VALUES(?1,?2,"
        "(SELECT COALESCE(MAX(ord),0)+1 FROM messages WHERE session=?1),?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13) "
        "ON CONFLICT(session,id) DO UPDATE SET content=excluded.content, finish_reason=excluded.finish_reason, "
        "error_code=excluded.error_code, error_message=excluded.error_message, "
        "error_param=excluded.error_param, prompt_tokens=excluded.prompt_tokens, "
        "completion_tokens=excluded.completion_tokens, cached_tokens=excluded.cached_tokens");
    s.bind(r.session).bind(v.id).bind(v.parent).bind(v.role).bind(v.content).bind(v.created).bind(v.finish_reason);
    if (v.err)
        s.bind(info(v.err->code).name).bind(v.err->message).bind(v.err->param);
    else
        s.bind_null().bind_null().bind_null();
    const auto& u = r.message.usage;
    return s.bind(u.prompt_tokens).bind(u.completion_tokens).bind(u.cached_tokens).run();
}

result<void> write(sqlite3* db, const put_generation& r) {
    const auto& g = r.generation;
    return statement(db, "INSERT OR REPLACE INTO generations(id,session,message,prompt_ids,params,model,model_hash,"
                         "numerics_id,finished) VALUES(?,?,?,?,?,?,?,?,0)")
        .bind(g.id)
        .bind(g.session)
        .bind(g.message)
        .bind(g.prompt)
        .bind(g.params)
        .bind(g.model)
        .bind(g.model_hash)
        .bind(g.numerics_id)
        .run();
}

result<void> write(sqlite3* db, const append_tokens& r) {
    return statement(db, "INSERT OR REPLACE INTO journal(generation,pos,tokens,mu) VALUES(?,?,?,?)")
        .bind(r.generation)
        .bind(r.pos)
        .bind(r.tokens)
        .bind_real(r.mu)
        .run();
}

result<void> write(sqlite3* db, const end_generation& r) {
    TROUPE_TRYV(
        statement(db, "UPDATE generations SET finished=1, prompt_ids=NULL WHERE id=?").bind(r.generation).run());
    return statement(db, "DELETE FROM journal WHERE generation=?").bind(r.generation).run();
}

result<void> write(sqlite3* db, const reserve_seq& r) {
    return statement(db, "UPDATE sessions SET seq_reserved=max(seq_reserved, ?) WHERE id=?")
        .bind(static_cast<std::int64_t>(r.up_to))
        .bind(r.session)
        .run();
}

result<void> write(sqlite3* db, const delete_session& r) {
    TROUPE_TRYV(statement(db, "DELETE FROM journal WHERE generation IN (SELECT id FROM generations WHERE session=?)")
                    .bind(r.session)
                    .run());
    for (const char* sql : {"DELETE FROM generations WHERE session=?", "DELETE FROM messages WHERE session=?",
             "DELETE FROM sessions WHERE id=?"})
        TROUPE_TRYV(statement(db, sql).bind(r.session).run());
    return {};
}

}  // namespace

result<void> database::apply_one(const record& r) {
    return std::visit([this](const auto& x) { return write(db_, x); }, r);
}

namespace {

constexpr const char* session_columns = "SELECT id,title,settings,created,updated,leaf,seq_reserved FROM sessions ";

result<session_view> read_session(const statement& s) {
    session_view v;
    v.id = s.text(0);
    v.title = s.text(1);
    TROUPE_TRY(v.settings, settings_from_json(s.text(2)));
    v.created = s.integer(3);
    v.updated = s.integer(4);
    return v;
}

}  // namespace

result<std::optional<stored_session>> database::load(const std::string& session) {
    stored_session r;
    statement s(db_, fmt::format("{}WHERE id=?", session_columns));
    TROUPE_TRY(const bool row, s.bind(session).step());
    if (!row) return std::optional<stored_session>();
    TROUPE_TRY(r.info, read_session(s));
    r.leaf = s.text(5);
    r.seq_reserved = static_cast<std::uint64_t>(s.integer(6));
    TROUPE_TRYV(load_messages(r));
    TROUPE_TRYV(load_unfinished(r));
    return std::optional<stored_session>(std::move(r));
}

result<void> database::load_messages(stored_session& out) {
    statement s(db_, "SELECT id,parent,role,content,created,finish_reason,error_code,error_message,error_param,"
                     "prompt_tokens,completion_tokens,cached_tokens FROM messages WHERE session=? ORDER BY ord");
    s.bind(out.info.id);
    for (;;) {
        TROUPE_TRY(const bool row, s.step());
        if (!row) return {};
        stored_message m;
        m.view = {s.text(0), s.text(1), s.text(2), s.text(3), s.integer(4), s.text(5), {}};
        if (!s.is_null(6)) m.view.err = error{errc_from_name(s.text(6)), s.text(7), s.text(8)};
        m.usage = {s.integer(9), s.integer(10), s.integer(11)};
        out.messages.push_back(std::move(m));
    }
}

result<void> database::load_unfinished(stored_session& out) {
    statement s(db_, "SELECT id,message,prompt_ids,params,model,model_hash,numerics_id FROM generations "
                     "WHERE session=? AND finished=0 ORDER BY rowid");
    s.bind(out.info.id);
    for (;;) {
        TROUPE_TRY(const bool row, s.step());
        if (!row) return {};
        stored_generation g{
            s.text(0), out.info.id, s.text(1), s.ids(2), s.text(3), s.text(4), s.text(5), s.text(6), {}, 0};
        statement j(db_, "SELECT pos,tokens,mu FROM journal WHERE generation=? ORDER BY pos");
        j.bind(g.id);
        for (;;) {
            TROUPE_TRY(const bool more, j.step());
            // A hole (tokens lost while persistence was degraded) ends what can be trusted.
            if (!more || j.integer(0) > static_cast<std::int64_t>(g.tokens.size())) break;
            g.tokens.resize(static_cast<std::size_t>(j.integer(0)));
            const auto ids = j.ids(1);
            g.tokens.insert(g.tokens.end(), ids.begin(), ids.end());
            g.mu = static_cast<float>(j.real(2));
        }
        out.unfinished.push_back(std::move(g));
    }
}

result<session_page> database::list(std::int64_t limit, const std::string& after, const std::string& search) {
    std::int64_t created = 0;
    if (!after.empty()) {
        statement s(db_, "SELECT created FROM sessions WHERE id=?");
        TROUPE_TRY(const bool row, s.bind(after).step());
        if (!row) return fail(errc::not_found, "after names no session", "after");
        created = s.integer(0);
    }
    std::string sql = fmt::format("{}WHERE 1 ", session_columns);
    if (!after.empty()) sql += "AND (created, id) < (?, ?) ";
    if (!search.empty())
        sql += "AND (title LIKE ? ESCAPE '\\' OR EXISTS(SELECT 1 FROM messages m WHERE m.session=sessions.id AND "
               "m.content LIKE ? ESCAPE '\\')) ";
    sql += "ORDER BY created DESC, id DESC LIMIT ?";
    statement s(db_, sql);
    if (!after.empty()) s.bind(created).bind(after);
    if (!search.empty()) s.bind(escape_like(search)).bind(escape_like(search));
    s.bind(limit + 1);
    session_page page;
    for (;;) {
        TROUPE_TRY(const bool row, s.step());
        if (!row) return page;
        if (static_cast<std::int64_t>(page.sessions.size()) == limit) {
            page.has_more = true;
            return page;
        }
        TROUPE_TRY(auto v, read_session(s));
        page.sessions.push_back(std::move(v));
    }
}

result<std::vector<std::string>> database::unfinished() {
    statement s(db_, "SELECT DISTINCT session FROM generations WHERE finished=0 ORDER BY rowid");
    std::vector<std::string> r;
    for (;;) {
        TROUPE_TRY(const bool row, s.step());
        if (!row) return r;
        r.push_back(s.text(0));
    }
}

}  // namespace troupe::actors
