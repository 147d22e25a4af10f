// The walk over a GGUF file's bytes that checks every length before use. Internal to formats/.
#pragma once

#include <cstring>
#include <type_traits>
#include <unordered_map>

#include "model/formats/gguf.hpp"

namespace troupe::model::detail {

/// One metadata value, still in the file: `payload` is exactly its bytes (a string's without the length).
struct gguf_value {
    std::string_view key;
    gguf_type type{};
    gguf_type element{};      ///< arrays: the element type
    std::uint64_t count = 1;  ///< arrays: the number of elements, all of which lie in the file
    std::span<const std::byte> payload;
};

struct gguf_contents {
    std::uint32_t version = 0;
    std::vector<gguf_value> values;
    std::unordered_map<std::string_view, std::size_t> value_index;
    std::vector<model_tensor> tensors;
    std::unordered_map<std::string_view, std::size_t> tensor_index;
};

/// Bytes of one element; 0 for string and array.
std::size_t gguf_type_size(gguf_type type);
std::string_view gguf_type_name(gguf_type type);

/// Quoted, shortened and in printable ASCII: names in messages come from the file.
std::string printable_name(std::string_view name);

/// Unaligned little-endian read; `at` must lie inside.
template <class T> T load_le(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

/// Little-endian bytes of a number; a string with its length before it.
template <class T>
requires std::is_arithmetic_v<T> std::string packed(T value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
}
inline std::string packed(std::string_view text) {
    return packed(static_cast<std::uint64_t>(text.size())).append(text);
}

result<gguf_contents> parse_gguf(std::span<const std::byte> bytes);

}  // namespace troupe::model::detail
