// OpenAI's request and response shapes (contracts/conventions.md section 1) to and from the engine's structs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/json.hpp>

#include "core/events.hpp"
#include "core/requests.hpp"
#include "core/result.hpp"
#include "net/json_in.hpp"

namespace troupe::net {

struct completion_wire {
    completion_request request;
    std::string user;
    bool stream = false, include_usage = false, return_progress = false, timings_per_token = false;
};

/// Bodies of /v1/chat/completions and /v1/completions. n_vocab for the ranges of token ids.
result<completion_wire> read_chat_request(const json_object& o, std::int64_t n_vocab);
result<completion_wire> read_text_request(const json_object& o, std::int64_t n_vocab);
/// The list under "messages": roles, contents (text, or a list of text parts), template extras.
result<std::vector<chat_message>> read_messages(const json_object& o);

/// Builds the chunks of one answer, or the whole of it; every chunk has the same id and created.
class completion_writer {
 public:
    completion_writer(const completion_wire& wire, std::string model);

    /// "data: {...}\n\n" frames. The first chat chunk carries the role.
    std::string start();
    std::string chunk(const delta_event& d);
    std::string progress(const generation_progress& p);
    std::string finish(const generation_done& d);  ///< final chunk, usage chunk if asked for, [DONE]
    static std::string failure(const error& e);    ///< error, then [DONE]

    /// For answers in one piece.
    void collect(const delta_event& d);
    std::string whole(const generation_done& d) const;

 private:
    boost::json::object head() const;
    boost::json::object choice(boost::json::object content, std::string_view finish_reason) const;
    std::string frame(boost::json::object o) const;
    boost::json::value logprobs_json(const std::vector<token_logprobs>& list, std::size_t text_offset) const;

    bool chat_, include_usage_, timings_per_token_;
    std::string id_, model_;
    std::int64_t created_;
    std::string text_;
    std::size_t streamed_ = 0;
    std::vector<token_logprobs> logprobs_;
    bool wants_logprobs_;
};

}  // namespace troupe::net
