// The HTTP routes: what each path and method does with an exchange.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/config.hpp"
#include "core/metrics.hpp"
#include "core/ports.hpp"
#include "net/access.hpp"
#include "net/http_types.hpp"

namespace troupe::net {

/// What every route may use.
struct services {
    session_port& sessions;
    engine_port& engine;
    troupe::metrics& metrics;
    const config& settings;
    const access_rules& access;
    std::string version;
};

/// Segments captured by {} in the pattern, in order.
using captures = std::vector<std::string>;
using handler = std::function<void(services&, exchange_ptr, const captures&)>;

struct route {
    std::string method;
    std::string pattern;  ///< "/v1/sessions/{}/messages"
    handler handle;
    bool open = false;   ///< needs no key
    bool admin = false;  ///< needs an administrator's key
};

class router {
 public:
    explicit router(services s);
    /// Authenticates, finds the route, runs it; answers 401, 403, 404, 405 itself.
    void dispatch(const exchange_ptr& x, http_request& request);

    services& context() { return services_; }

 private:
    services services_;
    std::vector<route> routes_;
};

// Filed by topic; each appends to the list.
void add_engine_routes(std::vector<route>& routes);
void add_openai_routes(std::vector<route>& routes);
void add_embedding_routes(std::vector<route>& routes);
void add_llama_routes(std::vector<route>& routes);
void add_session_routes(std::vector<route>& routes);
void add_page_routes(std::vector<route>& routes);

/// The key of fairness and queue limits: API key, else `user`, else the session, else the peer.
std::string client_key_of(const http_request& r, std::string_view user, std::string_view session);

/// The answer of a JSON route.
http_response json_response(std::string body, int status = 200);

}  // namespace troupe::net
