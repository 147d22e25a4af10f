// One WebSocket client: frames in, events out through a bounded queue, pings, authentication.
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <boost/json.hpp>

#include "core/limits.hpp"
#include "core/log.hpp"
#include "net/client_frames.hpp"
#include "net/connection.hpp"
#include "net/send_queue.hpp"

namespace troupe::net {
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = beast::websocket;
namespace {

using clock = std::chrono::steady_clock;
constexpr auto subprotocol = "troupe.v1";

template <class... F> struct overloaded : F... { using F::operator()...; };
template <class... F> overloaded(F...) -> overloaded<F...>;

class websocket_connection final : public connection, public client_port {
 public:
    websocket_connection(connection_context& c, upgrade u)
        : context_(c), services_(c.routes.context()), meta_(std::move(u.meta)), authenticated_(u.authenticated),
          request_(std::move(*static_cast<request_type*>(u.request))), early_(std::move(u.early_bytes)),
          socket_(std::move(*u.stream)), timer_(c.io), ops_timer_(c.io) {}

    void start() override {
        context_.open.insert(shared_from_this());
        ++context_.websockets;
        services_.metrics.websocket_connections.Increment();
        socket_.set_option(websocket::stream_base::decorator([this](websocket::response_type& r) {
            r.set("X-Request-Id", meta_.request_id);
            const std::string offered(meta_.header("sec-websocket-protocol"));
            if (beast::http::token_list(offered).exists(subprotocol))
                r.set(beast::http::field::sec_websocket_protocol, subprotocol);
        }));
        socket_.read_message_max(limits::max_websocket_frame);
        socket_.text(true);
        socket_.control_callback([this](websocket::frame_type, beast::string_view) { last_heard_ = clock::now(); });
        socket_.next_layer().unread(std::move(early_));  // frames that came together with the upgrade
        socket_.async_accept(request_, [self = self()](error_code ec) {
            if (ec) return self->drop();
            self->accepted();
        });
    }

    void close() override { close_with(websocket::close_code::going_away); }

    void deliver(event_ptr e, std::string_view request_id) override {
        // Counted before the post: a burst cannot grow the task queue past the bound unseen.
        const auto cost = event_cost(*e);
        if (posted_bytes_.fetch_add(cost) > limits::client_queue_drop_bytes) {
            posted_bytes_.fetch_sub(cost);
            return asio::post(context_.io, [self = self()] { self->too_slow(); });
        }
        asio::post(context_.io, [self = self(), e = std::move(e), id = std::string(request_id), cost]() mutable {
            self->posted_bytes_.fetch_sub(cost);
            if (self->gone_) return;
            self->queue_.push_event(std::move(e), std::move(id));
            self->pump();
        });
    }

 private:
    using request_type = beast::http::request<beast::http::string_body>;
    std::shared_ptr<websocket_connection> self() {
        return std::static_pointer_cast<websocket_connection>(shared_from_this());
    }
    client_ptr as_client() { return self(); }

    void accepted() {
        last_heard_ = opened_ = clock::now();
        // The vocabulary's size bounds token ids in frames; it never changes once known.
        services_.engine.models([self = self()](result<std::vector<model_card>> cards) {
            const std::int64_t n = cards && !cards->empty() ? cards->front().n_vocab : 0;
            asio::post(self->context_.io, [self, n] { self->n_vocab_ = n; });
        });
        watch();
        if (authenticated_) services_.engine.subscribe_health(as_client());
        read();
    }

    // -- reading

    void read() {
        if (gone_ || closing_) return;
        if (unanswered_ >= limits::max_unanswered_commands) {
            read_paused_ = true;
            return;
        }
        socket_.async_read(buffer_, [self = self()](error_code ec, std::size_t) {
            if (ec) return self->drop();
            self->last_heard_ = clock::now();
            self->frame_read();
        });
    }

    void frame_read() {
        if (socket_.got_binary()) return close_with(websocket::close_code::unknown_data);
        const std::string text(static_cast<const char*>(buffer_.data().data()), buffer_.size());
        buffer_.consume(buffer_.size());
        handle(parse_client_frame(text, n_vocab_));
        read();
    }

