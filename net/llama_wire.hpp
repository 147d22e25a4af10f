// llama-server's /completion: request and response shapes to and from the engine's structs.
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

struct llama_wire {
    completion_request request;  ///< what all parts have in common
    std::vector<prompt_pieces> prompts;
    std::int32_t n = 1;
    bool stream = false, return_tokens = false, timings_per_token = false, return_progress = false;
    std::int64_t t_max_predict_ms = 0;         ///< 0: no limit; counts from the first token, needs a line break
    std::vector<std::string> response_fields;  ///< paths "a/b" of the final object; empty: all of it
};

result<llama_wire> read_llama_request(const json_object& o, std::int64_t n_vocab);

/// Builds the responses of one part.
class llama_writer {
 public:
    /// `defaults` fill in what generation_settings shows of parameters the request leaves open. index: of the part,
    /// shown if there are `several`.
    llama_writer(
        const llama_wire& wire, std::string model, const generation_params& defaults, std::size_t index, bool several);

    void set_prompt(std::string text) { prompt_ = std::move(text); }
    /// Takes the text in; gives the streamed object.
    boost::json::object partial(const delta_event& d);
    boost::json::object progress(const generation_progress& p) const;
    boost::json::value final(const generation_done& d) const;
    bool has_new_line() const { return text_.find('\n') != std::string::npos; }

 private:
    boost::json::array probabilities(const std::vector<token_logprobs>& list) const;
    boost::json::object probability(const token_choice& c) const;
    boost::json::object settings() const;

    llama_wire wire_;
    std::string model_, prompt_, text_;
    generation_params params_;
    std::size_t index_;
    bool several_;
    std::vector<std::int32_t> tokens_;
    std::vector<token_logprobs> logprobs_;
};

}  // namespace troupe::net
