#include "actors/messages.hpp"

#include <caf/error.hpp>
#include <caf/message.hpp>

namespace troupe::actors {
namespace {

constexpr auto category = static_cast<caf::atom_value>(caf::atom("troupe"));

}  // namespace

caf::error make_caf_error(const error& e) {
    return caf::error{static_cast<std::uint8_t>(static_cast<std::uint8_t>(e.code) + 1), category,
        caf::make_message(e.message, e.param, e.retry_after_ms, e.n_prompt_tokens, e.n_ctx)};
}

error from_caf_error(const caf::error& e) {
    error r;
    if (e.category() != category || e.code() == 0 || e.code() > static_cast<std::uint8_t>(errc::count_)) {
        r.message = "an actor failed: " + caf::to_string(e);
        return r;
    }
    r.code = static_cast<errc>(e.code() - 1);
    if (e.context().match_elements<std::string, std::string, std::int64_t, std::int64_t, std::int64_t>()) {
        r.message = e.context().get_as<std::string>(0);
        r.param = e.context().get_as<std::string>(1);
        r.retry_after_ms = e.context().get_as<std::int64_t>(2);
        r.n_prompt_tokens = e.context().get_as<std::int64_t>(3);
        r.n_ctx = e.context().get_as<std::int64_t>(4);
    }
    return r;
}

}  // namespace troupe::actors
