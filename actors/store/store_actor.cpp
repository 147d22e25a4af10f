#include "actors/store/store_actor.hpp"

#include <stdexcept>

#include <fmt/format.h>

#include "actors/messages.hpp"
#include "core/limits.hpp"
#include "core/log.hpp"

namespace troupe::actors {
namespace {

using store_self = caf::stateful_actor<store_state>;

/// Tells the listener when persistence degrades or heals, and how much waits for the disk.
void report(store_self* self) {
    auto& s = self->state;
    const std::size_t lag = s.writer->backlog().tokens();
    if (std::exchange(s.told_lag, lag) != lag && s.journal_lag) s.journal_lag(lag);
    const bool degraded = s.writer->degraded();
    if (std::exchange(s.told_degraded, degraded) == degraded) return;
    if (degraded)
        log::warn("persistence_degraded reason=\"{}\"", s.writer->reason());
    else
        log::info("persistence_restored");
    if (s.listener) self->send(s.listener, persistence_state{degraded, s.writer->reason()});
}

void degrade(store_self* self, std::string reason) {
    self->state.writer->failed(std::move(reason));
    report(self);
}

/// Empty while the file cannot be opened.
apply_records disk_of(store_state& s) {
    if (s.waits_for_file) return {};
    return [&s](std::span<const record> records) { return s.db->apply(records); };
}

void try_again(store_self* self) { self->delayed_send(self, limits::store_retry_every, store_retry{}); }

/// The file, or (until it can be opened) a database in memory that only reads: writes go to the backlog.
void open_database(store_self* self, const store_options& options) {
    auto& s = self->state;
    s.file = options.file;
    if (!s.file.empty()) {
        auto opened = database::open(s.file);
        if (opened) {
            s.db = std::move(*opened);
            if (!s.db->notice().empty()) log::warn("store_notice text=\"{}\"", s.db->notice());
            return;
        }
        s.waits_for_file = true;
        degrade(self, opened.error().message);
        try_again(self);
    }
    auto memory = database::open_in_memory();
    CHECK(memory.ok(), "SQLite cannot open a database in memory");
    s.db = std::move(*memory);
    if (s.file.empty())
        degrade(self, options.no_file_reason.empty() ? "there is no data directory" : options.no_file_reason);
}

/// The file turned out to be damaged while it was in use: it is set aside, a fresh one takes its place.
void open_again(store_self* self) {
    auto& s = self->state;
    s.db.reset();
    auto opened = database::open(s.file, true);
    s.waits_for_file = !opened;
    if (opened) {
        s.db = std::move(*opened);
        log::error("store_reopened notice=\"{}\"", s.db->notice());
        return;
    }
    auto memory = database::open_in_memory();
    CHECK(memory.ok(), "SQLite cannot open a database in memory");
    s.db = std::move(*memory);
}

void damage_found(store_self* self, const error& e) {
    degrade(self, e.message);
    open_again(self);
    try_again(self);
}

void flush(store_self* self) {
    auto& s = self->state;
    s.flush_queued = false;
    if (s.waiting.empty()) return;
    const auto writes = std::exchange(s.waiting, {});
    std::vector<store_writer::rows> rows;
    for (const auto& w : writes) rows.push_back(w.records);
    const bool was_degraded = s.writer->degraded();
    const auto how = s.writer->commit(rows, disk_of(s));
    if (s.writer->degraded() && s.db->damaged()) open_again(self);
    if (!was_degraded && s.writer->degraded()) try_again(self);
    report(self);
    for (std::size_t i = 0; i < writes.size(); ++i) {
        const bool in_memory = how[i] == saved::durable && s.file.empty();
        self->send(writes[i].owner, store_ack{writes[i].ticket, in_memory ? saved::deferred : how[i]});
    }
}

void retry(store_self* self) {
    auto& s = self->state;
    if (s.waits_for_file) {
        auto opened = database::open(s.file);
        if (!opened) return try_again(self);
        s.db = std::move(*opened);
        s.waits_for_file = false;
    }
    if (!s.writer->retry(disk_of(s))) {
        if (s.db->damaged()) open_again(self);
        return try_again(self);
    }
    report(self);
}

void fire_fault(store_state& s) {
    if (s.fault_after < 0) return;
    if (s.fault_after-- == 0) throw std::runtime_error("injected fault");
}

template <class T, class R> caf::result<std::shared_ptr<const T>> boxed(result<R> r) {
    if (!r) return make_caf_error(r.error());
    return std::make_shared<const T>(std::move(*r));
}

}  // namespace

caf::behavior store_actor(store_self* self, store_options options, caf::actor listener) {
    self->state.listener = std::move(listener);
    self->set_exception_handler([](std::exception_ptr&) -> caf::error { return caf::sec::runtime_error; });
    self->state.writer.emplace(options.backlog);
    self->state.journal_lag = options.journal_lag;
    open_database(self, options);
    if (!options.backlog->empty() && !self->state.waits_for_file) {  // an incarnation died while the disk was full
        degrade(self, "records wait for the disk");
        self->send(self, store_retry{});
    }
    return {
        [self](const store_write& w) {
            auto& s = self->state;
            fire_fault(s);
            s.waiting.push_back(w);
            if (!std::exchange(s.flush_queued, true)) self->send(self, store_flush{});
        },
        [self](store_flush) { flush(self); },
        [self](store_retry) { retry(self); },
        [self](const store_load& q) -> caf::result<session_ptr> {
            flush(self);
            auto r = self->state.writer->backlog().load(*self->state.db, q.session);
            if (!r) {
                if (self->state.db->damaged()) damage_found(self, r.error());
                return make_caf_error(r.error());
            }
            return *r ? std::make_shared<const stored_session>(std::move(**r)) : session_ptr();
        },
        [self](const store_list& q) -> caf::result<page_ptr> {
            flush(self);
            return boxed<session_page>(self->state.writer->backlog().list(*self->state.db, q.limit, q.after, q.search));
        },
        [self](store_unfinished) -> caf::result<names_ptr> {
            flush(self);
            return boxed<std::vector<std::string>>(self->state.db->unfinished());
        },
        [self](const actor_fault& f) { self->state.fault_after = f.after; },
        [self](state_atom) {
            const auto& w = *self->state.writer;
            return fmt::format(
                R"({{"commits":{},"records":{},"backlog":{},"backlog_bytes":{},"degraded":{},"mailbox":{}}})",
                w.commits(), w.records_written(), w.backlog().size(), w.backlog().bytes(), w.degraded(),
                self->mailbox().size());
        },
    };
}

}  // namespace troupe::actors
