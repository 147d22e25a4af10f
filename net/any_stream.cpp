#include "net/any_stream.hpp"

#include <boost/asio/ssl/stream.hpp>

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
    void shutdown(std::function<void()> done) override {
        error_code ignored;
        socket_.shutdown(tcp::socket::shutdown_send, ignored);
        socket_.close(ignored);
        done();
    }
    tcp::socket& socket() override { return socket_; }

 private:
    tcp::socket socket_;
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
