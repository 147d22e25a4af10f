// Writes GGUF bytes for tests of the reader, well-formed unless the test says otherwise: each count, type and offset
// can be set freely, and heads can be written without what they promise.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace troupe::testing {

/// Numbers of the value types in a file.
enum class gguf_tag : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

template <class T> constexpr gguf_tag tag_of() {
    if constexpr (std::is_same_v<T, bool>) return gguf_tag::boolean;
    if constexpr (std::is_same_v<T, float>) return gguf_tag::f32;
    if constexpr (std::is_same_v<T, double>) return gguf_tag::f64;
    if constexpr (sizeof(T) == 1) return std::is_signed_v<T> ? gguf_tag::i8 : gguf_tag::u8;
    if constexpr (sizeof(T) == 2) return std::is_signed_v<T> ? gguf_tag::i16 : gguf_tag::u16;
    if constexpr (sizeof(T) == 4) return std::is_signed_v<T> ? gguf_tag::i32 : gguf_tag::u32;
    return std::is_signed_v<T> ? gguf_tag::i64 : gguf_tag::u64;
}

class gguf_builder {
 public:
    template <class T>
    requires std::is_arithmetic_v<T> gguf_builder& set(std::string_view key, T value) {
        begin_value(key, tag_of<T>());
        append(values_, value);
        return *this;
    }
    gguf_builder& set(std::string_view key, std::string_view value) {
        begin_value(key, gguf_tag::string);
        append_text(values_, value);
        return *this;
    }
    gguf_builder& set(std::string_view key, const char* value) { return set(key, std::string_view(value)); }
    template <class T>
    requires std::is_arithmetic_v<T> gguf_builder& set_array(std::string_view key, const std::vector<T>& items) {
        begin_array(key, tag_of<T>(), items.size());
        for (const T item : items) append(values_, item);
        return *this;
    }
    gguf_builder& set_array(std::string_view key, const std::vector<std::string>& items) {
        begin_array(key, gguf_tag::string, items.size());
        for (const auto& item : items) append_text(values_, item);
        return *this;
    }
    /// Only the head of an array: `count` elements are claimed, none is written.
    gguf_builder& begin_array(std::string_view key, gguf_tag element, std::uint64_t count) {
        begin_value(key, gguf_tag::array);
        append(values_, element);
        append(values_, count);
        return *this;
    }
    /// Only the key and a type; the bytes of the value are up to raw().
    gguf_builder& begin_value(std::string_view key, gguf_tag type) {
        append_text(values_, key);
        append(values_, type);
        ++n_values;
        return *this;
    }
    template <class T> gguf_builder& raw(T value) {
        append(values_, value);
        return *this;
    }

    /// A tensor at the next free offset, or at `offset`; `bytes` of data are written, each the tensor's number from 1.
    gguf_builder& tensor(std::string_view name, std::initializer_list<std::uint64_t> shape, std::uint32_t type,
        std::size_t bytes, std::optional<std::uint64_t> offset = {}) {
        append_text(tensors_, name);
        append(tensors_, static_cast<std::uint32_t>(shape.size()));
        for (const auto dim : shape) append(tensors_, dim);
        append(tensors_, type);
        append(tensors_, offset.value_or(data_.size()));
        data_.resize(data_.size() + bytes, static_cast<std::byte>(++n_tensors));
        data_.resize((data_.size() + alignment - 1) / alignment * alignment);
        return *this;
    }

    std::vector<std::byte> bytes() const {
        std::vector<std::byte> out;
        for (const char c : magic) out.push_back(static_cast<std::byte>(c));
        append(out, version);
        append(out, claimed_tensors.value_or(n_tensors));
        append(out, claimed_values.value_or(n_values));
        out.insert(out.end(), values_.begin(), values_.end());
        out.insert(out.end(), tensors_.begin(), tensors_.end());
        if (n_tensors > 0) out.resize((out.size() + alignment - 1) / alignment * alignment);
        out.insert(out.end(), data_.begin(), data_.end());
        return out;
    }

    std::string magic = "GGUF";
    std::uint32_t version = 3;
    std::uint64_t n_tensors = 0;
    std::uint64_t n_values = 0;
    std::optional<std::uint64_t> claimed_tensors;
    std::optional<std::uint64_t> claimed_values;
    std::size_t alignment = 32;

 private:
    template <class T> static void append(std::vector<std::byte>& out, T value) {
        const auto at = out.size();
        out.resize(at + sizeof value);
        std::memcpy(out.data() + at, &value, sizeof value);
    }
    static void append_text(std::vector<std::byte>& out, std::string_view text) {
        append(out, static_cast<std::uint64_t>(text.size()));
        for (const char c : text) out.push_back(static_cast<std::byte>(c));
    }

    std::vector<std::byte> values_;
    std::vector<std::byte> tensors_;
    std::vector<std::byte> data_;
};

}  // namespace troupe::testing
