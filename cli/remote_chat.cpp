#include "cli/remote_chat.hpp"

#include <cstdio>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/json.hpp>
#include <fmt/format.h>

namespace troupe::cli {
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
namespace json = boost::json;
namespace {

std::string body_of(const std::vector<chat_message>& messages) {
    json::array list;
    for (const auto& m : messages) list.push_back(json::object{{"role", m.role}, {"content", m.content}});
    return json::serialize(json::object{{"messages", std::move(list)}, {"stream", true}});
}

/// One "data:" line; prints its text and appends it.
result<void> take_line(std::string_view line, std::string& answer) {
    if (!line.starts_with("data: ") || line == "data: [DONE]") return {};
    boost::system::error_code ec;
    const auto v = json::parse(line.substr(6), ec);
    if (ec || !v.is_object()) return fail(errc::io, "the server sent something that is no JSON");
    const auto& o = v.as_object();
    if (const auto* e = o.if_contains("error")) return fail(errc::io, json::serialize(*e));
    const auto* choices = o.if_contains("choices");
    if (!choices || !choices->is_array() || choices->as_array().empty()) return {};
    const auto* delta = choices->as_array()[0].as_object().if_contains("delta");
    const auto* content = delta && delta->is_object() ? delta->as_object().if_contains("content") : nullptr;
    if (!content || !content->is_string()) return {};
    answer += content->as_string();
    std::fputs(content->as_string().c_str(), stdout);
    std::fflush(stdout);
    return {};
}

}  // namespace

result<std::string> ask_server(
    const std::string& url, const std::string& key, const std::vector<chat_message>& messages) {
    constexpr std::string_view scheme = "http://";
    const auto rest = std::string_view(url).substr(std::min(url.size(), scheme.size()));
    const auto colon = rest.rfind(':');
    if (!url.starts_with(scheme) || colon == std::string_view::npos)
        return fail(errc::usage, "--server: http://HOST:PORT is expected", "server");
    const std::string host(rest.substr(0, colon)), port(rest.substr(colon + 1, rest.find('/', colon) - colon - 1));

    beast::error_code ec;
    asio::io_context io;
    asio::ip::tcp::resolver resolver(io);
    asio::ip::tcp::socket socket(io);
    const auto endpoints = resolver.resolve(host, port, ec);
    if (!ec) asio::connect(socket, endpoints, ec);
    if (ec) return fail(errc::io, fmt::format("cannot reach {}: {}", url, ec.message()));
    http::request<http::string_body> request{http::verb::post, "/v1/chat/completions", 11};
    request.set(http::field::host, host + ":" + port);
    request.set(http::field::content_type, "application/json");
    if (!key.empty()) request.set(http::field::authorization, "Bearer " + key);
    request.body() = body_of(messages);
    request.prepare_payload();
    http::write(socket, request, ec);
    if (ec) return fail(errc::io, ec.message());

    beast::flat_buffer buffer;
    http::response_parser<http::buffer_body> parser;
    parser.body_limit(boost::none);
    http::read_header(socket, buffer, parser, ec);
    std::string pending, answer;
    char piece[4096];
    while (!ec && !parser.is_done()) {
        parser.get().body() = {piece, sizeof piece, true};
        http::read_some(socket, buffer, parser, ec);
        if (ec == http::error::need_buffer) ec = {};
        pending.append(piece, sizeof piece - parser.get().body().size);
        if (parser.get().result() != http::status::ok) continue;
        for (auto end = pending.find('\n'); end != std::string::npos; end = pending.find('\n')) {
            TROUPE_TRYV(take_line(std::string_view(pending).substr(0, end), answer));
            pending.erase(0, end + 1);
        }
    }
    if (ec) return fail(errc::io, ec.message());
    if (parser.get().result() != http::status::ok) return fail(errc::io, pending);
    return answer;
}

}  // namespace troupe::cli
