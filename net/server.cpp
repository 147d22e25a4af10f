#include "net/server.hpp"

#include <algorithm>
#include <fstream>
#include <future>
#include <sstream>
#include <thread>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fmt/format.h>

#include "core/limits.hpp"
#include "core/log.hpp"
#include "net/connection.hpp"
#include "net/port_holder.hpp"

namespace troupe::net {
namespace asio = boost::asio;
using asio::ip::tcp;
namespace {

result<std::shared_ptr<asio::ssl::context>> load_tls(const config& c) {
    if (c.tls_cert.empty() && c.tls_key.empty()) return std::shared_ptr<asio::ssl::context>();
    if (c.tls_cert.empty() || c.tls_key.empty())
        return fail(errc::usage, "--tls-cert and --tls-key belong together", "tls-cert");
    auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
    error_code ec;
    context->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_sslv2 |
                             asio::ssl::context::no_sslv3 | asio::ssl::context::no_tlsv1 |
                             asio::ssl::context::no_tlsv1_1,
        ec);
    context->use_certificate_chain_file(c.tls_cert, ec);
    if (ec) return fail(errc::usage, fmt::format("--tls-cert: '{}': {}", c.tls_cert, ec.message()), "tls-cert");
    context->use_private_key_file(c.tls_key, asio::ssl::context::pem, ec);
    if (ec) return fail(errc::usage, fmt::format("--tls-key: '{}': {}", c.tls_key, ec.message()), "tls-key");
    return context;
}

/// limits::max_connections, or what the process's file descriptors allow.
std::size_t connections_possible() {
    rlimit files{};
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY) return limits::max_connections;
    const auto spare = std::max<std::size_t>(files.rlim_cur, 2 * limits::descriptors_kept) - limits::descriptors_kept;
    return std::min(limits::max_connections, spare);
}

class server_impl final : public server {
 public:
    server_impl(const config& c, session_port& s, engine_port& e, troupe::metrics& m, std::string version,
        std::shared_ptr<access_rules> access, std::shared_ptr<asio::ssl::context> tls)
        : config_(c), access_(std::move(access)), tls_(std::move(tls)), acceptor_(io_), retry_(io_),
          router_(services{s, e, m, config_, *access_, std::move(version)}), context_{io_, router_} {}

    ~server_impl() override { shutdown(std::chrono::milliseconds(0)); }

    result<void> open() {
        error_code ec;
        const auto host = config_.host == "localhost" ? std::string("127.0.0.1") : config_.host;
        const auto address = asio::ip::make_address(host, ec);
        if (ec) return fail(errc::usage, fmt::format("--host: '{}' is no IP address", config_.host), "host");
        const tcp::endpoint endpoint(address, static_cast<std::uint16_t>(config_.port));
        acceptor_.open(endpoint.protocol(), ec);
        if (ec) return fail(errc::usage, fmt::format("--host: {}: {}", config_.host, ec.message()), "host");
        acceptor_.set_option(tcp::acceptor::reuse_address(true), ec);
        acceptor_.bind(endpoint, ec);
        if (!ec) acceptor_.listen(asio::socket_base::max_listen_connections, ec);
        if (ec == asio::error::address_in_use)
            return fail(errc::address_in_use,
                fmt::format("port {} is in use{}", config_.port,
                    describe_port_holder(static_cast<std::uint16_t>(config_.port))),
                "port");
        if (ec)
            return fail(errc::usage,
                fmt::format("cannot listen on {}:{}: {}", config_.host, config_.port, ec.message()), "port");
        port_ = acceptor_.local_endpoint().port();
        context_.max_open = connections_possible();
        accept();
        thread_ = std::thread([this] { io_.run(); });
        return {};
    }

    std::uint16_t port() const override { return port_; }
    std::string url() const override {
        const bool v6 = config_.host.find(':') != std::string::npos;
        return fmt::format(
            "{}://{}{}{}:{}", tls_ ? "https" : "http", v6 ? "[" : "", config_.host, v6 ? "]" : "", port_);
    }

    void stop_accepting() override {
        asio::post(io_, [this] {
            error_code ignored;
            acceptor_.close(ignored);
        });
    }

