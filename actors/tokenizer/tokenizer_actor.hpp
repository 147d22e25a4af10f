// The tokenizer: renders conversations through the model's template and turns text into ids, away from the other actors
// because a long text takes long. Immutable tools, so any number of them may run.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <caf/behavior.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include "actors/messages.hpp"
#include "core/result.hpp"
#include "model/templates/text_part.hpp"
#include "model/tokenizers/tokenizer.hpp"

namespace troupe::actors {

struct text_tools {
    std::shared_ptr<const model::tokenizer> vocabulary;
    /// Messages through the template; invalid_request with the template's own words. Thread-safe.
    std::function<result<std::vector<model::text_part>>(const render_chat&)> render;
    model::call_style calls = model::call_style::unknown;  ///< how this model writes tool calls
};

struct tokenizer_state {
    static inline const char* name = "tokenizer";
    std::uint64_t requests = 0;
    std::int64_t fault_after = -1;
};

/// render_chat -> rendered_chat; constrain_output -> GBNF; (encode_atom, text, add_special, parse_special) ->
/// rendered_chat (text: as given); actor_fault; state_atom -> JSON.
caf::behavior tokenizer_actor(caf::stateful_actor<tokenizer_state>* self, std::shared_ptr<const text_tools> tools);

/// Answers the same through two tokenizers with threads of their own: texts over limits::bulk_text_bytes wait for each
/// other, and nobody waits for them. Dies with either.
caf::behavior tokenizer_pair(caf::event_based_actor* self, std::shared_ptr<const text_tools> tools);

}  // namespace troupe::actors
