// Reading JSON bodies with simdjson: one parse with a depth limit, then typed field access whose errors name the field.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <simdjson.h>

#include "core/result.hpp"

namespace troupe::net {

/// As the lower end of a range: anything greater than zero.
inline constexpr double above_zero = std::numeric_limits<double>::min();

/// A parsed document; elements point into it.
class json_document {
 public:
    /// invalid_request: not JSON (NaN and infinities are not), deeper than limits::max_json_depth, or not UTF-8.
    static result<json_document> parse(std::string_view text);
    simdjson::dom::element root() const { return root_; }

 private:
    std::unique_ptr<simdjson::dom::parser> parser_;
    simdjson::dom::element root_;
};

/// An object whose fields are read by name. null means absent. Of repeated names the last counts.
class json_object {
 public:
    /// invalid_request if `e` is not an object; `what` names it.
    static result<json_object> from(simdjson::dom::element e, std::string what);

    std::optional<simdjson::dom::element> find(std::string_view name) const;
    bool has(std::string_view name) const { return find(name).has_value(); }

    result<std::optional<std::string>> text(std::string_view name) const;
    result<std::optional<bool>> boolean(std::string_view name) const;
    /// Range ends included; outside or of another type: invalid_request with `param`.
    result<std::optional<double>> number(std::string_view name, double min, double max) const;
    result<std::optional<std::int64_t>> integer(std::string_view name,
        std::int64_t min = std::numeric_limits<std::int64_t>::min(),
        std::int64_t max = std::numeric_limits<std::int64_t>::max()) const;
    result<std::string> required_text(std::string_view name) const;
    result<std::optional<std::vector<std::int32_t>>> token_ids(std::string_view name, std::int64_t n_vocab) const;
    simdjson::dom::object raw() const { return object_; }

 private:
    simdjson::dom::object object_;
};

/// The element as compact JSON text.
std::string to_json(simdjson::dom::element e);
/// A 32-bit id of a vocabulary of n_vocab tokens (n_vocab 0: any id >= 0).
result<std::int32_t> token_id_of(simdjson::dom::element e, std::string_view param, std::int64_t n_vocab);

}  // namespace troupe::net
