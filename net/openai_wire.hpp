// OpenAI's request and response shapes to and from the engine's structs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/json.hpp>

#include "core/events.hpp"
#include "core/requests.hpp"
#include "core/result.hpp"
#include "net/json_in.hpp"
#include "net/prompts.hpp"

namespace troupe::net {

struct completion_wire {
    completion_request request;          ///< what all parts have in common
    std::vector<prompt_pieces> prompts;  ///< of /v1/completions
    std::int32_t n = 1;                  ///< choices for each prompt
    std::string user;
    bool stream = false, include_usage = false, return_progress = false, timings_per_token = false;
};

/// Bodies of /v1/chat/completions and /v1/completions. n_vocab for the ranges of token ids.
result<completion_wire> read_chat_request(const json_object& o, std::int64_t n_vocab);
result<completion_wire> read_text_request(const json_object& o, std::int64_t n_vocab);
/// The list under "messages": roles, contents (text, or a list of text parts), template extras.
result<std::vector<chat_message>> read_messages(const json_object& o);

/// Builds the chunks of one answer of several parts (choices), or the whole of it; every chunk has the same id and
/// created.
class completion_writer {
 public:
    completion_writer(const completion_wire& wire, std::string model);

    /// "data: {...}\n\n" frames. The first chat chunk of a part carries the role.
    std::string chunk(std::size_t part, const delta_event& d);
    std::string progress(std::size_t part, const generation_progress& p);
    std::string finish(std::size_t part, const generation_done& d);  ///< the part's final chunk
    std::string end() const;                                         ///< usage chunk if asked for, [DONE]

    /// For answers in one piece: what the parts say, then all of it.
    void collect(std::size_t part, const delta_event& d);
    void done(std::size_t part, const generation_done& d);
    std::string whole() const;

 private:
    struct part_text {
        std::string text, finish_reason;
        std::vector<token_logprobs> logprobs;
        std::vector<tool_call_delta> calls;  ///< whole
        std::size_t offset = 0;              ///< characters before the next token
        bool begun = false;
    };
    std::string begin(std::size_t part);
    boost::json::object head() const;
    boost::json::object choice(std::size_t part, boost::json::object content, std::string_view finish_reason) const;
    boost::json::object empty_content() const;
    static boost::json::object message_json(const part_text& p);
    std::string frame(boost::json::object o) const;
    std::string call_frames(std::size_t part, const delta_event& d) const;
    boost::json::value logprobs_json(const std::vector<token_logprobs>& list, std::size_t& offset) const;

    bool chat_, include_usage_, timings_per_token_, wants_logprobs_;
    std::int32_t n_;
    std::string id_, model_;
    std::int64_t created_;
    std::vector<part_text> parts_;
    usage_counts usage_;  ///< every prompt once, every answer
    timing_counts timings_;
};

/// A token as OpenAI's older log-probabilities name it: its text, or "bytes:\\xff..." where that is no text.
std::string token_name(std::string_view bytes);
/// {"token", "logprob", "bytes"}.
boost::json::object token_json(const token_choice& t);

}  // namespace troupe::net
