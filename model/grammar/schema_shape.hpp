// What a JSON schema says at one place, gathered from everything that applies there ($ref, allOf, one branch of each
// anyOf and oneOf).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <boost/json.hpp>

#include "core/result.hpp"
#include "model/grammar/number_ranges.hpp"

namespace troupe::model {

/// A schema and where it stands ("#/properties/a"), for messages.
struct schema_place {
    const boost::json::value* schema = nullptr;
    std::string path;
};
using schema_list = std::vector<schema_place>;  ///< all of them apply

namespace json_types {
inline constexpr unsigned null = 1, boolean = 2, integer = 4, fraction = 8, string = 16, array = 32, object = 64,
                          number = integer | fraction, all = 127;
}

struct schema_shape {
    unsigned types = json_types::all;
    bool typed = false;    ///< a `type` was given
    unsigned implied = 0;  ///< types whose keywords were given
    bool never = false;
    std::optional<std::vector<boost::json::value>> values;  ///< enum, const

    std::optional<number_bound> minimum, maximum;
    std::vector<std::int64_t> multiples;

    std::int64_t min_length = 0, max_length = -1;
    std::vector<schema_place> patterns, formats;

    struct object_source {
        const boost::json::object* properties = nullptr;
        const boost::json::value* additional = nullptr;
        std::string path;
    };
    std::vector<object_source> objects;
    std::vector<std::string> required;
    std::int64_t min_properties = 0, max_properties = -1;

    struct array_source {
        const boost::json::array* prefix = nullptr;
        const boost::json::value* items = nullptr;
        std::string path;
    };
    std::vector<array_source> arrays;
    std::int64_t min_items = 0, max_items = -1;
    bool unique = false;
    std::string path;  ///< of the first schema

    struct branches {
        schema_list list;
        bool exclusive = false;  ///< oneOf
        std::string path;
    };
    std::vector<branches> open;                      ///< anyOf and oneOf that are not decided yet
    std::vector<const boost::json::value*> choices;  ///< all that were met: one met again is a circle
};

/// Reads schemas of one document. Errors: invalid_request for what is no schema, unsupported_parameter naming keyword
/// and path for what is not supported (fail closed).
class schema_reader {
 public:
    explicit schema_reader(const boost::json::value& document) : document_(document) {}

    /// The ways in which all schemas of the list can hold: any text that satisfies one of the shapes satisfies them.
    result<std::vector<schema_shape>> shapes(const schema_list& all) const;

    /// Schemas of the property `name`, of names that are not listed, of element i, in everything a shape gathered.
    static schema_list property(const schema_shape& s, const std::string& name);
    static bool lists(const schema_shape& s, const std::string& name);
    /// Absent: no further names. Explicit permission only: a schema that lists properties and says nothing of others
    /// gets none.
    static std::optional<schema_list> additional(const schema_shape& s);
    static schema_list element(const schema_shape& s, std::size_t i);

    /// Does this value satisfy the shape? unsupported_parameter where that is not decided here (parts of objects).
    result<bool> holds(const boost::json::value& v, const schema_shape& s) const;
    static bool equal(const boost::json::value& a, const boost::json::value& b);
    static unsigned type_of(const boost::json::value& v);

 private:
    result<void> absorb(const schema_place& at, schema_shape& s, std::vector<const boost::json::value*>& path) const;
    result<void> keyword(const std::string& name, const boost::json::value& v, const schema_place& at, schema_shape& s,
        std::vector<const boost::json::value*>& path) const;
    result<bool> number_keyword(
        const std::string& name, const boost::json::value& v, const schema_place& at, schema_shape& s) const;
    result<bool> container_keyword(
        const std::string& name, const boost::json::value& v, const schema_place& at, schema_shape& s) const;
    result<void> decide(schema_shape s, std::vector<schema_shape>& out) const;
    result<void> check_exclusive(const schema_shape::branches& b) const;
    result<bool> apart(const schema_shape& a, const schema_shape& b) const;
    result<bool> told_apart_by_property(const schema_shape& a, const schema_shape& b) const;
    result<std::vector<boost::json::value>> values_of(const schema_list& l, bool& known) const;
    result<schema_place> resolve(const std::string& ref, const std::string& from) const;

    const boost::json::value& document_;
    mutable std::size_t steps_ = 0;  ///< schemas looked at: bounds the work a hostile document makes
};

}  // namespace troupe::model