    void handle(const parsed_frame& p) {
        if (!authenticated_) {
            const auto* auth = p.frame ? std::get_if<auth_frame>(&*p.frame) : nullptr;
            if (!auth)
                return answer(
                    error_frame(fail(errc::unauthorized, "send {\"type\":\"auth\",\"key\":...} first"), p.request_id));
        }
        if (!p.frame) return answer(error_frame(p.frame.error(), p.request_id));
        std::visit([&](const auto& f) { run(f, p.request_id); }, *p.frame);
    }

    void run(const auth_frame& f, const std::string& id) {
        const auto who = services_.access.authenticate(f.key);
        if (!who) return answer(error_frame(fail(errc::unauthorized, "this key is not valid"), id));
        if (!authenticated_) services_.engine.subscribe_health(as_client());
        authenticated_ = true;
        meta_.key = who->name;
        meta_.admin = who->admin;
        answer(ack_frame(id));
    }
    void run(const create_frame& f, const std::string& id) {
        services_.sessions.create(
            f.title, f.settings, answering<session_view>(id, [](const session_view& v, const std::string& rid) {
                boost::json::object o{{"type", "session.created"}, {"session", v.id}};
                if (!rid.empty()) o["request_id"] = rid;
                return boost::json::serialize(o);
            }));
    }
    void run(const subscribe_frame& f, const std::string& id) {
        services_.sessions.subscribe(f.session, f.from, as_client(), acking(id));
    }
    void run(const unsubscribe_frame& f, const std::string& id) {
        services_.sessions.unsubscribe(f.session, as_client(), acking(id));
    }
    void run(const stop_frame& f, const std::string& id) { services_.sessions.stop(f.session, acking(id)); }
    void run(const ops_frame& f, const std::string& id) {
        if (!meta_.admin)
            return answer(error_frame(fail(errc::forbidden, "ops events need an administrator's key"), id));
        answer(ack_frame(id));
        const bool was = std::exchange(ops_on_, f.on);
        if (!f.on) ops_last_.clear();
        if (f.on && !was) poll_ops();
    }

    /// The state twice a second, sent only when it differs from what was sent last.
    void poll_ops() {
        services_.engine.state([self = self()](result<std::string> r) {
            asio::post(self->context_.io, [self, r = std::make_shared<result<std::string>>(std::move(r))] {
                if (self->gone_ || !self->ops_on_) return;
                if (*r && **r != self->ops_last_) {
                    self->ops_last_ = **r;
                    self->answer("{\"type\":\"ops\",\"state\":" + **r + "}");
                }
                self->ops_timer_.expires_after(std::chrono::milliseconds(500));
                self->ops_timer_.async_wait([weak = std::weak_ptr<websocket_connection>(self)](error_code ec) {
                    if (const auto s = weak.lock(); s && !ec && s->ops_on_) s->poll_ops();
                });
            });
        });
    }
    // The direct answer of these is message.created, which the session delivers with the request's id.
    void run(const message_frame& f, const std::string& id) {
        services_.sessions.message(f.session, f.message, client_key(f.session), as_client(), id, posting(id));
    }
    void run(const regenerate_frame& f, const std::string& id) {
        services_.sessions.regenerate(
            f.session, f.message, f.params, client_key(f.session), as_client(), id, posting(id));
    }
    void run(const edit_frame& f, const std::string& id) {
        services_.sessions.edit(
            f.session, f.message, f.content, f.params, client_key(f.session), as_client(), id, posting(id));
    }

    std::string client_key(const std::string& session) const { return client_key_of(meta_, "", session); }

    /// A reply that sends make(value, request_id), or the error.
    template <class T, class F> reply<T> answering(const std::string& id, F make) {
        ++unanswered_;
        return [self = self(), id, make](result<T> r) {
            asio::post(self->context_.io, [self, id, make, r = std::make_shared<result<T>>(std::move(r))] {
                const auto text = *r ? make(**r, id) : error_frame(r->error(), id);
                if (!text.empty()) self->answer(text);
                self->command_done();
            });
        };
    }
    reply<bool> acking(const std::string& id) {
        return answering<bool>(id, [](bool, const std::string& rid) { return ack_frame(rid); });
    }
    reply<posted> posting(const std::string& id) {
        return answering<posted>(
            id, [](const posted& p, const std::string& rid) { return p.duplicate ? ack_frame(rid) : std::string(); });
    }

