// HTTP as the routes see it: plain structs and an exchange to answer on. No Beast here, so routes compile fast.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/result.hpp"

namespace troupe::net {

struct http_request {
    std::string method;                          ///< upper case
    std::string path;                            ///< percent-decoded, without query
    std::map<std::string, std::string> query;    ///< percent-decoded
    std::map<std::string, std::string> headers;  ///< names in lower case; of repeated ones the last
    std::string body;
    std::string request_id;  ///< X-Request-Id as sent, or made here
    std::string peer;        ///< address of the other side
    std::string key;         ///< identity of the API key used; empty without keys
    bool admin = false;      ///< may use /admin (always, when no keys are set)

    std::string_view header(const std::string& name) const {
        const auto it = headers.find(name);
        return it == headers.end() ? std::string_view{} : std::string_view(it->second);
    }
};

using header_list = std::vector<std::pair<std::string, std::string>>;

struct http_response {
    int status = 200;
    std::string type = "application/json";
    std::string body;
    header_list headers = {};
};

/// A response body that is still being written. All calls on the I/O thread.
class byte_stream {
 public:
    virtual ~byte_stream() = default;
    virtual void write(std::string bytes) = 0;  ///< queued; a closed stream ignores it
    virtual void finish() = 0;                  ///< after what is queued, the response ends
    virtual void abort() = 0;                   ///< the connection is dropped
    virtual std::size_t queued() const = 0;     ///< bytes not yet handed to the socket
};

/// One request waiting for its answer. Answer exactly once, on the I/O thread (post gets you there).
class exchange {
 public:
    virtual ~exchange() = default;
    virtual const http_request& request() const = 0;
    virtual void respond(http_response response) = 0;
    /// Sends the head now; the body follows through the stream (chunked).
    virtual std::shared_ptr<byte_stream> open_stream(http_response head) = 0;
    /// Called once, on the I/O thread, if the client goes away before the answer has ended.
    virtual void on_gone(std::function<void()> callback) = 0;
    /// Runs on the I/O thread; callable from any thread. The task must keep the exchange alive itself.
    virtual void post(std::function<void()> task) = 0;
    /// Runs once after that many milliseconds on the I/O thread, unless the exchange has ended.
    virtual void after(int milliseconds, std::function<void()> task) = 0;
};
using exchange_ptr = std::shared_ptr<exchange>;

/// The error as the HTTP answer: OpenAI's error object, Retry-After where the error knows one.
http_response error_response(const error& e);
/// {"message", "type", "param", "code", ...} as JSON text, for `error` in any wire format.
std::string error_object(const error& e);
/// The end of an event stream that failed: data: {"error": ...}, then [DONE].
std::string error_frames(const error& e);

/// A reply that answers `x` with the error itself, or calls `good(value)` on the I/O thread.
template <class T, class F> std::function<void(result<T>)> on_reply(exchange_ptr x, F good) {
    return [x, good](result<T> r) {
        x->post([x, good, r = std::make_shared<result<T>>(std::move(r))]() mutable {
            if (!*r)
                x->respond(error_response(r->error()));
            else
                good(*std::move(*r));
        });
    };
}

}  // namespace troupe::net
