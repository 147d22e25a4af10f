// Typed access to the metadata that gguf_parse found.
#include "model/formats/gguf.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "model/formats/gguf_parse.hpp"
#include "model/formats/mapped_file.hpp"

namespace troupe::model {

namespace {

using detail::gguf_value;
using detail::load_le;

error unsuitable(const gguf_value& value, const char* wanted) {
    std::string type(detail::gguf_type_name(value.type));
    if (value.type == gguf_type::array) type += " of " + std::string(detail::gguf_type_name(value.element));
    return fail(errc::model_malformed,
        "GGUF key " + detail::printable_name(value.key) + " has type " + type + ", not " + wanted);
}

error out_of_range(const gguf_value& value, const char* wanted) {
    return fail(
        errc::model_malformed, "GGUF key " + detail::printable_name(value.key) + " holds a value that is no " + wanted);
}

/// An integer of any width: its value modulo 2^64 and whether it is below zero.
struct wide_int {
    std::uint64_t bits = 0;
    bool negative = false;
};

template <class T> wide_int widen(const std::byte* at) {
    const T number = load_le<T>(at);
    return {static_cast<std::uint64_t>(number), number < T{0}};
}

/// Calls `use` with a tag value of the C++ type of an integer element type; false if the type is no integer.
template <class Use> bool with_int_type(gguf_type type, Use&& use) {
    switch (type) {
    case gguf_type::u8:
        use(std::uint8_t{});
        return true;
    case gguf_type::i8:
        use(std::int8_t{});
        return true;
    case gguf_type::u16:
        use(std::uint16_t{});
        return true;
    case gguf_type::i16:
        use(std::int16_t{});
        return true;
    case gguf_type::u32:
        use(std::uint32_t{});
        return true;
    case gguf_type::i32:
        use(std::int32_t{});
        return true;
    case gguf_type::u64:
        use(std::uint64_t{});
        return true;
    case gguf_type::i64:
        use(std::int64_t{});
        return true;
    default:
        return false;
    }
}

std::optional<wide_int> read_int(gguf_type type, const std::byte* at) {
    wide_int number;
    if (!with_int_type(type, [&]<class T>(T) { number = widen<T>(at); })) return std::nullopt;
    return number;
}

std::string_view text_of(const gguf_value& value) {
    return {reinterpret_cast<const char*>(value.payload.data()), value.payload.size()};
}

/// Element `at` of a payload of strings; moves `at` behind it. The parser has walked the same bytes before.
std::string_view next_string(std::span<const std::byte> payload, std::size_t& at) {
    const auto size = load_le<std::uint64_t>(payload.data() + at);
    const std::string_view text(reinterpret_cast<const char*>(payload.data()) + at + 8, size);
    at += 8 + size;
    return text;
}

std::string shortest(double number) {
    std::array<char, 32> text;
    return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr};
}

std::string shortest(float number) {
    std::array<char, 32> text;
    return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr};
}

std::string describe_scalar(gguf_type type, const std::byte* at) {
    if (const auto number = read_int(type, at))
        return number->negative ? std::to_string(static_cast<std::int64_t>(number->bits))
                                : std::to_string(number->bits);
    if (type == gguf_type::f32) return shortest(load_le<float>(at));
    if (type == gguf_type::f64) return shortest(load_le<double>(at));
    return load_le<std::uint8_t>(at) != 0 ? "true" : "false";
}

std::string describe_array(const gguf_value& value) {
    constexpr std::uint64_t shown = 8;
    std::string out = "[";
    std::size_t at = 0;
    for (std::uint64_t i = 0; i < std::min(value.count, shown); ++i) {
        if (i > 0) out += ", ";
        if (value.element == gguf_type::string) {
            out += '"' + std::string(next_string(value.payload, at).substr(0, 40)) + '"';
        } else {
            out += describe_scalar(value.element, value.payload.data() + at);
            at += detail::gguf_type_size(value.element);
        }
    }
    if (value.count > shown) out += ", ...";
    return out + "] (" + std::to_string(value.count) + " x " + std::string(detail::gguf_type_name(value.element)) + ")";
}

class parsed_gguf final : public gguf_file {
 public:
    parsed_gguf(
        detail::gguf_contents contents, std::span<const std::byte> bytes, std::shared_ptr<const mapped_file> map)
        : file_(std::move(contents)), bytes_(bytes), map_(std::move(map)) {}

