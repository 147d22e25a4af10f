// Reads header, metadata and tensor table in one pass. Counts from the file are first compared with the bytes that are
// left, so memory use is bounded by the file's own size.
#include "model/formats/gguf_parse.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "model/formats/ggml_types.hpp"

namespace troupe::model::detail {

static_assert(std::endian::native == std::endian::little, "values are read from the map without conversion");

namespace {

// What the shortest possible entry takes: bounds the claimed counts before anything is reserved.
constexpr std::uint64_t min_value_bytes = 8 + 1 + 4 + 1;
constexpr std::uint64_t min_tensor_bytes = 8 + 1 + 4 + 8 + 4 + 8;
constexpr std::uint32_t max_dims = 4;
constexpr std::uint64_t max_key_bytes = 65535;
constexpr std::uint64_t default_alignment = 32;

error malformed(std::string what) { return fail(errc::model_malformed, "malformed GGUF: " + std::move(what)); }
error unsupported(std::string what) { return fail(errc::model_unsupported, "unsupported GGUF: " + std::move(what)); }

class cursor {
 public:
    explicit cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}
    std::uint64_t position() const { return at_; }
    std::uint64_t left() const { return bytes_.size() - at_; }

    template <class T> result<T> number(const char* what) {
        if (left() < sizeof(T)) return past_the_end(what);
        const T value = load_le<T>(bytes_.data() + at_);
        at_ += sizeof(T);
        return value;
    }

    result<std::span<const std::byte>> take(std::uint64_t size, const char* what) {
        if (size > left()) return past_the_end(what);
        const auto taken = bytes_.subspan(at_, size);
        at_ += size;
        return taken;
    }

    result<std::string_view> text(const char* what) {
        TROUPE_TRY(const auto size, number<std::uint64_t>(what));
        TROUPE_TRY(const auto taken, take(size, what));
        return std::string_view(reinterpret_cast<const char*>(taken.data()), taken.size());
    }

 private:
    error past_the_end(const char* what) const {
        return malformed("the file ends inside " + std::string(what) + " at byte " + std::to_string(at_));
    }

