// HTTP/1.1 on one connection: read a request, check Host, Origin and size, dispatch, answer or stream, keep alive.
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket/rfc6455.hpp>
#include <deque>

#include "core/ids.hpp"
#include "core/limits.hpp"
#include "core/log.hpp"
#include "net/connection.hpp"
#include "net/url.hpp"

namespace troupe::net {
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
namespace {

constexpr auto keep_alive_for = std::chrono::seconds(75);
constexpr std::size_t max_pipelined_bytes = 64u << 10;

bool printable_id(std::string_view id) {
    return !id.empty() && id.size() <= 128 &&
           std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

bool plainly_chunked(const http::request<http::string_body>& head) {
    return head.count(http::field::transfer_encoding) == 1 && head.count(http::field::content_length) == 0 &&
           beast::iequals(head[http::field::transfer_encoding], "chunked");
}

class http_connection;

/// The exchange the routes see. Outlives the connection harmlessly.
class http_exchange final : public exchange, public std::enable_shared_from_this<http_exchange> {
 public:
    http_exchange(std::weak_ptr<http_connection> c, asio::any_io_executor io, http_request r)
        : connection_(std::move(c)), executor_(std::move(io)), request_(std::move(r)) {}

    const http_request& request() const override { return request_; }
    http_request& mutable_request() { return request_; }
    void respond(http_response response) override;
    std::shared_ptr<byte_stream> open_stream(http_response head) override;
    void on_gone(std::function<void()> callback) override {
        if (gone_) return callback();
        gone_callback_ = std::move(callback);
    }
    void post(std::function<void()> task) override { asio::post(executor_, std::move(task)); }
    void after(int milliseconds, std::function<void()> task) override {
        auto timer = std::make_shared<asio::steady_timer>(executor_, std::chrono::milliseconds(milliseconds));
        timer_ = timer;
        timer->async_wait([timer, task = std::move(task)](error_code ec) {
            if (!ec) task();
        });
    }

    bool has_gone_callback() const { return gone_callback_ != nullptr; }

    /// Connection side: the client has gone.
    void gone() {
        gone_ = true;
        end();
        if (auto callback = std::exchange(gone_callback_, nullptr)) callback();
    }
    void end() {
        if (timer_) timer_->cancel();
        timer_.reset();
    }
    void answered() {
        end();
        gone_callback_ = nullptr;
    }

 private:
    std::weak_ptr<http_connection> connection_;
    asio::any_io_executor executor_;
    http_request request_;
    std::function<void()> gone_callback_;
    std::shared_ptr<asio::steady_timer> timer_;
    bool gone_ = false, responded_ = false;
};

class http_connection final : public connection {
 public:
    http_connection(connection_context& c, std::unique_ptr<transport> t)
        : context_(c), stream_(std::make_unique<any_stream>(std::move(t))), deadline_(c.io), write_deadline_(c.io) {
        error_code ec;
        const auto peer = stream_->base().socket().remote_endpoint(ec);
        if (!ec) peer_ = peer.address().to_string();
        stream_->base().socket().set_option(asio::ip::tcp::no_delay(true), ec);
    }

    void start() override {
        idle_since_ = std::chrono::steady_clock::now();
        context_.open.insert(shared_from_this());
        expire_in(limits::http_read_timeout);
        stream_->base().handshake([self = self()](error_code ec) {
            if (ec) return self->drop();
            self->read_request();
        });
    }

    /// By now the engine is down and the last events of open streams are queued: what is open is ended.
    void close() override {
        closing_ = true;
        const auto x = exchange_;
        if (!x) {
            if (!writing_) drop();
        } else if (streaming_) {
            if (!stream_ended_)  // its answer goes on after the restart; this reader is told why nothing more comes
                stream_write(x, error_frames(fail(errc::shutting_down, "the server is shutting down")));
            stream_finish(x);
        } else if (!writing_) {
            x->respond(error_response(fail(errc::shutting_down, "the server is shutting down")));
        }
    }

    std::optional<std::chrono::steady_clock::time_point> idle_since() const override {
        if (exchange_ || writing_ || !stream_) return {};
        return idle_since_;
    }

    // -- called by the exchange --------------------------------------------------------------------------------------
    void respond(const std::shared_ptr<http_exchange>& x, http_response r) {
        if (x != exchange_ || !stream_) return;
        x->answered();
        auto message =
            std::make_shared<http::response<http::string_body>>(make_head<http::string_body>(r, x->request()));
        if (x->request().method == "HEAD") {
            const auto length = r.body.size();
            message->body().clear();
            message->content_length(length);
        } else if (r.status == 304 || r.status == 204) {
            message->body().clear();
        } else {
            message->body() = std::move(r.body);
            message->prepare_payload();
        }
        begin_write();
        auto serializer = std::make_shared<http::serializer<false, http::string_body>>(*message);
        if (x->request().method == "HEAD") {
            http::async_write_header(
                *stream_, *serializer, [self = self(), message, serializer](error_code ec, std::size_t) {
                    self->response_written(ec, message->keep_alive());
                });
            return;
        }
        http::async_write(*stream_, *serializer, [self = self(), message, serializer](error_code ec, std::size_t) {
            self->response_written(ec, message->keep_alive());
        });
    }

    bool open_stream(const std::shared_ptr<http_exchange>& x, const http_response& head) {
        if (x != exchange_ || !stream_) return false;
        auto message = make_head<http::empty_body>(head, x->request());
        chunked_ = version_ >= 11;  // HTTP/1.0 knows no chunks: there the end of the connection is the end
        message.chunked(chunked_);
        if (!chunked_) message.keep_alive(false);
        streaming_ = true;
        stream_keep_alive_ = message.keep_alive();
        std::ostringstream text;
        text << message.base();
        queue_.push_back(text.str());
        queued_bytes_ += queue_.back().size();
        write_queued();
        return true;
    }

    void stream_write(const std::shared_ptr<http_exchange>& x, std::string bytes) {
        if (x != exchange_ || !streaming_ || bytes.empty()) return;
        queued_bytes_ += bytes.size();
        pending_ += bytes;
        write_queued();
    }

    void stream_finish(const std::shared_ptr<http_exchange>& x) {
        if (x != exchange_ || !streaming_) return;
        x->answered();
        stream_ended_ = true;
        write_queued();
    }

    void stream_abort(const std::shared_ptr<http_exchange>& x) {
        if (x == exchange_) drop();
    }

    std::size_t queued() const { return queued_bytes_; }

 private:
    std::shared_ptr<http_connection> self() { return std::static_pointer_cast<http_connection>(shared_from_this()); }

    // -- reading

    void read_request() {
        if (closing_ || context_.closing) return drop();
        parser_.emplace();
        parser_->body_limit(context_.routes.context().settings.max_body);
        parser_->header_limit(64u << 10);
        http::async_read_header(
            *stream_, buffer_, *parser_, [self = self()](error_code ec, std::size_t) { self->header_read(ec); });
    }

    void header_read(error_code ec) {
        if (ec) return read_failed(ec);
        expire_in(limits::http_read_timeout);
        const auto& head = parser_->get();
        if (const auto e = head_refused(head)) return refuse(*e);
        if (const auto length = parser_->content_length();
            length && *length > context_.routes.context().settings.max_body)
            return too_large();
        if (beast::iequals(head[http::field::expect], "100-continue")) {
            continue_.emplace(http::status::continue_, 11);
            http::async_write(*stream_, *continue_, [self = self()](error_code failed, std::size_t) {
                if (failed) return self->drop();
                self->read_body();
            });
            return;
        }
        read_body();
    }

    /// A body is not worth reading for somebody who may not send one.
    std::optional<error> head_refused(const http::request<http::string_body>& head) const {
        const auto& access = context_.routes.context().access;
        if (head.count(http::field::host) != 1 || !access.host_allowed(std::string(head[http::field::host])))
            return fail(errc::forbidden, "this Host is not allowed (--allowed-host)");
        if (head.count(http::field::origin) > 1) return fail(errc::forbidden, "more than one Origin");
        // Of a body whose coding is unknown nobody can say where it ends (RFC 9112, 6.3).
        if (head.count(http::field::transfer_encoding) > 0 && !plainly_chunked(head))
            return fail(errc::invalid_request, "the only Transfer-Encoding is 'chunked', without Content-Length");
        const bool has_body = parser_->chunked() || parser_->content_length().value_or(0) > 0;
        if (!has_body || !access.keys_set()) return std::nullopt;
        const std::string authorization(head[http::field::authorization]), direct(head["x-api-key"]);
        const auto key = access_rules::bearer(authorization);
        if (access.authenticate(key.empty() ? std::string_view(direct) : key)) return std::nullopt;
        return fail(errc::unauthorized, "a valid API key is needed: Authorization: Bearer KEY");
    }

    void read_body() {
        http::async_read(*stream_, buffer_, *parser_, [self = self()](error_code ec, std::size_t) {
            if (ec) return self->read_failed(ec);
            self->deadline_.cancel();
            self->request_read();
        });
    }

    void read_failed(error_code ec) {
        if (ec == http::error::body_limit) return too_large();
        if (ec == http::error::header_limit)
            return refuse(fail(errc::payload_too_large, "the request's head is too large"));
        if (ec.category() == make_error_code(http::error::bad_method).category() && ec != http::error::end_of_stream &&
            ec != http::error::partial_message)
            return refuse(fail(errc::invalid_request, "the request is not valid HTTP: " + ec.message()));
        drop();
    }

    void too_large() {
        refuse(fail(errc::payload_too_large, "the body is larger than " +
                                                 std::to_string(context_.routes.context().settings.max_body) +
                                                 " bytes (--max-body)"));
    }

    /// Answers what cannot be parsed, then closes: where the next request would start is unknown.
    void refuse(const error& e) {
        deadline_.cancel();
        http_request r;
        const std::string id(parser_->get()["x-request-id"]);
        r.request_id = printable_id(id) ? id : make_id("req_");
        version_ = 11;
        closing_ = true;
        auto x = std::make_shared<http_exchange>(self(), stream_->get_executor(), std::move(r));
        exchange_ = x;
        x->respond(error_response(e));
    }

    // -- handling

    http_request make_request() {
        auto& message = parser_->get();
        http_request r;
        r.method = std::string(message.method_string());
        auto url = split_target(std::string_view(message.target().data(), message.target().size()));
        r.path = std::move(url.path);
        r.query = std::move(url.query);
        for (const auto& field : message) {
            std::string name(field.name_string());
            std::transform(name.begin(), name.end(), name.begin(),
                [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
            r.headers[name] = std::string(field.value());
        }
        r.body = std::move(message.body());
        const auto id = r.header("x-request-id");
        r.request_id = printable_id(id) ? std::string(id) : make_id("req_");
        r.peer = peer_;
        return r;
    }

    void request_read() {
        version_ = parser_->get().version();
        keep_alive_ = parser_->get().keep_alive();
        auto request = make_request();
        const auto& access = context_.routes.context().access;
        const std::string host(request.header("host")), origin(request.header("origin"));
        auto x = std::make_shared<http_exchange>(self(), stream_->get_executor(), std::move(request));
        exchange_ = x;
        if (!access.origin_allowed(origin, host))
            return x->respond(error_response(fail(errc::forbidden, "this Origin is not allowed (--allowed-origin)")));
        if (x->request().method == "OPTIONS" && !origin.empty()) return preflight(x);
        if (is_upgrade(x->request())) return upgrade_to_websocket(x);
        watch_client();
        context_.routes.dispatch(x, x->mutable_request());
    }

    void preflight(const std::shared_ptr<http_exchange>& x) {
        // The origin has been checked; which headers its scripts send is their affair (OpenAI's client sends many).
        const std::string asked(x->request().header("access-control-request-headers"));
        http_response r;
        r.status = 204;
        r.headers = {{"Access-Control-Allow-Methods", "GET, POST, PATCH, DELETE, OPTIONS"},
            {"Access-Control-Allow-Headers", asked.empty() ? "Authorization, Content-Type" : asked},
            {"Access-Control-Max-Age", "600"}};
        x->respond(std::move(r));
    }

    bool is_upgrade(const http_request& r) const {
        return r.path == "/ws" && parser_->upgrade() &&
               beast::iequals(parser_->get()[http::field::upgrade], "websocket");
    }

    void upgrade_to_websocket(const std::shared_ptr<http_exchange>& x) {
        const auto& access = context_.routes.context().access;
        auto key = access_rules::bearer(x->request().header("authorization"));
        if (key.empty()) key = x->request().header("x-api-key");
        const auto who = access.authenticate(key);
        if (context_.websockets + std::min(limits::http_connections_kept, context_.max_open / 2) >= context_.max_open)
            return x->respond(error_response(fail(errc::not_ready, "there are too many WebSocket connections")));
        auto request = parser_->release();
        upgrade u;
        u.meta = x->request();
        if (who) {
            u.meta.key = who->name;
            u.meta.admin = who->admin;
        }
        u.authenticated = who.has_value();
        u.stream = std::move(stream_);
        u.early_bytes = std::string(static_cast<const char*>(buffer_.data().data()), buffer_.size());
        u.request = &request;
        exchange_.reset();
        deadline_.cancel();
        context_.open.erase(shared_from_this());
        make_websocket_connection(context_, std::move(u))->start();
    }

    /// While a request is being answered, a read tells when the client goes; early bytes of the next request are kept.
    void watch_client() {
        if (watching_ || !stream_) return;
        if (buffer_.size() >= max_pipelined_bytes) return;
        watching_ = true;
        stream_->async_read_some(buffer_.prepare(4096), [self = self()](error_code ec, std::size_t n) {
            self->watching_ = false;
            if (!self->stream_) return;
            const bool resume = std::exchange(self->resuming_, false);
            if (ec == asio::error::operation_aborted && resume && !self->closing_) return self->next_request();
            if (ec == asio::error::eof && self->may_half_close()) return;
            if (ec) return self->drop();
            if (self->lingering_) return self->linger();
            self->buffer_.commit(n);
            if (self->exchange_ || self->writing_)
                self->watch_client();
            else
                self->next_request();
        });
    }

    /// A client that has said all it will say still gets a short answer; what streams or generates is cancelled.
    bool may_half_close() {
        if (!exchange_ || exchange_->request().method == "POST" || exchange_->has_gone_callback()) return false;
        keep_alive_ = stream_keep_alive_ = false;
        return true;
    }

    // -- writing

    template <class Body> http::response<Body> make_head(const http_response& r, const http_request& request) const {
        http::response<Body> message{static_cast<http::status>(r.status), version_};
        message.set(http::field::content_type, r.type);
        message.set("X-Request-Id", request.request_id);
        if (const auto origin = request.header("origin"); !origin.empty() && r.status != 403) {
            message.set(http::field::access_control_allow_origin, std::string(origin));
            message.set(http::field::access_control_expose_headers, "X-Request-Id, Retry-After");
            message.set(http::field::vary, "Origin");
        }
        for (const auto& [name, value] : r.headers) message.set(name, value);
        message.keep_alive(keep_alive_ && !closing_ && !context_.closing);
        return message;
    }

    /// A client that stops reading must not hold the connection and its buffers for ever.
    void begin_write() {
        writing_ = true;
        write_deadline_.expires_after(limits::http_write_timeout);
        write_deadline_.async_wait([weak = std::weak_ptr<http_connection>(self())](error_code ec) {
            if (const auto self = weak.lock(); self && !ec && self->writing_) self->drop();
        });
    }

    void end_write() {
        writing_ = false;
        write_deadline_.cancel();
    }

    void response_written(error_code ec, bool keep_alive) {
        end_write();
        exchange_.reset();
        if (ec || !stream_) return drop();
        if (!keep_alive || closing_ || context_.closing) return finish_and_close();
        next_request();
    }

    void next_request() {
        idle_since_ = std::chrono::steady_clock::now();
        if (watching_) {  // its completion comes here again
            expire_in(keep_alive_for);
            if (buffer_.size() == 0) return;
            resuming_ = true;  // the next request lies in the buffer already: nothing more may come
            error_code ignored;
            stream_->base().socket().cancel(ignored);
            return;
        }
        expire_in(
            buffer_.size() ? std::chrono::seconds(limits::http_read_timeout) : std::chrono::seconds(keep_alive_for));
        read_request();
    }

    void write_queued() {
        if (writing_ || !stream_) return;
        if (queue_.empty() && !pending_.empty()) {
            std::ostringstream size;
            size << std::hex << pending_.size() << "\r\n";
            queue_.push_back(chunked_ ? size.str() + pending_ + "\r\n" : pending_);
            pending_.clear();
        }
        if (queue_.empty()) {
            if (!stream_ended_ || last_chunk_sent_) return;
            if (!chunked_) return stream_done();
            last_chunk_sent_ = true;
            queue_.push_back("0\r\n\r\n");
        }
        begin_write();
        asio::async_write(*stream_, asio::buffer(queue_.front()), [self = self()](error_code ec, std::size_t) {
            self->end_write();
            if (ec || !self->stream_) return self->drop();
            self->queue_.pop_front();
            self->queued_bytes_ = self->pending_.size();
            if (self->last_chunk_sent_ && self->queue_.empty()) return self->stream_done();
            self->write_queued();
        });
    }

    void stream_done() {
        streaming_ = stream_ended_ = last_chunk_sent_ = false;
        queued_bytes_ = 0;
        pending_.clear();
        exchange_.reset();
        if (!stream_keep_alive_ || closing_ || context_.closing) return finish_and_close();
        next_request();
    }

    // -- ending

    void expire_in(std::chrono::nanoseconds d) {
        deadline_.expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(d));
        deadline_.async_wait([weak = std::weak_ptr<http_connection>(self())](error_code ec) {
            if (const auto self = weak.lock(); self && !ec && !self->exchange_) self->drop();
        });
    }

    /// Says that nothing more comes, then reads what the client still sends: closing at once would reset the connection
    /// and the client might lose the answer it has not read yet.
    void finish_and_close() {
        if (!stream_) return;
        lingering_ = closing_ = true;
        expire_in(context_.closing ? std::chrono::milliseconds(200) : std::chrono::milliseconds(2000));
        stream_->base().end_output([self = self()] { self->linger(); });
    }

    void linger() {
        if (!stream_ || watching_) return;
        watching_ = true;
        buffer_.clear();
        stream_->async_read_some(buffer_.prepare(16384), [self = self()](error_code ec, std::size_t n) {
            self->watching_ = false;
            self->lingered_ += n;
            if (ec || self->lingered_ > (64u << 20)) return self->drop();
            self->linger();
        });
    }

    void drop() {
        deadline_.cancel();
        write_deadline_.cancel();
        context_.open.erase(shared_from_this());
        if (!stream_) return;
        error_code ignored;
        stream_->base().socket().close(ignored);
        // The stream object stays until pending operations have ended; they hold this connection.
        if (auto x = std::exchange(exchange_, nullptr)) x->gone();
        closing_ = true;
    }

    connection_context& context_;
    std::unique_ptr<any_stream> stream_;
    asio::steady_timer deadline_, write_deadline_;
    beast::flat_buffer buffer_;
    std::optional<http::request_parser<http::string_body>> parser_;
    std::optional<http::response<http::empty_body>> continue_;
    std::shared_ptr<http_exchange> exchange_;
    std::string peer_;
    std::chrono::steady_clock::time_point idle_since_{};
    unsigned version_ = 11;
    bool keep_alive_ = false, closing_ = false, writing_ = false, watching_ = false;
    bool streaming_ = false, stream_ended_ = false, last_chunk_sent_ = false, stream_keep_alive_ = false;
    bool chunked_ = true, resuming_ = false, lingering_ = false;
    std::deque<std::string> queue_;
    std::string pending_;
    std::size_t queued_bytes_ = 0, lingered_ = 0;
};

class http_stream final : public byte_stream {
 public:
    http_stream(std::weak_ptr<http_connection> c, std::shared_ptr<http_exchange> x)
        : connection_(std::move(c)), exchange_(std::move(x)) {}
    void write(std::string bytes) override {
        with([&](auto& c) { c.stream_write(exchange_, std::move(bytes)); });
    }
    void finish() override {
        with([&](auto& c) { c.stream_finish(exchange_); });
    }
    void abort() override {
        with([&](auto& c) { c.stream_abort(exchange_); });
    }
    std::size_t queued() const override {
        const auto c = connection_.lock();
        return c ? c->queued() : 0;
    }

 private:
    template <class F> void with(F f) {
        if (const auto c = connection_.lock()) f(*c);
    }
    std::weak_ptr<http_connection> connection_;
    std::shared_ptr<http_exchange> exchange_;
};

void http_exchange::respond(http_response response) {
    if (std::exchange(responded_, true)) return;
    if (const auto c = connection_.lock()) c->respond(shared_from_this(), std::move(response));
}

std::shared_ptr<byte_stream> http_exchange::open_stream(http_response head) {
    if (std::exchange(responded_, true))
        return std::make_shared<http_stream>(std::weak_ptr<http_connection>(), nullptr);
    if (const auto c = connection_.lock()) c->open_stream(shared_from_this(), head);
    return std::make_shared<http_stream>(connection_, shared_from_this());
}

}  // namespace

std::shared_ptr<connection> make_http_connection(connection_context& c, std::unique_ptr<transport> t) {
    return std::make_shared<http_connection>(c, std::move(t));
}

}  // namespace troupe::net
