// Values of a GGUF file travel as the bytes they are, so that nothing is lost on the way.
#include "model/formats/gguf_write.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "model/formats/ggml_types.hpp"
#include "model/formats/gguf_parse.hpp"

namespace troupe::model {
namespace {

using detail::packed;

std::string number_of(gguf_type type) { return packed(static_cast<std::uint32_t>(type)); }

template <class T, class From> std::string packed_array(gguf_type element, const std::vector<From>& values) {
    std::string out = number_of(gguf_type::array) + number_of(element) + packed(std::uint64_t{values.size()});
    for (const From& v : values) out += packed(static_cast<T>(v));
    return out;
}

/// A value of a file that is no GGUF file itself: its own types are unknown, so the usual ones are written.
result<std::string> packed_value(const model_file& source, std::string_view key) {
    const gguf_type type = source.type_of(key).value_or(gguf_type::array);
    if (type == gguf_type::string) {
        TROUPE_TRY(const auto text, source.get_string(key));
        return number_of(type) + packed(text.value_or(""));
    }
    if (type == gguf_type::boolean) {
        TROUPE_TRY(const auto yes, source.get_bool(key));
        return number_of(type) + packed(static_cast<std::uint8_t>(yes.value_or(false)));
    }
    if (type == gguf_type::f32 || type == gguf_type::f64) {
        TROUPE_TRY(const auto number, source.get_float(key));
        return number_of(gguf_type::f32) + packed(static_cast<float>(number.value_or(0)));
    }
    if (type != gguf_type::array) {
        TROUPE_TRY(const auto number, source.get_int(key));
        return number_of(gguf_type::u32) + packed(static_cast<std::uint32_t>(number.value_or(0)));
    }
    if (const auto texts = source.get_strings(key))
        return packed_array<std::string_view>(gguf_type::string, texts->value_or(std::vector<std::string_view>()));
    if (const auto numbers = source.get_ints(key))
        return packed_array<std::int32_t>(gguf_type::i32, numbers->value_or(std::vector<std::int64_t>()));
    TROUPE_TRY(const auto numbers, source.get_floats(key));
    return packed_array<float>(gguf_type::f32, numbers.value_or(std::vector<double>()));
}

result<std::vector<std::pair<std::string, std::string>>> values_of(const model_file& source) {
    if (const auto* gguf = dynamic_cast<const gguf_file*>(&source)) return gguf->packed_values();
    std::vector<std::pair<std::string, std::string>> values;
    for (const auto key : source.keys()) {
        TROUPE_TRY(auto value, packed_value(source, key));
        values.emplace_back(key, std::move(value));
    }
    return values;
}

std::uint64_t round_up(std::uint64_t n, std::uint64_t to) { return (n + to - 1) / to * to; }

}  // namespace

void gguf_changes::set(const std::string& key, std::uint32_t value) {
    values_.emplace_back(key, number_of(gguf_type::u32) + packed(value));
}
void gguf_changes::set(const std::string& key, std::string_view value) {
    values_.emplace_back(key, number_of(gguf_type::string) + packed(value));
}

std::uint64_t gguf_output_tensor::bytes() const {
    std::uint64_t rows = 1;
    for (std::size_t i = 1; i < shape.size(); ++i) rows *= static_cast<std::uint64_t>(shape[i]);
    return rows * kernels::row_bytes(type, shape.at(0));
}

result<gguf_output> gguf_output::create(const std::filesystem::path& path, const model_file& source,
    const gguf_changes& changes, std::span<const gguf_output_tensor> tensors) {
    TROUPE_TRY(const auto alignment_value, source.get_uint("general.alignment"));
    const std::uint64_t alignment = alignment_value.value_or(32);
    TROUPE_TRY(auto values, values_of(source));
    std::erase_if(values, [&](const auto& v) {
        return std::find(changes.removed_.begin(), changes.removed_.end(), v.first) != changes.removed_.end();
    });
    for (const auto& change : changes.values_) {
        const auto found =
            std::find_if(values.begin(), values.end(), [&](const auto& v) { return v.first == change.first; });
        if (found == values.end())
            values.push_back(change);
        else
            found->second = change.second;
    }
    std::string head = "GGUF" + packed(std::uint32_t{3}) + packed(std::uint64_t{tensors.size()}) +
                       packed(std::uint64_t{values.size()});
    for (const auto& [key, value] : values) head += packed(key) + value;
    std::uint64_t offset = 0;
    for (const gguf_output_tensor& t : tensors) {
        head += packed(t.name) + packed(static_cast<std::uint32_t>(t.shape.size()));
        for (const std::int64_t n : t.shape) head += packed(n);
        const auto number = ggml_number(t.type);
        if (!number)
            return fail(errc::model_unsupported,
                "tensor " + detail::printable_name(t.name) + " has type " + std::string(kernels::info(t.type).name) +
                    ", which GGUF files cannot hold",
                t.name);
        head += packed(*number) + packed(offset);
        offset += round_up(t.bytes(), alignment);
    }
    TROUPE_TRY(atomic_file file, atomic_file::create(path, round_up(head.size(), alignment) + offset));
    gguf_output output(std::move(file), alignment);
    TROUPE_TRYV(output.append(std::as_bytes(std::span(head))));
    TROUPE_TRYV(output.end_tensor());
    return output;
}

result<void> gguf_output::end_tensor() {
    return file_.append_zeros(round_up(file_.written(), alignment_) - file_.written());
}

}  // namespace troupe::model
