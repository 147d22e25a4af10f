// simdjson's errors become typed ones.
#include "model/formats/json_file.hpp"

#include "model/formats/gguf_parse.hpp"

namespace troupe::model::detail {

namespace {
constexpr std::size_t max_depth = 32;
}

result<std::shared_ptr<const json_document>> json_document::parse(
    std::string_view text, std::string what, std::size_t most_bytes) {
    if (text.size() > most_bytes)
        return fail(errc::model_malformed,
            what + " has " + std::to_string(text.size()) + " bytes; up to " + std::to_string(most_bytes) + " are read");
    auto document = std::make_shared<json_document>();
    document->what_ = std::move(what);
    // The parser allocates for the text's own size, so a short file cannot ask for much.
    if (document->parser_.allocate(text.size() + simdjson::SIMDJSON_PADDING, max_depth) != simdjson::SUCCESS)
        return fail(errc::out_of_memory, document->what_ + " does not fit into memory");
    dom::element root;
    if (const auto failure = document->parser_.parse(simdjson::padded_string(text)).get(root))
        return fail(errc::model_malformed, document->what_ + " is no JSON: " + simdjson::error_message(failure));
    if (root.get(document->root_) != simdjson::SUCCESS)
        return fail(errc::model_malformed, document->what_ + " is no JSON object");
    return std::shared_ptr<const json_document>(std::move(document));
}

std::optional<dom::element> member(dom::object o, std::string_view key) {
    dom::element value;
    if (o.at_key(key).get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
    return value;
}

error json_object::wrong(std::string_view key, const char* wanted) const {
    return fail(errc::model_malformed, what_ + ": " + printable_name(key) + " is not " + wanted, std::string(key));
}

namespace {
template <class T> result<std::optional<T>> read(const json_object& o, std::string_view key, const char* wanted) {
    const auto value = o.get(key);
    if (!value) return std::optional<T>();
    T out;
    if (value->get(out) != simdjson::SUCCESS) return o.wrong(key, wanted);
    return std::optional(out);
}
}  // namespace

result<std::optional<std::int64_t>> json_object::integer(std::string_view key) const {
    return read<std::int64_t>(*this, key, "a whole number");
}
result<std::optional<double>> json_object::number(std::string_view key) const {
    return read<double>(*this, key, "a number");
}
result<std::optional<bool>> json_object::boolean(std::string_view key) const {
    return read<bool>(*this, key, "true or false");
}
result<std::optional<std::string_view>> json_object::text(std::string_view key) const {
    return read<std::string_view>(*this, key, "a string");
}
result<std::optional<dom::array>> json_object::array(std::string_view key) const {
    return read<dom::array>(*this, key, "a list");
}
result<std::optional<json_object>> json_object::object(std::string_view key) const {
    TROUPE_TRY(const auto found, read<dom::object>(*this, key, "an object"));
    if (!found) return std::optional<json_object>();
    return std::optional(json_object(*found, what_ + "." + std::string(key)));
}

}  // namespace troupe::model::detail
