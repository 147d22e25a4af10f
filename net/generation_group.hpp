// The generations of one HTTP request (n choices, several prompts): started in order, some at a time, all ended when
// one fails or the client goes.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "net/http_types.hpp"
#include "net/routes.hpp"

namespace troupe::net {

/// All calls and handlers on the I/O thread.
class generation_group : public std::enable_shared_from_this<generation_group> {
 public:
    struct handlers {
        /// The first ones were accepted; their events follow.
        std::function<void()> started;
        std::function<void(std::size_t part, const event& e)> on_event;
        /// One was refused or failed. Nothing else is called afterwards.
        std::function<void(const error& e)> failed;
    };

    generation_group(exchange_ptr x, services& s, std::vector<completion_request> parts, handlers h);
    /// Starts the first parts. When the client goes, all are cancelled.
    void run();
    /// Cancels what runs; no handler is called any more.
    void cancel();
    /// Ends one part: its generation_done follows.
    void stop(std::size_t part);
    bool all_done() const { return n_done_ == parts_.size(); }

 private:
    class member;
    enum class state : std::uint8_t { waiting, asked, running, done };
    struct part {
        completion_request request;
        state is = state::waiting;
        std::optional<generation_ticket> ticket;
        std::vector<event> early;  ///< events that overtook the ticket
    };

    void start_more();
    void ask(std::size_t i);
    void answered(std::size_t i, const result<generation_ticket>& r);
    void delivered(std::size_t i, const event& e);
    void handle(std::size_t i, const event& e);
    void fail(const error& e);
    std::size_t count(state s) const;

    exchange_ptr exchange_;
    services& services_;
    std::vector<part> parts_;
    handlers handlers_;
    std::size_t most_at_once_, n_done_ = 0;
    bool started_ = false, over_ = false;
    std::deque<std::pair<std::size_t, event>> held_;  ///< until `started`
};

}  // namespace troupe::net
