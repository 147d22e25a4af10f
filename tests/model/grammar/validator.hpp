// An independent reading of JSON Schema for tests: does a value satisfy a schema? Plain recursion over the keywords
// that the converter supports; nothing of it is shared with the converter.
#pragma once

#include <algorithm>
#include <cmath>
#include <regex>
#include <string>

#include <boost/json.hpp>

namespace troupe::model::testing {

class validator {
 public:
    explicit validator(const boost::json::value& document) : document_(document) {}
    bool valid(const boost::json::value& v) const { return valid(v, document_); }

 private:
    using value = boost::json::value;
    static double number(const value& v) { return v.to_number<double>(); }
    static bool same(const value& a, const value& b) {
        if (a.is_number() && b.is_number()) return number(a) == number(b);
        return a == b;
    }
    static bool has_type(const value& v, std::string_view t) {
        if (t == "integer") return v.is_number() && number(v) == std::floor(number(v));
        return (t == "null" && v.is_null()) || (t == "boolean" && v.is_bool()) || (t == "number" && v.is_number()) ||
               (t == "string" && v.is_string()) || (t == "array" && v.is_array()) || (t == "object" && v.is_object());
    }
    bool type_ok(const value& v, const value& t) const {
        if (t.is_string()) return has_type(v, t.get_string());
        return std::any_of(
            t.get_array().begin(), t.get_array().end(), [&](const value& x) { return has_type(v, x.get_string()); });
    }
    const value& resolve(std::string_view ref) const {
        return ref == "#" ? document_ : document_.at_pointer(std::string(ref.substr(1)));
    }
    int count_of(const value& v, const value& list) const {
        int n = 0;
        for (const auto& s : list.get_array()) n += valid(v, s);
        return n;
    }

    bool valid(const value& v, const value& schema) const {
        if (schema.is_bool()) return schema.get_bool();
        const auto& s = schema.get_object();
        const auto get = [&](const char* k) { return s.if_contains(k); };
        if (const auto* x = get("$ref"); x && !valid(v, resolve(x->get_string()))) return false;
        if (const auto* x = get("type"); x && !type_ok(v, *x)) return false;
        if (const auto* x = get("const"); x && !same(v, *x)) return false;
        if (const auto* x = get("enum");
            x && std::none_of(x->get_array().begin(), x->get_array().end(), [&](const value& e) { return same(v, e); }))
            return false;
        if (const auto* x = get("allOf"); x && count_of(v, *x) != static_cast<int>(x->get_array().size())) return false;
        if (const auto* x = get("anyOf"); x && count_of(v, *x) == 0) return false;
        if (const auto* x = get("oneOf"); x && count_of(v, *x) != 1) return false;
        if (v.is_int64() && s.contains("multipleOf") && s.at("multipleOf").is_int64() &&
            v.get_int64() % s.at("multipleOf").get_int64() != 0)
            return false;
        if (v.is_number()) return number_ok(number(v), v.is_int64(), s);
        if (v.is_string()) return string_ok(v.get_string(), s);
        if (v.is_array()) return array_ok(v.get_array(), s);
        return !v.is_object() || object_ok(v.get_object(), s);
    }
    static bool number_ok(double n, bool exact, const boost::json::object& s) {
        const auto get = [&](const char* k) { return s.if_contains(k); };
        if (const auto* x = get("minimum"); x && n < number(*x)) return false;
        if (const auto* x = get("maximum"); x && n > number(*x)) return false;
        if (const auto* x = get("exclusiveMinimum"); x && n <= number(*x)) return false;
        if (const auto* x = get("exclusiveMaximum"); x && n >= number(*x)) return false;
        const auto* x = get("multipleOf");
        return !x || exact || std::fmod(n, number(*x)) == 0;
    }
    static bool string_ok(std::string_view text, const boost::json::object& s) {
        const auto n = std::count_if(
            text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
        if (const auto* x = s.if_contains("minLength"); x && static_cast<double>(n) < number(*x)) return false;
        if (const auto* x = s.if_contains("maxLength"); x && static_cast<double>(n) > number(*x)) return false;
        const auto* x = s.if_contains("pattern");
        return !x || std::regex_search(std::string(text), std::regex(std::string(x->get_string())));
    }
    bool array_ok(const boost::json::array& a, const boost::json::object& s) const {
        const auto n = static_cast<double>(a.size());
        if (const auto* x = s.if_contains("minItems"); x && n < number(*x)) return false;
        if (const auto* x = s.if_contains("maxItems"); x && n > number(*x)) return false;
        const auto* prefix = s.if_contains("prefixItems");
        const auto* items = s.if_contains("items");
        for (std::size_t i = 0; i < a.size(); ++i) {
            if (prefix && i < prefix->get_array().size()) {
                if (!valid(a[i], prefix->get_array()[i])) return false;
            } else if (items && !valid(a[i], *items)) {
                return false;
            }
        }
        return true;
    }
    bool object_ok(const boost::json::object& o, const boost::json::object& s) const {
        const auto n = static_cast<double>(o.size());
        if (const auto* x = s.if_contains("minProperties"); x && n < number(*x)) return false;
        if (const auto* x = s.if_contains("maxProperties"); x && n > number(*x)) return false;
        if (const auto* x = s.if_contains("required"))
            for (const auto& name : x->get_array())
                if (!o.contains(name.get_string())) return false;
        const auto* listed = s.if_contains("properties");
        const auto* other = s.if_contains("additionalProperties");
        for (const auto& item : o) {
            const auto* own = listed ? listed->get_object().if_contains(item.key()) : nullptr;
            if (own ? !valid(item.value(), *own) : other && !valid(item.value(), *other)) return false;
        }
        return true;
    }

    const value& document_;
};

}  // namespace troupe::model::testing
