#include "net/client_frames.hpp"

#include <boost/json.hpp>
#include <fmt/format.h>

#include "net/event_json.hpp"
#include "net/json_in.hpp"
#include "net/settings_in.hpp"

namespace troupe::net {
namespace {

result<client_frame> parse_create(const json_object& o, std::int64_t n_vocab) {
    create_frame f;
    TROUPE_TRY(auto title, read_title(o));
    f.title = title.value_or("");
    if (const auto nested = o.find("settings")) {
        TROUPE_TRY(const auto inner, json_object::from(*nested, "'settings'"));
        TROUPE_TRY(f.settings, read_settings(inner, n_vocab));
    }
    return client_frame(std::move(f));
}

result<client_frame> parse_with_session(std::string_view type, const json_object& o, std::int64_t n_vocab) {
    TROUPE_TRY(auto session, o.required_text("session"));
    if (type == "subscribe") {
        TROUPE_TRY(const auto from, o.integer("from", 0));
        subscribe_frame f{std::move(session), {}};
        if (from) f.from = static_cast<std::uint64_t>(*from);
        return client_frame(std::move(f));
    }
    if (type == "unsubscribe") return client_frame(unsubscribe_frame{std::move(session)});
    if (type == "stop") return client_frame(stop_frame{std::move(session)});
    if (type == "message") {
        TROUPE_TRY(auto m, read_message(o, n_vocab));
        if (m.id.empty()) return fail(errc::invalid_request, "'id' is missing", "id");
        return client_frame(message_frame{std::move(session), std::move(m)});
    }
    TROUPE_TRY(auto message, o.required_text("message"));
    TROUPE_TRY(auto params, read_message_params(o, n_vocab));
    if (type == "regenerate")
        return client_frame(regenerate_frame{std::move(session), std::move(message), std::move(params)});
    TROUPE_TRY(auto content, o.required_text("content"));
    if (content.empty()) return fail(errc::invalid_request, "'content' must not be empty", "content");
    return client_frame(edit_frame{std::move(session), std::move(message), std::move(content), std::move(params)});
}

result<client_frame> parse_typed(std::string_view type, const json_object& o, std::int64_t n_vocab) {
    if (type == "auth") {
        TROUPE_TRY(auto key, o.required_text("key"));
        return client_frame(auth_frame{std::move(key)});
    }
    if (type == "session.create") return parse_create(o, n_vocab);
    if (type == "ops.subscribe" || type == "ops.unsubscribe") return client_frame(ops_frame{type == "ops.subscribe"});
    for (const auto* known : {"subscribe", "unsubscribe", "stop", "message", "regenerate", "edit"})
        if (type == known) return parse_with_session(type, o, n_vocab);
    return fail(errc::invalid_request, fmt::format("'{}' is no frame type", type), "type");
}

}  // namespace

parsed_frame parse_client_frame(std::string_view text, std::int64_t n_vocab) {
    const auto document = json_document::parse(text);
    if (!document) return {"", document.error()};
    const auto object = json_object::from(document->root(), "a frame");
    if (!object) return {"", object.error()};
    const auto request_id = object->text("request_id");
    if (!request_id) return {"", request_id.error()};
    const auto type = object->required_text("type");
    if (!type) return {request_id->value_or(""), type.error()};
    return {request_id->value_or(""), parse_typed(*type, *object, n_vocab)};
}

std::string error_frame(const error& e, std::string_view request_id) {
    boost::json::object o{{"type", "error"}};
    if (!request_id.empty()) o["request_id"] = request_id;
    o["error"] = session_error_json(e);
    return boost::json::serialize(o);
}

std::string ack_frame(std::string_view request_id) {
    boost::json::object o{{"type", "ack"}};
    if (!request_id.empty()) o["request_id"] = request_id;
    return boost::json::serialize(o);
}

}  // namespace troupe::net
