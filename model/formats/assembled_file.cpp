// Typed access as in gguf.cpp: a wrong type is an error that names the key.
#include "model/formats/assembled_file.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "core/check.hpp"
#include "model/formats/gguf_parse.hpp"

namespace troupe::model {

void assembled_file::set(std::string key, value v) { values_.insert_or_assign(std::move(key), std::move(v)); }

bool assembled_file::add(model_tensor tensor) {
    CHECK(tensor.source != nullptr || tensor.data.size() == tensor.bytes());
    if (!index_.emplace(tensor.name, tensors_.size()).second) return false;
    tensors_.push_back(std::move(tensor));
    return true;
}

void assembled_file::keep(std::shared_ptr<const mapped_file> file, std::size_t header_bytes) {
    const auto bytes = file->bytes();
    regions_.push_back({bytes.first(header_bytes), bytes.subspan(header_bytes)});
    maps_.push_back(std::move(file));
}

std::vector<std::string_view> assembled_file::keys() const {
    std::vector<std::string_view> all;
    for (const auto& [key, v] : values_) all.push_back(key);
    return all;
}

std::optional<gguf_type> assembled_file::type_of(std::string_view key) const {
    static constexpr std::array types{gguf_type::i64, gguf_type::f64, gguf_type::boolean, gguf_type::string,
        gguf_type::array, gguf_type::array, gguf_type::array};
    static_assert(types.size() == std::variant_size_v<value>);
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional(types[found->second.index()]);
}

template <class T, class Out>
result<std::optional<Out>> assembled_file::get(std::string_view key, const char* wanted) const {
    const auto found = values_.find(key);
    if (found == values_.end()) return std::optional<Out>();
    if (const T* v = std::get_if<T>(&found->second)) return std::optional<Out>(Out(*v));
    return fail(errc::model_malformed, "key " + detail::printable_name(key) + " is not " + wanted, std::string(key));
}

result<std::optional<std::uint64_t>> assembled_file::get_uint(std::string_view key) const {
    TROUPE_TRY(const auto number, get_int(key));
    if (!number) return std::optional<std::uint64_t>();
    if (*number < 0)
        return fail(errc::model_malformed, "key " + detail::printable_name(key) + " is below zero", std::string(key));
    return std::optional(static_cast<std::uint64_t>(*number));
}
result<std::optional<std::int64_t>> assembled_file::get_int(std::string_view key) const {
    return get<std::int64_t>(key, "an integer");
}
result<std::optional<double>> assembled_file::get_float(std::string_view key) const {
    return get<double>(key, "a floating point number");
}
result<std::optional<bool>> assembled_file::get_bool(std::string_view key) const { return get<bool>(key, "a bool"); }
result<std::optional<std::string_view>> assembled_file::get_string(std::string_view key) const {
    return get<std::string, std::string_view>(key, "a string");
}
result<std::optional<std::vector<std::string_view>>> assembled_file::get_strings(std::string_view key) const {
    const auto found = values_.find(key);
    if (found == values_.end()) return std::optional<std::vector<std::string_view>>();
    if (const auto* v = std::get_if<std::vector<std::string>>(&found->second))
        return std::optional(std::vector<std::string_view>(v->begin(), v->end()));
    return fail(errc::model_malformed, "key " + detail::printable_name(key) + " is not an array of strings");
}
result<std::optional<std::vector<std::int64_t>>> assembled_file::get_ints(std::string_view key) const {
    return get<std::vector<std::int64_t>>(key, "an array of integers");
}
result<std::optional<std::vector<double>>> assembled_file::get_floats(std::string_view key) const {
    return get<std::vector<double>>(key, "an array of floating point numbers");
}

namespace {
template <class T> std::string describe_list(const std::vector<T>& list) {
    constexpr std::size_t shown = 8;
    std::string out = "[";
    for (std::size_t i = 0; i < std::min(list.size(), shown); ++i) {
        if (i > 0) out += ", ";
        if constexpr (std::is_same_v<T, std::string>)
            out += '"' + list[i].substr(0, 40) + '"';
        else
            out += fmt::format("{}", list[i]);
    }
    return out + (list.size() > shown ? ", ..." : "") + "] (" + std::to_string(list.size()) + ")";
}
}  // namespace

std::string assembled_file::describe(std::string_view key) const {
    const auto found = values_.find(key);
    if (found == values_.end()) return "(absent)";
    return std::visit(
        []<class T>(const T& v) -> std::string {
            if constexpr (std::is_same_v<T, std::string>)
                return v;
            else if constexpr (std::is_arithmetic_v<T>)
                return fmt::format("{}", v);
            else
                return describe_list(v);
        },
        found->second);
}

const model_tensor* assembled_file::tensor(std::string_view name) const {
    const auto found = index_.find(std::string(name));
    return found == index_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace troupe::model