    void shutdown(std::chrono::milliseconds deadline) override {
        if (!thread_.joinable()) return;
        auto closed = std::make_shared<std::promise<void>>();
        auto waiting = closed->get_future();
        asio::post(io_, [this, closed] {
            error_code ignored;
            acceptor_.close(ignored);
            retry_.cancel();
            context_.closing = true;
            const auto open = context_.open;
            for (const auto& c : open) c->close();
            wait_until_empty(closed);
        });
        waiting.wait_for(deadline);
        io_.stop();
        thread_.join();
        context_.open.clear();
    }

    bool answers(std::chrono::milliseconds within) override {
        auto there = std::make_shared<std::promise<void>>();
        auto back = there->get_future();
        asio::post(io_, [there] { there->set_value(); });
        return back.wait_for(within) == std::future_status::ready;
    }

    void reload() override {
        if (auto r = access_->reload(); !r) log::warn("keys_kept reason=\"{}\"", r.error().message);
        auto tls = load_tls(config_);
        if (!tls) return log::warn("certificate_kept reason=\"{}\"", tls.error().message);
        asio::post(io_, [this, fresh = *tls] { tls_ = fresh; });
    }

 private:
    void accept() {
        acceptor_.async_accept([this](error_code ec, tcp::socket socket) {
            if (ec == asio::error::operation_aborted || !acceptor_.is_open()) return;
            if (ec) return accept_later(ec);
            if (context_.open.size() >= context_.max_open) make_room();
            if (context_.open.size() >= context_.max_open) {
                error_code ignored;
                socket.close(ignored);
            } else {
                watch_peer(socket);
                auto t = tls_ ? make_tls_transport(std::move(socket), tls_) : make_plain_transport(std::move(socket));
                make_http_connection(context_, std::move(t))->start();
            }
            accept();
        });
    }

    /// Full: whoever has waited longest without a request goes, so that a question about health still gets in.
    void make_room() {
        std::shared_ptr<connection> longest;
        for (const auto& c : context_.open)
            if (c->idle_since() && (!longest || *c->idle_since() < *longest->idle_since())) longest = c;
        if (longest) longest->close();
    }

    /// A peer that vanished without a word is found when what was sent to it is not acknowledged.
    static void watch_peer(tcp::socket& socket) {
        error_code ignored;
        socket.set_option(asio::socket_base::keep_alive(true), ignored);
        const unsigned int ms =
            std::chrono::duration_cast<std::chrono::milliseconds>(limits::peer_unreachable_after).count();
        setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
    }

    /// Out of file descriptors and the like: trying again at once would burn the processor.
    void accept_later(error_code why) {
        log::warn("accept_failed reason=\"{}\"", why.message());
        retry_.expires_after(std::chrono::milliseconds(200));
        retry_.async_wait([this](error_code ec) {
            if (!ec) accept();
        });
    }

    void wait_until_empty(std::shared_ptr<std::promise<void>> done) {
        if (context_.open.empty()) return done->set_value();
        retry_.expires_after(std::chrono::milliseconds(10));
        retry_.async_wait([this, done](error_code) { wait_until_empty(done); });
    }

    const config config_;
    std::shared_ptr<access_rules> access_;
    std::shared_ptr<asio::ssl::context> tls_;
    asio::io_context io_{1};
    /// Without it the thread would leave with the last connection, and shutdown would wait for nobody.
    asio::executor_work_guard<asio::io_context::executor_type> stays_ = asio::make_work_guard(io_);
    tcp::acceptor acceptor_;
    asio::steady_timer retry_;
    router router_;
    connection_context context_;
    std::thread thread_;
    std::uint16_t port_ = 0;
};

}  // namespace

result<std::unique_ptr<server>> server::start(
    const config& c, session_port& s, engine_port& e, troupe::metrics& m, std::string version) {
    TROUPE_TRY(auto tls, load_tls(c));
    TROUPE_TRY(auto access, access_rules::make(c, tls != nullptr));
    auto server = std::make_unique<server_impl>(c, s, e, m, std::move(version), std::move(access), std::move(tls));
    TROUPE_TRYV(server->open());
    return std::unique_ptr<net::server>(std::move(server));
}

}  // namespace troupe::net
