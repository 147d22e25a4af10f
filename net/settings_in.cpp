#include "net/settings_in.hpp"

#include <fmt/format.h>

#include "core/ids.hpp"
#include "core/limits.hpp"
#include "net/params.hpp"

namespace troupe::net {
namespace {

/// Parameters of a session or of one message in it: one answer, no tools.
result<generation_params> read_session_params(const json_object& o, std::int64_t n_vocab) {
    param_rules rules;
    rules.n_vocab = n_vocab;
    TROUPE_TRYV(refuse_unbuilt(o));
    TROUPE_TRYV(refuse_choices(o));
    return read_params(o, rules);
}

}  // namespace

result<session_settings> read_settings(const json_object& o, std::int64_t n_vocab) {
    session_settings s;
    TROUPE_TRY(auto model, o.text("model"));
    TROUPE_TRY(auto system, o.text("system"));
    s.model = model.value_or("");
    s.system = system.value_or("");
    if (s.system.size() > limits::max_system_prompt_bytes)
        return fail(errc::invalid_request,
            fmt::format("'system' is longer than {} bytes", limits::max_system_prompt_bytes), "system");
    simdjson::dom::array bases;
    if (const auto e = o.find("knowledge_bases"); e && (e->get(bases) || bases.size() > 0))
        return fail(
            errc::unsupported_parameter, "knowledge bases are not available in this version", "knowledge_bases");
    TROUPE_TRY(s.params, read_session_params(o, n_vocab));
    for (const auto* name : {"sampling", "params"}) {
        const auto nested = o.find(name);
        if (!nested) continue;
        TROUPE_TRY(const auto inner, json_object::from(*nested, fmt::format("'{}'", name)));
        TROUPE_TRY(const auto more, read_session_params(inner, n_vocab));
        s.params = overlay(s.params, more);
    }
    return s;
}

result<generation_params> read_message_params(const json_object& o, std::int64_t n_vocab) {
    const auto nested = o.find("params");
    if (!nested) return generation_params{};
    TROUPE_TRY(const auto inner, json_object::from(*nested, "'params'"));
    return read_session_params(inner, n_vocab);
}

result<new_message> read_message(const json_object& o, std::int64_t n_vocab) {
    new_message m;
    TROUPE_TRY(m.content, o.required_text("content"));
    if (m.content.empty()) return fail(errc::invalid_request, "'content' must not be empty", "content");
    TROUPE_TRY(auto id, o.text("id"));
    if (id && !is_client_id(*id))
        return fail(
            errc::invalid_request, fmt::format("'id' must be 1 to {} of A-Z a-z 0-9 _ -", limits::max_client_id), "id");
    m.id = id.value_or("");
    TROUPE_TRY(m.parent, o.text("parent"));
    TROUPE_TRY(m.params, read_message_params(o, n_vocab));
    return m;
}

result<std::optional<std::string>> read_title(const json_object& o) {
    TROUPE_TRY(auto title, o.text("title"));
    if (title && title->size() > limits::max_title_bytes)
        return fail(
            errc::invalid_request, fmt::format("'title' is longer than {} bytes", limits::max_title_bytes), "title");
    return title;
}

}  // namespace troupe::net
