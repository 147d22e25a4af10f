// One fuzz input: a template. Parsed and rendered under small budgets; must neither crash nor run long.
#pragma once

#include <cstdint>
#include <string>

#include <boost/json.hpp>

#include "model/templates/chat_template.hpp"

namespace troupe::fuzz {

/// Returns whether the input rendered.
inline bool run_template(std::string source) {
    static const boost::json::object context = {{"bos_token", "<s>"}, {"eos_token", "</s>"},
        {"add_generation_prompt", true},
        {"messages",
            boost::json::array{{{"role", "system"}, {"content", "s"}}, {{"role", "user"}, {"content", " <|x|> é "}},
                {{"role", "assistant"}, {"content", "a"}, {"tool_calls", boost::json::array{}}}}},
        {"tools",
            boost::json::array{{{"type", "function"}, {"function", {{"name", "f"}, {"parameters", {{"a", 1.5}}}}}}}}};
    const model::template_budget small{.steps = 50'000, .depth = 64, .output_bytes = 1 << 18};
    const auto parsed = model::chat_template::parse(std::move(source), small);
    return parsed.ok() && (*parsed)->render(context, 1721997296).ok();
}

}  // namespace troupe::fuzz
