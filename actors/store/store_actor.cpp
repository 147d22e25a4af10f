#include "actors/store/store_actor.hpp"

#include <stdexcept>

#include <fmt/format.h>

#include "actors/messages.hpp"
#include "core/limits.hpp"
#include "core/log.hpp"

namespace troupe::actors {
namespace {

using store_self = caf::stateful_actor<store_state>;

std::size_t size_of(const record& r) {
    if (const auto* m = std::get_if<put_message>(&r)) return sizeof(record) + m->message.view.content.size();
    if (const auto* a = std::get_if<append_tokens>(&r)) return sizeof(record) + a->tokens.size() * 4;
    if (const auto* g = std::get_if<put_generation>(&r)) return sizeof(record) + g->generation.prompt.size() * 4;
    return sizeof(record);
}

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

void open_database(store_self* self, const store_options& options) {
    auto& s = self->state;
    std::string reason = options.no_file_reason;
    if (!options.file.empty()) {
        auto opened = database::open(options.file);
        if (opened) {
            s.db = std::move(*opened);
            if (!s.db->notice().empty()) log::warn("store_notice text=\"{}\"", s.db->notice());
            return;
        }
        reason = opened.error().message;
    }
    auto memory = database::open_in_memory();
    CHECK(memory.ok(), "SQLite cannot open a database in memory");
    s.db = std::move(*memory);
    s.in_memory = true;
    report(self, true, reason.empty() ? "there is no data directory" : reason);
}

void defer(store_state& s, const store_write& w, store_ack& ack) {
    std::size_t bytes = 0;
    for (const auto& r : *w.records) bytes += size_of(r);
    if (s.backlog_bytes + bytes > limits::store_backlog_bytes) {
        ack.how = saved::refused;
        return;
    }
    s.backlog_bytes += bytes;
    s.backlog.insert(s.backlog.end(), w.records->begin(), w.records->end());
    ack.how = saved::deferred;
}

void flush(store_self* self) {
    auto& s = self->state;
    s.flush_queued = false;
    if (s.waiting.empty()) return;
    auto writes = std::exchange(s.waiting, {});
    bool written = false;
    if (s.backlog.empty()) {
        std::vector<record> all;
        for (const auto& w : writes) all.insert(all.end(), w.records->begin(), w.records->end());
        auto done = s.db->apply(all);
        written = done.ok();
        if (written) {
            ++s.commits;
            s.records_written += all.size();
        } else {
            report(self, true, done.error().message);
            self->delayed_send(self, limits::store_retry_every, store_retry{});
        }
    }
    for (const auto& w : writes) {
        store_ack ack{w.ticket, s.in_memory ? saved::deferred : saved::durable};
        if (!written) defer(s, w, ack);
        self->send(w.owner, ack);
    }
}

void retry(store_self* self) {
    auto& s = self->state;
    if (!s.backlog.empty()) {
        if (auto done = s.db->apply(s.backlog); !done) {
            s.reason = done.error().message;
            self->delayed_send(self, limits::store_retry_every, store_retry{});
            return;
        }
        ++s.commits;
        s.records_written += s.backlog.size();
        s.backlog.clear();
        s.backlog_bytes = 0;
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
    open_database(self, options);
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
            auto r = self->state.db->load(q.session);
            if (!r) return make_caf_error(r.error());
            return *r ? std::make_shared<const stored_session>(std::move(**r)) : session_ptr();
        },
        [self](const store_list& q) -> caf::result<page_ptr> {
            flush(self);
            return boxed<session_page>(self->state.db->list(q.limit, q.after, q.search));
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
                s.commits, s.records_written, s.backlog.size(), s.backlog_bytes, s.degraded, self->mailbox().size());
        },
    };
}

}  // namespace troupe::actors