    void command_done() {
        --unanswered_;
        if (!read_paused_ || unanswered_ >= limits::max_unanswered_commands) return;
        read_paused_ = false;
        read();
    }

    // -- writing

    void answer(std::string frame) {
        if (gone_) return;
        queue_.push_text(std::move(frame));
        pump();
    }

    void pump() {
        if (gone_) return;
        // One event above the bound (a long snapshot) is delivered all the same: nothing else would ever be.
        if (queue_.overflown() && (writing_ || queue_.frames() > 1)) return too_slow();
        if (writing_ || closing_ || queue_.empty()) return;
        writing_ = true;
        out_ = queue_.pop();
        socket_.async_write(asio::buffer(out_), [self = self()](error_code ec, std::size_t) {
            self->writing_ = false;
            if (ec) return self->drop();
            if (self->closing_) return self->send_close();
            self->pump();
        });
    }

    void too_slow() {
        if (gone_) return;
        services_.metrics.slow_clients_dropped.Increment();
        log::warn("slow_client_dropped peer={}", meta_.peer);
        drop();
    }

    // -- watching

    std::chrono::seconds silence() const { return std::chrono::seconds(services_.settings.websocket_silence); }

    void watch() {
        const auto wait =
            authenticated_ ? clock::duration(silence()) / 3 : clock::duration(limits::websocket_auth_within);
        timer_.expires_after(wait);
        timer_.async_wait([weak = std::weak_ptr<websocket_connection>(self())](error_code ec) {
            if (const auto self = weak.lock(); self && !ec) self->on_timer();
        });
    }

    void on_timer() {
        if (gone_ || closing_) return;
        if (!authenticated_) return close_with(websocket::close_code::policy_error);
        if (clock::now() - last_heard_ >= silence()) return drop();
        if (!pinging_ && !closing_) {
            pinging_ = true;
            socket_.async_ping({}, [self = self()](error_code) { self->pinging_ = false; });
        }
        watch();
    }

    // -- ending

    void close_with(websocket::close_code code) {
        if (gone_ || closing_) return;
        closing_ = true;
        reason_ = code;
        // A client that does not read must not keep the socket: whatever is still queued has this long.
        timer_.expires_after(std::chrono::seconds(2));
        timer_.async_wait([weak = std::weak_ptr<websocket_connection>(self())](error_code ec) {
            if (const auto self = weak.lock(); self && !ec) self->drop();
        });
        if (!writing_) send_close();
    }

    void send_close() {
        if (!queue_.empty() && reason_ == websocket::close_code::going_away) {
            // The last events (done, error) are worth their writes; each completion comes here again.
            closing_ = false;
            pump();
            closing_ = true;
            if (writing_ || gone_) return;
        }
        socket_.async_close(reason_, [self = self()](error_code) { self->drop(); });
    }

    void drop() {
        if (std::exchange(gone_, true)) return;
        timer_.cancel();
        ops_timer_.cancel();
        error_code ignored;
        socket_.next_layer().base().socket().close(ignored);
        services_.metrics.websocket_connections.Decrement();
        services_.sessions.disconnect(as_client());
        --context_.websockets;
        context_.open.erase(shared_from_this());
    }

    connection_context& context_;
    services& services_;
    http_request meta_;
    bool authenticated_;
    request_type request_;
    std::string early_;
    websocket::stream<any_stream, false> socket_;
    asio::steady_timer timer_, ops_timer_;
    beast::flat_buffer buffer_;
    send_queue queue_;
    std::string out_, ops_last_;
    std::atomic<std::size_t> posted_bytes_{0};
    std::size_t unanswered_ = 0;
    std::int64_t n_vocab_ = 0;
    clock::time_point last_heard_, opened_;
    websocket::close_code reason_ = websocket::close_code::normal;
    bool read_paused_ = false, writing_ = false, pinging_ = false, closing_ = false, ops_on_ = false, gone_ = false;
};

}  // namespace

std::shared_ptr<connection> make_websocket_connection(connection_context& c, upgrade u) {
    return std::make_shared<websocket_connection>(c, std::move(u));
}

}  // namespace troupe::net
