// The header is small next to the data it describes, so it is parsed into a tree at once.
#include "model/formats/safetensors.hpp"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "model/formats/gguf_parse.hpp"
#include "model/formats/json_file.hpp"

namespace troupe::model {

namespace {

using detail::json_object;
using detail::printable_name;

constexpr std::uint64_t most_header_bytes = 100'000'000;  // the reference implementation's limit
constexpr std::size_t most_dims = 8;

struct type_size {
    std::string_view name;
    std::int64_t bytes;
};
constexpr std::array<type_size, 15> types{{{"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I32", 4}, {"I64", 8}, {"F64", 8},
    {"U8", 1}, {"I8", 1}, {"BOOL", 1}, {"I16", 2}, {"U16", 2}, {"U32", 4}, {"U64", 8}, {"F8_E4M3", 1}, {"F8_E5M2", 1}}};

error malformed(std::string what) { return fail(errc::model_malformed, "malformed safetensors: " + std::move(what)); }

/// Bytes that type and shape ask for.
result<std::int64_t> needed_bytes(const safetensors_entry& entry) {
    const auto* type = std::find_if(types.begin(), types.end(), [&](const auto& t) { return t.name == entry.type; });
    if (type == types.end())
        return fail(errc::model_unsupported, "tensor " + printable_name(entry.name) + " has type " +
                                                 printable_name(entry.type) + ", which this build does not know");
    std::int64_t size = type->bytes;
    for (const std::int64_t dim : entry.shape)
        if (__builtin_mul_overflow(size, dim, &size))
            return malformed("the dimensions of tensor " + printable_name(entry.name) + " overflow when multiplied");
    return size;
}

result<std::vector<std::int64_t>> read_sizes(const json_object& o, const char* key, const std::string& name) {
    TROUPE_TRY(const auto list, o.array(key));
    std::vector<std::int64_t> sizes;
    if (!list) return malformed("tensor " + printable_name(name) + " has no '" + key + "'");
    for (const auto element : *list) {
        std::int64_t size = 0;
        if (element.get(size) != simdjson::SUCCESS || size < 0)
            return malformed("'" + std::string(key) + "' of tensor " + printable_name(name) + " holds no plain size");
        if (sizes.size() == most_dims)
            return malformed("'" + std::string(key) + "' of tensor " + printable_name(name) + " has too many entries");
        sizes.push_back(size);
    }
    return sizes;
}

result<safetensors_entry> read_entry(std::string name, detail::dom::element value, std::span<const std::byte> data) {
    detail::dom::object raw;
    if (value.get(raw) != simdjson::SUCCESS) return malformed("tensor " + printable_name(name) + " is no object");
    const json_object o(raw, "tensor " + printable_name(name));
    safetensors_entry entry;
    entry.name = std::move(name);
    TROUPE_TRY(const auto type, o.text("dtype"));
    if (!type) return malformed("tensor " + printable_name(entry.name) + " has no 'dtype'");
    entry.type = *type;
    TROUPE_TRY(entry.shape, read_sizes(o, "shape", entry.name));
    TROUPE_TRY(const auto offsets, read_sizes(o, "data_offsets", entry.name));
    if (offsets.size() != 2 || offsets[0] > offsets[1] || static_cast<std::uint64_t>(offsets[1]) > data.size())
        return malformed("the data of tensor " + printable_name(entry.name) + " lies outside the file");
    TROUPE_TRY(const auto size, needed_bytes(entry));
    if (size != offsets[1] - offsets[0])
        return malformed("tensor " + printable_name(entry.name) + " has " + std::to_string(offsets[1] - offsets[0]) +
                         " bytes where type and shape need " + std::to_string(size));
    entry.data = data.subspan(static_cast<std::size_t>(offsets[0]), static_cast<std::size_t>(size));
    return entry;
}

/// The format wants the data covered exactly once: neither overlaps nor bytes that belong to nothing.
result<void> check_coverage(const std::vector<safetensors_entry>& tensors, std::span<const std::byte> data) {
    std::vector<const safetensors_entry*> order;
    for (const auto& t : tensors) order.push_back(&t);
    std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
        return a->data.data() != b->data.data() ? a->data.data() < b->data.data() : a->data.size() < b->data.size();
    });
    const std::byte* at = data.data();
    for (const auto* t : order) {
        if (t->data.data() != at)
            return malformed("the data of tensor " + printable_name(t->name) +
                             (t->data.data() < at ? " overlaps another's" : " follows a gap"));
        at += t->data.size();
    }
    if (at != data.data() + data.size()) return malformed("bytes at the end belong to no tensor");
    return {};
}

}  // namespace

result<safetensors_contents> parse_safetensors(std::span<const std::byte> bytes) {
    if (bytes.size() < sizeof(std::uint64_t)) return malformed("the file is shorter than its header's length");
    const auto length = detail::load_le<std::uint64_t>(bytes.data());
    const auto rest = bytes.subspan(sizeof(std::uint64_t));
    if (length > most_header_bytes || length > rest.size())
        return malformed("a header of " + std::to_string(length) + " bytes does not fit");
    const std::string_view text(reinterpret_cast<const char*>(rest.data()), length);
    TROUPE_TRY(const auto document, detail::json_document::parse(text, "the safetensors header", most_header_bytes));
    safetensors_contents file;
    file.header_bytes = sizeof(std::uint64_t) + length;
    const auto data = rest.subspan(length);
    std::unordered_set<std::string_view> seen;
    for (const auto [key, value] : document->root()) {
        if (!seen.insert(key).second) return malformed(printable_name(key) + " occurs twice");
        if (key == "__metadata__") continue;
        TROUPE_TRY(auto entry, read_entry(std::string(key), value, data));
        file.tensors.push_back(std::move(entry));
    }
    TROUPE_TRYV(check_coverage(file.tensors, data));
    return file;
}

}  // namespace troupe::model
