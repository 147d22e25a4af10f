#include "net/json_in.hpp"

#include <charconv>
#include <cmath>
#include <sstream>

#include <fmt/format.h>

#include "core/limits.hpp"

namespace troupe::net {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

error wrong(std::string_view name, std::string_view expected) {
    return fail(errc::invalid_request, fmt::format("'{}' must be {}", name, expected), std::string(name));
}

/// simdjson checks the depth of its tape only; arrays of empty arrays count too.
bool too_deep(std::string_view text) {
    int depth = 0;
    bool in_string = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (in_string) {
            if (c == '\\')
                ++i;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > limits::max_json_depth) return true;
        } else if (c == ']' || c == '}') {
            --depth;
        }
    }
    return false;
}

/// simdjson refuses a document for one integer beyond 64 bits. Such a number becomes a real one out of every range, so
/// that the field that holds it is at fault and not the document.
std::string without_huge_integers(std::string_view text) {
    std::string out;
    bool in_string = false;
    const auto digit = [](char c) { return c >= '0' && c <= '9'; };
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        out += c;
        if (in_string) {
            if (c == '\\' && i + 1 < text.size())
                out += text[++i];
            else if (c == '"')
                in_string = false;
            continue;
        }
        if (c == '"') in_string = true;
        if (!digit(c)) continue;
        std::size_t end = i + 1;
        while (end < text.size() && digit(text[end])) ++end;
        constexpr std::size_t fits = 18;  // digits: any such number is one of 64 bits
        const bool whole = end == text.size() || (text[end] != '.' && text[end] != 'e' && text[end] != 'E');
        const bool fraction =
            i > 0 && (text[i - 1] == '.' || text[i - 1] == 'e' || text[i - 1] == 'E' || text[i - 1] == '+');
        std::uint64_t u = 0;
        const bool huge = end - i > fits && whole && !fraction &&
                          (std::from_chars(text.data() + i, text.data() + end, u).ec != std::errc{} ||
                              (i > 0 && text[i - 1] == '-' && u > std::uint64_t{1} << 63));
        if (huge)
            out.back() = '1', out += "e300";
        else
            out += text.substr(i + 1, end - i - 1);
        i = end - 1;
    }
    return out;
}

}  // namespace

result<json_document> json_document::parse(std::string_view text) {
    if (too_deep(text))
        return fail(
            errc::invalid_request, fmt::format("the JSON is nested deeper than {} levels", limits::max_json_depth));
    json_document doc;
    doc.parser_ = std::make_unique<simdjson::dom::parser>();
    auto parsed = doc.parser_->parse(simdjson::padded_string(text));
    if (parsed.error() == simdjson::NUMBER_ERROR)
        parsed = doc.parser_->parse(simdjson::padded_string(without_huge_integers(text)));
    if (parsed.error())
        return fail(errc::invalid_request,
            fmt::format("the body is not valid JSON: {}", simdjson::error_message(parsed.error())));
    doc.root_ = parsed.value_unsafe();
    return doc;
}

result<json_object> json_object::from(element e, std::string what) {
    json_object o;
    if (e.get(o.object_)) {
        const bool field = what.size() > 2 && what.front() == '\'' && what.back() == '\'';
        return fail(errc::invalid_request, fmt::format("{} must be a JSON object", what),
            field ? what.substr(1, what.size() - 2) : std::string());
    }
    return o;
}

std::optional<element> json_object::find(std::string_view name) const {
    std::optional<element> found;
    for (const auto field : object_)
        if (field.key == name) found = field.value;
    if (found && found->is_null()) return std::nullopt;
    return found;
}

result<std::optional<std::string>> json_object::text(std::string_view name) const {
    const auto e = find(name);
    if (!e) return std::optional<std::string>{};
    std::string_view s;
    if (e->get(s)) return wrong(name, "a string");
    return std::optional<std::string>(std::string(s));
}

result<std::optional<bool>> json_object::boolean(std::string_view name) const {
    const auto e = find(name);
    if (!e) return std::optional<bool>{};
    bool b = false;
    if (e->get(b)) return wrong(name, "true or false");
    return std::optional<bool>(b);
}

result<std::optional<double>> json_object::number(std::string_view name, double min, double max) const {
    const auto e = find(name);
    if (!e) return std::optional<double>{};
    double d = 0;
    if (!e->is_number() || e->get(d) || !std::isfinite(d) || d < min || d > max)
        return wrong(name, min == above_zero ? fmt::format("a number above 0, at most {}", max)
                                             : fmt::format("a number from {} to {}", min, max));
    return std::optional<double>(d);
}

result<std::optional<std::int64_t>> json_object::integer(
    std::string_view name, std::int64_t min, std::int64_t max) const {
    const auto e = find(name);
    if (!e) return std::optional<std::int64_t>{};
    std::int64_t i = 0;
    double d = 0;
    bool good = !e->get(i);
    if (!good && e->type() == element_type::DOUBLE && !e->get(d) && d == std::floor(d) && std::abs(d) < 9e15) {
        i = static_cast<std::int64_t>(d);  // 64.0 is an integer in JSON Schema's sense, and clients send it
        good = true;
    }
    if (!good || i < min || i > max) {
        const bool open = max == std::numeric_limits<std::int64_t>::max();
        return wrong(name,
            open ? fmt::format("an integer of at least {}", min) : fmt::format("an integer from {} to {}", min, max));
    }
    return std::optional<std::int64_t>(i);
}

result<std::string> json_object::required_text(std::string_view name) const {
    TROUPE_TRY(auto value, text(name));
    if (!value) return fail(errc::invalid_request, fmt::format("'{}' is missing", name), std::string(name));
    return *std::move(value);
}

result<std::int32_t> token_id_of(element e, std::string_view param, std::int64_t n_vocab) {
    std::int64_t id = 0;
    const std::int64_t end = n_vocab > 0 ? n_vocab : std::numeric_limits<std::int32_t>::max();
    if (e.get(id) || id < 0 || id >= end)
        return fail(errc::invalid_request, fmt::format("'{}' must hold token ids from 0 to {}", param, end - 1),
            std::string(param));
    return static_cast<std::int32_t>(id);
}

result<std::optional<std::vector<std::int32_t>>> json_object::token_ids(
    std::string_view name, std::int64_t n_vocab) const {
    const auto e = find(name);
    if (!e) return std::optional<std::vector<std::int32_t>>{};
    simdjson::dom::array list;
    if (e->get(list)) return wrong(name, "a list of token ids");
    std::vector<std::int32_t> ids;
    for (const auto item : list) {
        TROUPE_TRY(ids.emplace_back(), token_id_of(item, name, n_vocab));
    }
    return std::optional(std::move(ids));
}

std::string to_json(element e) { return simdjson::minify(e); }

}  // namespace troupe::net