    std::span<const std::byte> bytes_;
    std::uint64_t at_ = 0;
};

struct header {
    std::uint32_t version = 0;
    std::uint64_t n_tensors = 0;
    std::uint64_t n_values = 0;
};

result<header> read_header(cursor& in) {
    TROUPE_TRY(const auto magic, in.take(4, "the magic number"));
    if (std::memcmp(magic.data(), "GGUF", 4) != 0) return malformed("the file does not begin with 'GGUF'");
    header head;
    TROUPE_TRY(head.version, in.number<std::uint32_t>("the version"));
    // Versions are small, so a version whose low half is zero was written in the other byte order.
    if (head.version != 0 && (head.version & 0xffff) == 0) return unsupported("big-endian files are not read");
    if (head.version != 2 && head.version != 3)
        return unsupported("version " + std::to_string(head.version) + "; this build reads versions 2 and 3");
    TROUPE_TRY(head.n_tensors, in.number<std::uint64_t>("the tensor count"));
    TROUPE_TRY(head.n_values, in.number<std::uint64_t>("the metadata count"));
    if (head.n_values > in.left() / min_value_bytes)
        return malformed("metadata count " + std::to_string(head.n_values) + " is more than the file can hold");
    if (head.n_tensors > in.left() / min_tensor_bytes)
        return malformed("tensor count " + std::to_string(head.n_tensors) + " is more than the file can hold");
    return head;
}

result<gguf_type> read_type(cursor& in, std::string_view key) {
    TROUPE_TRY(const auto number, in.number<std::uint32_t>("a value type"));
    if (number > static_cast<std::uint32_t>(gguf_type::f64))
        return malformed("key " + printable_name(key) + " has unknown value type " + std::to_string(number));
    return static_cast<gguf_type>(number);
}

/// Moves over `count` strings; they stay in the file.
result<void> skip_strings(cursor& in, std::uint64_t count) {
    if (count > in.left() / sizeof(std::uint64_t))
        return malformed("an array of " + std::to_string(count) + " strings is longer than the file");
    for (std::uint64_t i = 0; i < count; ++i) {
        TROUPE_TRYV(in.text("a string array"));
    }
    return {};
}

result<void> read_array(cursor& in, std::span<const std::byte> bytes, gguf_value& value) {
    TROUPE_TRY(value.element, read_type(in, value.key));
    TROUPE_TRY(value.count, in.number<std::uint64_t>("an array length"));
    if (value.element == gguf_type::array)
        return unsupported("key " + printable_name(value.key) + " is an array of arrays");
    if (value.element == gguf_type::string) {
        const auto begin = in.position();
        TROUPE_TRYV(skip_strings(in, value.count));
        value.payload = bytes.subspan(begin, in.position() - begin);
        return {};
    }
    const std::uint64_t size = gguf_type_size(value.element);
    if (value.count > in.left() / size)
        return malformed("the array of key " + printable_name(value.key) + " is longer than the file");
    TROUPE_TRY(value.payload, in.take(value.count * size, "an array"));
    return {};
}

result<gguf_value> read_value(cursor& in, std::span<const std::byte> bytes) {
    gguf_value value;
    TROUPE_TRY(value.key, in.text("a key"));
    if (value.key.empty()) return malformed("a key is empty");
    if (value.key.size() > max_key_bytes) return malformed("a key is longer than 65535 bytes");
    TROUPE_TRY(value.type, read_type(in, value.key));
    if (value.type == gguf_type::array) {
        TROUPE_TRYV(read_array(in, bytes, value));
    } else if (value.type == gguf_type::string) {
        TROUPE_TRY(const auto text, in.text("a string value"));
        value.payload = std::as_bytes(std::span(text));
    } else {
        TROUPE_TRY(value.payload, in.take(gguf_type_size(value.type), "a value"));
    }
    return value;
}

result<std::uint64_t> read_alignment(const gguf_contents& file) {
    const auto found = file.value_index.find("general.alignment");
    if (found == file.value_index.end()) return default_alignment;
    const gguf_value& value = file.values[found->second];
    if (value.type != gguf_type::u32)
        return malformed("general.alignment has type " + std::string(gguf_type_name(value.type)) + ", not u32");
    const auto alignment = load_le<std::uint32_t>(value.payload.data());
    if (!std::has_single_bit(alignment))
        return malformed("general.alignment " + std::to_string(alignment) + " is not a power of two");
    return alignment;
}

/// The tensor's bytes follow once the start of the data section is known; until then `offset` counts from there.
struct pending_tensor {
    model_tensor tensor;
    std::string_view name;
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
};

result<std::vector<std::int64_t>> read_shape(cursor& in, std::string_view name) {
    TROUPE_TRY(const auto n_dims, in.number<std::uint32_t>("a tensor's dimensions"));
    if (n_dims == 0 || n_dims > max_dims)
        return malformed(
            "tensor " + printable_name(name) + " has " + std::to_string(n_dims) + " dimensions; 1 to 4 are allowed");
    std::vector<std::int64_t> shape(n_dims);
    std::int64_t values = 1;
    for (auto& dim : shape) {
        TROUPE_TRY(dim, in.number<std::int64_t>("a tensor's dimensions"));
        if (dim <= 0) return malformed("tensor " + printable_name(name) + " has a dimension that is zero or too large");
        if (__builtin_mul_overflow(values, dim, &values))
            return malformed("the dimensions of tensor " + printable_name(name) + " overflow when multiplied");
    }
    return shape;
}

result<std::uint64_t> tensor_bytes(const model_tensor& tensor) {
    const auto& type = kernels::info(tensor.type);
    if (tensor.cols() % type.block_values != 0)
        return malformed("rows of tensor " + printable_name(tensor.name) + " (" + std::to_string(tensor.cols()) +
                         " values) are no whole number of " + std::string(type.name) + " blocks");
    const std::int64_t blocks = tensor.cols() / type.block_values * tensor.rows();
    std::int64_t size = 0;
    if (__builtin_mul_overflow(blocks, static_cast<std::int64_t>(type.block_bytes), &size))
        return malformed("the size of tensor " + printable_name(tensor.name) + " overflows");
    return static_cast<std::uint64_t>(size);
}

result<pending_tensor> read_tensor(cursor& in, std::uint64_t alignment) {
    pending_tensor entry;
    TROUPE_TRY(entry.name, in.text("a tensor name"));
    if (entry.name.empty()) return malformed("a tensor name is empty");
    entry.tensor.name = entry.name;
    TROUPE_TRY(entry.tensor.shape, read_shape(in, entry.name));
    TROUPE_TRY(const auto number, in.number<std::uint32_t>("a tensor's type"));
    TROUPE_TRY(entry.offset, in.number<std::uint64_t>("a tensor's offset"));
    const auto type = ggml_dtype(number);
    if (!type)
        return unsupported("tensor " + printable_name(entry.name) + " has type " + std::to_string(number) + " (" +
                           std::string(ggml_type_name(number)) + "); supported are " + supported_ggml_types());
    entry.tensor.type = *type;
    TROUPE_TRY(entry.size, tensor_bytes(entry.tensor));
    if (entry.offset % alignment != 0)
        return malformed("the offset of tensor " + printable_name(entry.name) + " is not a multiple of the alignment " +
                         std::to_string(alignment));
    return entry;
}

/// Places the tensors in the data section, which must hold each of them whole and apart from the others.
result<void> place_tensors(std::vector<pending_tensor>& entries, std::span<const std::byte> bytes,
    std::uint64_t tables_end, std::uint64_t alignment) {
    if (entries.empty()) return {};
    const std::uint64_t padding = (alignment - tables_end % alignment) % alignment;
    if (padding > bytes.size() - tables_end) return malformed("the file ends before its tensor data");
    const auto data = bytes.subspan(tables_end + padding);
    std::vector<const pending_tensor*> by_offset;
    by_offset.reserve(entries.size());
    for (auto& entry : entries) {
        if (entry.offset > data.size() || entry.size > data.size() - entry.offset)
            return malformed("tensor " + printable_name(entry.name) + " (" + std::to_string(entry.size) +
                             " bytes at offset " + std::to_string(entry.offset) + ") lies past the end of the file");
        entry.tensor.data = data.subspan(entry.offset, entry.size);
        by_offset.push_back(&entry);
    }
    std::sort(by_offset.begin(), by_offset.end(), [](auto* a, auto* b) { return a->offset < b->offset; });
    for (std::size_t i = 1; i < by_offset.size(); ++i)
        if (by_offset[i]->offset - by_offset[i - 1]->offset < by_offset[i - 1]->size)
            return malformed("tensors " + printable_name(by_offset[i - 1]->name) + " and " +
                             printable_name(by_offset[i]->name) + " overlap");
    return {};
}

result<void> read_values(cursor& in, std::span<const std::byte> bytes, std::uint64_t count, gguf_contents& file) {
    file.values.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) {
        TROUPE_TRY(const auto value, read_value(in, bytes));
        if (!file.value_index.emplace(value.key, file.values.size()).second)
            return malformed("key " + printable_name(value.key) + " occurs twice");
        file.values.push_back(value);
    }
    return {};
}

}  // namespace

