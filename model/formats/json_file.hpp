// Reading the JSON files of a model folder with simdjson: bounded in size and depth, and every access says what it
// wanted. Internal to formats/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <simdjson.h>

#include "core/result.hpp"
#include "model/formats/mapped_file.hpp"

namespace troupe::model::detail {

namespace dom = simdjson::dom;

/// A parsed document and the text its strings point into.
class json_document {
 public:
    /// `what` names the document in messages. model_malformed if it is no JSON object, deeper than 32 or longer than
    /// `most_bytes`.
    static result<std::shared_ptr<const json_document>> parse(
        std::string_view text, std::string what, std::size_t most_bytes = 64u << 20);

    dom::object root() const { return root_; }
    const std::string& what() const { return what_; }

 private:
    dom::parser parser_;
    dom::object root_;
    std::string what_;
};

/// A member that is null counts as absent.
std::optional<dom::element> member(dom::object o, std::string_view key);

/// One object of a document, with its path for messages.
class json_object {
 public:
    json_object(dom::object o, std::string what) : object_(o), what_(std::move(what)) {}

    bool has(std::string_view key) const { return member(object_, key).has_value(); }
    std::optional<dom::element> get(std::string_view key) const { return member(object_, key); }
    /// Absent (or null) -> nullopt, another type -> model_malformed naming document and key.
    result<std::optional<std::int64_t>> integer(std::string_view key) const;
    result<std::optional<double>> number(std::string_view key) const;
    result<std::optional<bool>> boolean(std::string_view key) const;
    result<std::optional<std::string_view>> text(std::string_view key) const;
    result<std::optional<json_object>> object(std::string_view key) const;
    result<std::optional<dom::array>> array(std::string_view key) const;
    /// As above, with a value for absence.
    template <class T> static result<T> or_else(result<std::optional<T>> read, T fallback) {
        if (!read) return std::move(read).error();
        return read->has_value() ? **std::move(read) : fallback;
    }
    error wrong(std::string_view key, const char* wanted) const;
    const std::string& what() const { return what_; }
    dom::object raw() const { return object_; }

 private:
    dom::object object_;
    std::string what_;
};

}  // namespace troupe::model::detail
