// Prompts as text routes take them: a string, token ids, a mix of both, or a list of those.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "net/json_in.hpp"
#include "net/routes.hpp"

namespace troupe::net {

/// One prompt: pieces that follow each other. Almost always one piece.
using prompt_piece = std::variant<std::string, std::vector<std::int32_t>>;
using prompt_pieces = std::vector<prompt_piece>;

/// The field `name`: "text", [ids], [ids and texts], or a list of those; limits::max_prompts at most, none empty but
/// texts. An array of texts alone is a list of prompts.
result<std::vector<prompt_pieces>> read_prompts(const json_object& o, std::string_view name, std::int64_t n_vocab);

/// `n` requests for each prompt (for the one of a request without prompts): part i answers prompt i / n. What differs
/// is the choice; the prompts go beside them to join_prompts.
struct request_parts {
    std::vector<completion_request> requests;
    std::vector<prompt_pieces> prompts;
};
request_parts parts_of(const completion_request& common, const std::vector<prompt_pieces>& prompts, std::int32_t n);

/// The prompt as a request's text or ids; false if it has several pieces (see join_prompts).
bool put_prompt(const prompt_pieces& pieces, completion_request& r);

/// Gives every request its prompt, mixed ones as ids: their texts are tokenized, special tokens included, the first
/// with what begins a text. Then calls `then` on the I/O thread; answers errors itself.
void join_prompts(services& s, const exchange_ptr& x, std::vector<prompt_pieces> prompts,
    std::vector<completion_request> requests, std::function<void(std::vector<completion_request>)> then);

}  // namespace troupe::net
