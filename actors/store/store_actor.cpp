#include "actors/store/store_actor.hpp"

#include <stdexcept>

#include <fmt/format.h>

#include "actors/messages.hpp"
#include "core/limits.hpp"
#include "core/log.hpp"

namespace troupe::actors {
namespace {

using store_self = caf::stateful_actor<store_state>;

void report(store_self* self, bool degraded, std::string reason) {
    auto& s = self->state;
    if (s.degraded == degraded) return;
    s.degraded = degraded;
    s.reason = reason;
    if (degraded)
        log::warn("persistence_degraded reason=\"{}\"", reason);
    else
        log::info("persistence_restored");
    if (s.listener) self->send(s.listener, persistence_state{degraded, std::move(reason)});
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
        report(self, true, opened.error().message);
        try_again(self);
    }
    auto memory = database::open_in_memory();
    CHECK(memory.ok(), "SQLite cannot open a database in memory");
    s.db = std::move(*memory);
    if (s.file.empty())
        report(self, true, options.no_file_reason.empty() ? "there is no data directory" : options.no_file_reason);
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
    report(self, true, e.message);
    open_again(self);
    try_again(self);
}

void flush(store_self* self) {
    auto& s = self->state;
    s.flush_queued = false;
    if (s.waiting.empty()) return;
    auto writes = std::exchange(s.waiting, {});
    bool written = false;
    if (s.backlog->empty() && !s.waits_for_file) {
        std::vector<record> all;
        for (const auto& w : writes) all.insert(all.end(), w.records->begin(), w.records->end());
        auto done = s.db->apply(all);
        written = done.ok();
        if (written) {
            ++s.commits;
            s.records_written += all.size();
        } else {
            report(self, true, done.error().message);
            if (s.db->damaged()) open_again(self);
            try_again(self);
        }
    }
    for (const auto& w : writes) {
        store_ack ack{w.ticket, s.file.empty() ? saved::deferred : saved::durable};
        if (!written) ack.how = s.backlog->add(*w.records) ? saved::deferred : saved::refused;
        self->send(w.owner, ack);
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
    if (const auto n = s.backlog->size(); n > 0) {
        if (auto done = s.backlog->write_to(*s.db); !done) {
            s.reason = done.error().message;
            if (s.db->damaged()) open_again(self);
            return try_again(self);
        }
        ++s.commits;
        s.records_written += n;
    }
    report(self, false, {});
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
    self->state.backlog = options.backlog;
    open_database(self, options);
    if (!self->state.backlog->empty() && !self->state.waits_for_file) {  // an incarnation died while the disk was full
        report(self, true, "records wait for the disk");
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
            auto r = self->state.backlog->load(*self->state.db, q.session);
            if (!r) {
                if (self->state.db->damaged()) damage_found(self, r.error());
                return make_caf_error(r.error());
            }
            return *r ? std::make_shared<const stored_session>(std::move(**r)) : session_ptr();
        },
        [self](const store_list& q) -> caf::result<page_ptr> {
            flush(self);
            return boxed<session_page>(self->state.backlog->list(*self->state.db, q.limit, q.after, q.search));
        },
        [self](store_unfinished) -> caf::result<names_ptr> {
            flush(self);
            return boxed<std::vector<std::string>>(self->state.db->unfinished());
        },
        [self](const actor_fault& f) { self->state.fault_after = f.after; },
        [self](state_atom) {
            const auto& s = self->state;
            return fmt::format(
                R"({{"commits":{},"records":{},"backlog":{},"backlog_bytes":{},"degraded":{},"mailbox":{}}})",
                s.commits, s.records_written, s.backlog->size(), s.backlog->bytes(), s.degraded,
                self->mailbox().size());
        },
    };
}

}  // namespace troupe::actors
