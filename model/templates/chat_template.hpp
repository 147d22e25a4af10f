// Chat templates: the Jinja dialect Hugging Face models are published with, parsed once at load, rendered under
// budgets.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/fwd.hpp>

#include "core/result.hpp"
#include "model/templates/text_part.hpp"

namespace troupe::model {

struct template_budget {
    std::int64_t steps = 2'000'000;        ///< evaluated nodes and loop turns
    int depth = 64;                        ///< nesting of the source and of calls
    std::int64_t output_bytes = 64 << 20;  ///< also bounds every intermediate string
};

class chat_template {
 public:
    /// model_unsupported with line and reason if the source does not parse.
    static result<std::shared_ptr<const chat_template>> parse(std::string source, template_budget budget = {});
    virtual ~chat_template() = default;

    /// Renders with `context` (messages, tools, bos_token, eos_token, add_generation_prompt, ... as the caller has
    /// them; an absent key is undefined). Strings under messages, tools and documents are marked from_user, and the
    /// mark survives trim, split, replace, slices, ~, tojson and the like. `now` is what strftime_now reads (Unix
    /// seconds, local calendar as UTC). raise_exception, a runtime error or a spent budget: invalid_request with the
    /// message.
    virtual result<std::vector<text_part>> render(const boost::json::object& context, std::int64_t now) const = 0;
    virtual const std::string& source() const = 0;
};

/// The parts joined.
std::string join(const std::vector<text_part>& parts);

}  // namespace troupe::model