    std::uint32_t version() const override { return file_.version; }
    std::string format() const override { return "GGUF version " + std::to_string(file_.version); }
    std::vector<std::string_view> keys() const override;
    std::optional<gguf_type> type_of(std::string_view key) const override;
    result<std::optional<std::uint64_t>> get_uint(std::string_view key) const override;
    result<std::optional<std::int64_t>> get_int(std::string_view key) const override;
    result<std::optional<double>> get_float(std::string_view key) const override;
    result<std::optional<bool>> get_bool(std::string_view key) const override;
    result<std::optional<std::string_view>> get_string(std::string_view key) const override;
    result<std::optional<std::vector<std::string_view>>> get_strings(std::string_view key) const override;
    result<std::optional<std::vector<std::int64_t>>> get_ints(std::string_view key) const override;
    result<std::optional<std::vector<double>>> get_floats(std::string_view key) const override;
    std::string describe(std::string_view key) const override;
    std::span<const model_tensor> tensors() const override { return file_.tensors; }
    const model_tensor* tensor(std::string_view name) const override;
    std::vector<region> regions() const override;
    std::vector<std::pair<std::string, std::string>> packed_values() const override;

 private:
    const gguf_value* find(std::string_view key) const {
        const auto found = file_.value_index.find(key);
        return found == file_.value_index.end() ? nullptr : &file_.values[found->second];
    }

    detail::gguf_contents file_;
    std::span<const std::byte> bytes_;
    std::shared_ptr<const mapped_file> map_;  ///< keeps the bytes alive; empty for parse()
};

std::vector<std::string_view> parsed_gguf::keys() const {
    std::vector<std::string_view> all;
    all.reserve(file_.values.size());
    for (const auto& value : file_.values) all.push_back(value.key);
    return all;
}

std::optional<gguf_type> parsed_gguf::type_of(std::string_view key) const {
    const auto* value = find(key);
    return value ? std::optional(value->type) : std::nullopt;
}

result<std::optional<std::uint64_t>> parsed_gguf::get_uint(std::string_view key) const {
    const auto* value = find(key);
    if (!value) return std::optional<std::uint64_t>();
    const auto number = read_int(value->type, value->payload.data());
    if (!number) return unsuitable(*value, "an integer");
    if (number->negative) return out_of_range(*value, "unsigned integer");
    return std::optional(number->bits);
}

result<std::optional<std::int64_t>> parsed_gguf::get_int(std::string_view key) const {
    const auto* value = find(key);
    if (!value) return std::optional<std::int64_t>();
    const auto number = read_int(value->type, value->payload.data());
    if (!number) return unsuitable(*value, "an integer");
    const auto as_signed = static_cast<std::int64_t>(number->bits);
    if (!number->negative && as_signed < 0) return out_of_range(*value, "64-bit signed integer");
    return std::optional(as_signed);
}

result<std::optional<double>> parsed_gguf::get_float(std::string_view key) const {
    const auto* value = find(key);
    if (!value) return std::optional<double>();
    if (value->type == gguf_type::f32) return std::optional<double>(load_le<float>(value->payload.data()));
    if (value->type == gguf_type::f64) return std::optional(load_le<double>(value->payload.data()));
    return unsuitable(*value, "a floating point number");
}

result<std::optional<bool>> parsed_gguf::get_bool(std::string_view key) const {
    const auto* value = find(key);
    if (!value) return std::optional<bool>();
    if (value->type != gguf_type::boolean) return unsuitable(*value, "bool");
    const auto byte = load_le<std::uint8_t>(value->payload.data());
    if (byte > 1) return out_of_range(*value, "bool");
    return std::optional(byte == 1);
}

result<std::optional<std::string_view>> parsed_gguf::get_string(std::string_view key) const {
    const auto* value = find(key);
    if (!value) return std::optional<std::string_view>();
    if (value->type != gguf_type::string) return unsuitable(*value, "string");
    return std::optional(text_of(*value));
}

