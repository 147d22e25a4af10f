#include "net/any_stream.hpp"

#include <array>
#include <chrono>

#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>

namespace troupe::net {
namespace asio = boost::asio;
using asio::ip::tcp;
namespace {

void close_socket(tcp::socket& s) {
    error_code ignored;
    s.shutdown(tcp::socket::shutdown_both, ignored);
    s.close(ignored);
}

class plain_transport final : public transport {
 public:
    explicit plain_transport(tcp::socket s) : socket_(std::move(s)) {}
    void read_some(std::vector<asio::mutable_buffer> b, transfer_handler done) override {
        socket_.async_read_some(b, std::move(done));
    }
    void write_some(std::vector<asio::const_buffer> b, transfer_handler done) override {
        socket_.async_write_some(b, std::move(done));
    }
    void handshake(std::function<void(error_code)> done) override { done({}); }
    void end_output(std::function<void()> done) override {
        error_code ignored;
        socket_.shutdown(tcp::socket::shutdown_send, ignored);
        done();
    }
    /// Reads what still comes before it closes: closing with unread bytes resets the connection, and the other side
    /// would lose the close frame that tells it why.
    void shutdown(std::function<void()> done) override {
        error_code ignored;
        socket_.shutdown(tcp::socket::shutdown_send, ignored);
        drain_deadline_.expires_after(std::chrono::seconds(1));
        drain_deadline_.async_wait([this, alive = std::weak_ptr<int>(alive_)](error_code ec) {
            error_code closed;
            if (!ec && alive.lock()) socket_.close(closed);
        });
        drain(std::move(done));
    }
    tcp::socket& socket() override { return socket_; }

 private:
    void drain(std::function<void()> done) {
        socket_.async_read_some(
            asio::buffer(sink_), [this, done = std::move(done)](error_code ec, std::size_t) mutable {
                if (!ec) return drain(std::move(done));
                drain_deadline_.cancel();
                error_code ignored;
                socket_.close(ignored);
                done();
            });
    }

    tcp::socket socket_;
    asio::steady_timer drain_deadline_{socket_.get_executor()};
    std::array<char, 16384> sink_;
    std::shared_ptr<int> alive_ = std::make_shared<int>();  ///< an expired timer's handler may run after the transport
};

class tls_transport final : public transport {
 public:
    tls_transport(tcp::socket s, std::shared_ptr<asio::ssl::context> context)
        : context_(std::move(context)), stream_(std::move(s), *context_) {}
    void read_some(std::vector<asio::mutable_buffer> b, transfer_handler done) override {
        stream_.async_read_some(b, std::move(done));
    }
    void write_some(std::vector<asio::const_buffer> b, transfer_handler done) override {
        stream_.async_write_some(b, std::move(done));
    }
    void handshake(std::function<void(error_code)> done) override {
        stream_.async_handshake(asio::ssl::stream_base::server, std::move(done));
    }
    void end_output(std::function<void()> done) override {
        // async_shutdown also waits for the other side's close_notify; clients that never send one end by the deadline.
        stream_.async_shutdown([this, done = std::move(done)](error_code) {
            error_code ignored;
            stream_.next_layer().shutdown(tcp::socket::shutdown_send, ignored);
            done();
        });
    }
    void shutdown(std::function<void()> done) override {
        stream_.async_shutdown([this, done = std::move(done)](error_code) {
            close_socket(stream_.next_layer());
            done();
        });
    }
    tcp::socket& socket() override { return stream_.next_layer(); }

 private:
    std::shared_ptr<asio::ssl::context> context_;
    asio::ssl::stream<tcp::socket> stream_;
};

}  // namespace

std::unique_ptr<transport> make_plain_transport(tcp::socket socket) {
    return std::make_unique<plain_transport>(std::move(socket));
}

std::unique_ptr<transport> make_tls_transport(tcp::socket socket, std::shared_ptr<asio::ssl::context> context) {
    return std::make_unique<tls_transport>(std::move(socket), std::move(context));
}

void beast_close_socket(any_stream& s) { close_socket(s.base().socket()); }

void teardown(boost::beast::role_type, any_stream& s, error_code& ec) {
    close_socket(s.base().socket());
    ec = {};
}

}  // namespace troupe::net
