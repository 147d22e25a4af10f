#include "actors/executor/parent_line.hpp"

#include <cerrno>

#include <boost/json.hpp>
#include <simdjson.h>
#include <sys/socket.h>

namespace troupe::actors {
namespace {

constexpr std::size_t longest_line = 64u << 10;

std::string text(const simdjson::dom::object& o, std::string_view key) {
    std::string_view value;
    return o[key].get(value) == simdjson::SUCCESS ? std::string(value) : std::string();
}

std::int64_t number(const simdjson::dom::object& o, std::string_view key) {
    std::int64_t value = 0;
    return o[key].get(value) == simdjson::SUCCESS ? value : 0;
}

}  // namespace

std::string encode_line(const line_message& m) {
    boost::json::object o{{"event", m.event}};
    if (m.event == "start") {
        o["cookie"] = m.cookie;
        o["epoch"] = static_cast<std::int64_t>(m.epoch);
    } else if (m.event == "ready") {
        o["port"] = m.port;
        o["pid"] = m.pid;
        o["build"] = m.build;
        o["numerics_id"] = m.numerics_id;
    } else if (m.event == "failed") {
        o["code"] = std::string(info(m.err.code).name);
        o["message"] = m.err.message;
        o["param"] = m.err.param;
    } else if (m.event == "fired") {
        o["fault"] = m.fault;
    }
    return boost::json::serialize(o) + "\n";
}

result<line_message> decode_line(std::string_view line) {
    simdjson::dom::parser parser;
    simdjson::dom::object o;
    if (parser.parse(simdjson::padded_string(line)).get(o) != simdjson::SUCCESS)
        return fail(errc::internal, "a line between front and executor is no JSON object");
    line_message m{.event = text(o, "event"),
        .cookie = text(o, "cookie"),
        .epoch = static_cast<std::uint64_t>(number(o, "epoch")),
        .port = static_cast<std::uint16_t>(number(o, "port")),
        .pid = static_cast<std::int32_t>(number(o, "pid")),
        .build = text(o, "build"),
        .numerics_id = text(o, "numerics_id"),
        .fault = text(o, "fault")};
    if (m.event.empty()) return fail(errc::internal, "a line between front and executor names no event");
    if (m.event == "failed") m.err = {errc_from_name(text(o, "code")), text(o, "message"), text(o, "param")};
    return m;
}

bool line_reader::feed(std::string_view bytes, const std::function<void(std::string_view)>& line) {
    if (broken_) return false;
    rest_ += bytes;
    std::size_t start = 0;
    for (std::size_t end; (end = rest_.find('\n', start)) != std::string::npos; start = end + 1)
        line(std::string_view(rest_).substr(start, end - start));
    rest_.erase(0, start);
    broken_ = rest_.size() > longest_line;
    return !broken_;
}

bool write_all(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
        const auto n = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
}

}  // namespace troupe::actors