result<std::optional<std::vector<std::string_view>>> parsed_gguf::get_strings(std::string_view key) const {
    using strings = std::vector<std::string_view>;
    const auto* value = find(key);
    if (!value) return std::optional<strings>();
    if (value->type != gguf_type::array || value->element != gguf_type::string)
        return unsuitable(*value, "an array of strings");
    strings all;
    all.reserve(value->count);
    std::size_t at = 0;
    for (std::uint64_t i = 0; i < value->count; ++i) all.push_back(next_string(value->payload, at));
    return std::optional(std::move(all));
}

result<std::optional<std::vector<std::int64_t>>> parsed_gguf::get_ints(std::string_view key) const {
    const auto* value = find(key);
    if (!value) return std::optional<std::vector<std::int64_t>>();
    if (value->type != gguf_type::array) return unsuitable(*value, "an array of integers");
    std::vector<std::int64_t> all;
    bool fits = true;
    const bool integers = with_int_type(value->element, [&]<class T>(T) {
        all.resize(value->count);
        for (std::size_t i = 0; i < all.size(); ++i) {
            const T number = load_le<T>(value->payload.data() + i * sizeof(T));
            all[i] = static_cast<std::int64_t>(number);
            if (number > T{0} && all[i] < 0) fits = false;
        }
    });
    if (!integers) return unsuitable(*value, "an array of integers");
    if (!fits) return out_of_range(*value, "64-bit signed integer");
    return std::optional(std::move(all));
}

result<std::optional<std::vector<double>>> parsed_gguf::get_floats(std::string_view key) const {
    const auto* value = find(key);
    if (!value) return std::optional<std::vector<double>>();
    const bool wide = value->element == gguf_type::f64;
    if (value->type != gguf_type::array || (!wide && value->element != gguf_type::f32))
        return unsuitable(*value, "an array of floating point numbers");
    std::vector<double> all(value->count);
    for (std::size_t i = 0; i < all.size(); ++i)
        all[i] = wide ? load_le<double>(value->payload.data() + i * 8) : load_le<float>(value->payload.data() + i * 4);
    return std::optional(std::move(all));
}

std::string parsed_gguf::describe(std::string_view key) const {
    const auto* value = find(key);
    if (!value) return "(absent)";
    if (value->type == gguf_type::array) return describe_array(*value);
    if (value->type == gguf_type::string) return std::string(text_of(*value));
    return describe_scalar(value->type, value->payload.data());
}

std::vector<model_file::region> parsed_gguf::regions() const {
    std::uint64_t data_begin = bytes_.size();
    for (const model_tensor& t : file_.tensors)
        data_begin = std::min(data_begin, static_cast<std::uint64_t>(t.data.data() - bytes_.data()));
    return {{bytes_.first(data_begin), bytes_.subspan(data_begin)}};
}

std::vector<std::pair<std::string, std::string>> parsed_gguf::packed_values() const {
    std::vector<std::pair<std::string, std::string>> all;
    for (const gguf_value& v : file_.values) {
        std::string packed = detail::packed(static_cast<std::uint32_t>(v.type));
        if (v.type == gguf_type::array)
            packed += detail::packed(static_cast<std::uint32_t>(v.element)) + detail::packed(v.count);
        all.emplace_back(
            v.key, v.type == gguf_type::string ? packed + detail::packed(text_of(v)) : packed.append(text_of(v)));
    }
    return all;
}

const model_tensor* parsed_gguf::tensor(std::string_view name) const {
    const auto found = file_.tensor_index.find(name);
    return found == file_.tensor_index.end() ? nullptr : &file_.tensors[found->second];
}

}  // namespace

result<std::shared_ptr<const gguf_file>> gguf_file::open(const std::filesystem::path& path) {
    TROUPE_TRY(auto map, mapped_file::open(path));
    auto contents = detail::parse_gguf(map->bytes());
    if (!contents) return fail(contents.error().code, "'" + path.string() + "': " + contents.error().message);
    const auto bytes = map->bytes();
    return std::shared_ptr<const gguf_file>(std::make_shared<parsed_gguf>(*std::move(contents), bytes, std::move(map)));
}

result<std::shared_ptr<const gguf_file>> gguf_file::parse(std::span<const std::byte> bytes) {
    TROUPE_TRY(auto contents, detail::parse_gguf(bytes));
    return std::shared_ptr<const gguf_file>(std::make_shared<parsed_gguf>(std::move(contents), bytes, nullptr));
}

}  // namespace troupe::model