std::string printable_name(std::string_view name) {
    constexpr std::size_t longest = 80;
    std::string out = "'";
    for (const char c : name.substr(0, longest)) out += (c >= 0x20 && c < 0x7f) ? c : '?';
    return out + (name.size() > longest ? "...'" : "'");
}

std::size_t gguf_type_size(gguf_type type) {
    static constexpr std::array<std::size_t, 13> sizes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return sizes[static_cast<std::size_t>(type)];
}

std::string_view gguf_type_name(gguf_type type) {
    static constexpr std::array<std::string_view, 13> names = {
        "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};
    return names[static_cast<std::size_t>(type)];
}

result<gguf_contents> parse_gguf(std::span<const std::byte> bytes) {
    cursor in(bytes);
    TROUPE_TRY(const auto head, read_header(in));
    gguf_contents file;
    file.version = head.version;
    TROUPE_TRYV(read_values(in, bytes, head.n_values, file));
    TROUPE_TRY(const auto alignment, read_alignment(file));
    std::vector<pending_tensor> entries;
    if (head.n_tensors > in.left() / min_tensor_bytes) return malformed("the file ends inside the tensor table");
    entries.reserve(head.n_tensors);
    for (std::uint64_t i = 0; i < head.n_tensors; ++i) {
        TROUPE_TRY(auto entry, read_tensor(in, alignment));
        if (!file.tensor_index.emplace(entry.name, i).second)
            return malformed("tensor " + printable_name(entry.name) + " occurs twice");
        entries.push_back(std::move(entry));
    }
    TROUPE_TRYV(place_tensors(entries, bytes, in.position(), alignment));
    file.tensors.reserve(entries.size());
    for (auto& entry : entries) file.tensors.push_back(std::move(entry.tensor));
    return file;
}

}  // namespace troupe::model::detail
