// One stream type for plain and TLS connections, so that Beast's expensive templates are compiled once: a virtual
// transport under an AsyncStream. Everything runs on the single I/O thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/beast/core/role.hpp>
#include <boost/system/error_code.hpp>

namespace troupe::net {

using boost::system::error_code;
using transfer_handler = std::function<void(error_code, std::size_t)>;

class transport {
 public:
    virtual ~transport() = default;
    virtual void read_some(std::vector<boost::asio::mutable_buffer> buffers, transfer_handler done) = 0;
    virtual void write_some(std::vector<boost::asio::const_buffer> buffers, transfer_handler done) = 0;
    virtual void handshake(std::function<void(error_code)> done) = 0;
    /// Says that nothing more comes (TLS close_notify, then FIN); the other side may still send.
    virtual void end_output(std::function<void()> done) = 0;
    /// Ends the connection politely (TLS close_notify), then closes the socket.
    virtual void shutdown(std::function<void()> done) = 0;
    virtual boost::asio::ip::tcp::socket& socket() = 0;
};

std::unique_ptr<transport> make_plain_transport(boost::asio::ip::tcp::socket socket);
std::unique_ptr<transport> make_tls_transport(
    boost::asio::ip::tcp::socket socket, std::shared_ptr<boost::asio::ssl::context> context);

class any_stream {
 public:
    using executor_type = boost::asio::any_io_executor;

    explicit any_stream(std::unique_ptr<transport> t) : transport_(std::move(t)) {}

    executor_type get_executor() { return transport_->socket().get_executor(); }
    transport& base() { return *transport_; }

    /// Gives bytes back that were read too far: the next read gets them first.
    void unread(std::string bytes) { early_ = std::move(bytes); }

    template <class Buffers, class Token> auto async_read_some(const Buffers& buffers, Token&& token) {
        return boost::asio::async_initiate<Token, void(error_code, std::size_t)>(
            [this](auto handler, const auto& b) {
                std::vector<boost::asio::mutable_buffer> list(
                    boost::asio::buffer_sequence_begin(b), boost::asio::buffer_sequence_end(b));
                if (early_.empty()) return transport_->read_some(std::move(list), erase(std::move(handler)));
                const auto n = boost::asio::buffer_copy(list, boost::asio::buffer(early_));
                early_.erase(0, n);
                boost::asio::post(get_executor(), [done = erase(std::move(handler)), n] { done({}, n); });
            },
            token, buffers);
    }

    template <class Buffers, class Token> auto async_write_some(const Buffers& buffers, Token&& token) {
        return boost::asio::async_initiate<Token, void(error_code, std::size_t)>(
            [this](auto handler, const auto& b) {
                std::vector<boost::asio::const_buffer> list(
                    boost::asio::buffer_sequence_begin(b), boost::asio::buffer_sequence_end(b));
                transport_->write_some(std::move(list), erase(std::move(handler)));
            },
            token, buffers);
    }

 private:
    /// Handlers may be move-only; std::function wants copies.
    template <class Handler> transfer_handler erase(Handler handler) {
        auto executor = boost::asio::get_associated_executor(handler, get_executor());
        auto shared = std::make_shared<Handler>(std::move(handler));
        return [shared, executor](error_code ec, std::size_t n) {
            boost::asio::dispatch(executor, [shared, ec, n] { (*shared)(ec, n); });
        };
    }

    std::unique_ptr<transport> transport_;
    std::string early_;
};

/// Beast closes the socket so when its own time-outs end a connection.
void beast_close_socket(any_stream& s);
/// Beast asks for these at the end of a WebSocket's closing handshake.
void teardown(boost::beast::role_type, any_stream& s, error_code& ec);
template <class Handler> void async_teardown(boost::beast::role_type, any_stream& s, Handler&& handler) {
    auto executor = boost::asio::get_associated_executor(handler, s.get_executor());
    auto shared = std::make_shared<std::decay_t<Handler>>(std::forward<Handler>(handler));
    s.base().shutdown([shared, executor] { boost::asio::dispatch(executor, [shared] { (*shared)(error_code{}); }); });
}

}  // namespace troupe::net
