#include "actors/session/portable.hpp"

#include <boost/json.hpp>
#include <fmt/format.h>

#include "actors/session/conversation.hpp"
#include "actors/session/settings_json.hpp"
#include "core/limits.hpp"

namespace troupe::actors {
namespace json = boost::json;
namespace {

constexpr const char* format_name = "troupe.session.v1";

json::object message_to_object(const stored_message& m) {
    const auto& v = m.view;
    json::object o{
        {"id", v.id}, {"parent", v.parent}, {"role", v.role}, {"content", v.content}, {"created", v.created}};
    if (!v.finish_reason.empty()) o["finish_reason"] = v.finish_reason;
    if (v.err) o["error"] = {{"code", info(v.err->code).name}, {"message", v.err->message}, {"param", v.err->param}};
    if (m.usage != usage_counts{})
        o["usage"] = {{"prompt_tokens", m.usage.prompt_tokens}, {"completion_tokens", m.usage.completion_tokens},
            {"cached_tokens", m.usage.cached_tokens}};
    return o;
}

/// Reads fields of one object; the first that is wrong is remembered.
class reader {
 public:
    explicit reader(const json::object& o) : o_(o) {}
    std::string text(const char* key, bool required = false) {
        const auto* v = o_.if_contains(key);
        if (v && v->is_string()) return std::string(v->get_string());
        if (v ? !v->is_null() : required) wrong_ = key;
        return {};
    }
    std::int64_t number(const char* key) {
        const auto* v = o_.if_contains(key);
        if (!v || v->is_null()) return 0;
        boost::system::error_code ec;
        const auto n = v->to_number<std::int64_t>(ec);
        if (ec) wrong_ = key;
        return n;
    }
    const json::object* object(const char* key) {
        const auto* v = o_.if_contains(key);
        if (!v || v->is_null()) return nullptr;
        if (!v->is_object()) wrong_ = key;
        return v->if_object();
    }
    result<void> check() const {
        if (wrong_.empty()) return {};
        return fail(errc::invalid_request, fmt::format("{} is missing or has the wrong type", wrong_), wrong_);
    }

 private:
    const json::object& o_;
    std::string wrong_;
};

result<stored_message> message_from_object(const json::value& v) {
    if (!v.is_object()) return fail(errc::invalid_request, "a message must be an object", "messages");
    reader r(v.get_object());
    stored_message m;
    m.view.id = r.text("id", true);
    m.view.parent = r.text("parent");
    m.view.role = r.text("role", true);
    m.view.content = r.text("content", true);
    m.view.created = r.number("created");
    m.view.finish_reason = r.text("finish_reason");
    if (const auto* e = r.object("error")) {
        reader er(*e);
        m.view.err = error{errc_from_name(er.text("code")), er.text("message"), er.text("param")};
        TROUPE_TRYV(er.check());
    }
    if (const auto* u = r.object("usage")) {
        reader ur(*u);
        m.usage = {ur.number("prompt_tokens"), ur.number("completion_tokens"), ur.number("cached_tokens")};
        TROUPE_TRYV(ur.check());
    }
    TROUPE_TRYV(r.check());
    return m;
}

}  // namespace

std::string export_session(
    const session_view& view, const std::vector<stored_message>& messages, const std::string& leaf) {
    json::array list;
    for (const auto& m : messages) list.push_back(message_to_object(m));
    return json::serialize(json::object{{"format", format_name}, {"id", view.id}, {"title", view.title},
        {"settings", settings_to_object(view.settings)}, {"created", view.created}, {"updated", view.updated},
        {"leaf", leaf}, {"messages", std::move(list)}});
}

result<stored_session> import_session(const std::string& text) {
    boost::system::error_code ec;
    json::parse_options options;
    options.max_depth = limits::max_json_depth;
    const auto v = json::parse(text, ec, {}, options);
    if (ec) return fail(errc::invalid_request, fmt::format("the document is not JSON: {}", ec.message()));
    if (!v.is_object()) return fail(errc::invalid_request, "the document must be an object");
    reader r(v.get_object());
    stored_session s;
    if (r.text("format", true) != format_name)
        return fail(errc::invalid_request, fmt::format("format must be {}", format_name), "format");
    s.info.id = r.text("id");
    s.info.title = r.text("title");
    s.info.created = r.number("created");
    s.info.updated = r.number("updated");
    s.leaf = r.text("leaf");
    if (const auto* settings = r.object("settings")) {
        TROUPE_TRY(s.info.settings, settings_from_object(*settings));
    }
    TROUPE_TRYV(r.check());
    if (s.info.title.size() > limits::max_title_bytes ||
        s.info.settings.system.size() > limits::max_system_prompt_bytes)
        return fail(errc::invalid_request, "title or system prompt is too long");
    const auto* list = v.get_object().if_contains("messages");
    if (!list || !list->is_array()) return fail(errc::invalid_request, "messages must be an array", "messages");
    for (const auto& m : list->get_array()) {
        TROUPE_TRY(auto message, message_from_object(m));
        s.messages.push_back(std::move(message));
    }
    TROUPE_TRYV(conversation::check(s.messages, s.leaf));
    return s;
}

}  // namespace troupe::actors
