#include "actors/session/settings_json.hpp"

#include <boost/json.hpp>

namespace troupe::actors {
namespace json = boost::json;
namespace {

template <class T> struct is_vector : std::false_type {};
template <class T> struct is_vector<std::vector<T>> : std::true_type {};
template <class T> struct is_pair : std::false_type {};
template <class A, class B> struct is_pair<std::pair<A, B>> : std::true_type {};

template <class T> json::value to_value(const T& x) {
    if constexpr (is_vector<T>::value) {
        json::array a;
        for (const auto& e : x) a.push_back(to_value(e));
        return a;
    } else if constexpr (is_pair<T>::value) {
        return json::array{x.first, x.second};
    } else {
        return json::value(x);
    }
}

template <class T> bool from_value(const json::value& v, T& x) {
    if constexpr (std::is_same_v<T, bool>) {
        if (!v.is_bool()) return false;
        x = v.get_bool();
        return true;
    } else if constexpr (std::is_same_v<T, std::string>) {
        if (!v.is_string()) return false;
        x = std::string(v.get_string());
        return true;
    } else if constexpr (std::is_arithmetic_v<T>) {
        boost::system::error_code ec;
        x = v.to_number<T>(ec);
        return !ec;
    } else if constexpr (is_vector<T>::value) {
        if (!v.is_array()) return false;
        for (const auto& e : v.get_array())
            if (!from_value(e, x.emplace_back())) return false;
        return true;
    } else {
        return v.is_array() && v.get_array().size() == 2 && from_value(v.get_array()[0], x.first) &&
               from_value(v.get_array()[1], x.second);
    }
}

result<std::string> string_of(const json::object& o, const char* key) {
    const auto* v = o.if_contains(key);
    if (!v || v->is_null()) return std::string();
    if (!v->is_string()) return fail(errc::invalid_request, std::string(key) + " must be a string", key);
    return std::string(v->get_string());
}

}  // namespace

json::object params_to_object(const generation_params& p) {
    json::object o;
    each_parameter([&](const char* name, auto member) {
        if (p.*member) o[name] = to_value(*(p.*member));
    });
    if (!p.template_kwargs.empty()) o["template_kwargs"] = p.template_kwargs;
    return o;
}

result<generation_params> params_from_object(const json::object& o) {
    generation_params p;
    std::string wrong;
    each_parameter([&](const char* name, auto member) {
        const auto* v = o.if_contains(name);
        if (!v || v->is_null() || !wrong.empty()) return;
        if (!from_value(*v, (p.*member).emplace())) wrong = name;
    });
    if (!wrong.empty()) return fail(errc::invalid_request, wrong + " has the wrong type", wrong);
    TROUPE_TRY(p.template_kwargs, string_of(o, "template_kwargs"));
    return p;
}

json::object settings_to_object(const session_settings& s) {
    return {{"model", s.model}, {"system", s.system}, {"params", params_to_object(s.params)}};
}

result<session_settings> settings_from_object(const json::object& o) {
    session_settings s;
    TROUPE_TRY(s.model, string_of(o, "model"));
    TROUPE_TRY(s.system, string_of(o, "system"));
    if (const auto* p = o.if_contains("params"); p && !p->is_null()) {
        if (!p->is_object()) return fail(errc::invalid_request, "params must be an object", "params");
        TROUPE_TRY(s.params, params_from_object(p->get_object()));
    }
    return s;
}

std::string settings_to_json(const session_settings& s) { return json::serialize(settings_to_object(s)); }

result<session_settings> settings_from_json(const std::string& text) {
    boost::system::error_code ec;
    const auto v = json::parse(text, ec);
    if (ec || !v.is_object()) return fail(errc::io, "stored settings are not a JSON object");
    return settings_from_object(v.get_object());
}

}  // namespace troupe::actors
