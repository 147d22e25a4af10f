// GGUF v2/v3 over a memory map. The file is hostile: every size is checked against the file before it is used, nothing
// is allocated by a length the file merely claims, and what is wrong comes back as model_malformed or
// model_unsupported. Source: the GGUF specification of the ggml project.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "kernels/types.hpp"

namespace troupe::model {

enum class gguf_type : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

struct gguf_tensor {
    std::string name;
    kernels::dtype type{};
    std::vector<std::int64_t> shape;  ///< GGUF order: shape[0] is the row length (inputs), shape[1] the rows
    std::span<const std::byte> data;  ///< inside the map, exactly the tensor's bytes; may be unaligned
    std::int64_t cols() const { return shape.empty() ? 1 : shape[0]; }
    std::int64_t rows() const;  ///< product of all but shape[0]
};

class gguf_file {
 public:
    /// Maps and parses. model_missing if the file cannot be opened.
    static result<std::shared_ptr<const gguf_file>> open(const std::filesystem::path& path);
    /// Parses bytes that stay alive as long as the result (fuzzing, tests).
    static result<std::shared_ptr<const gguf_file>> parse(std::span<const std::byte> bytes);
    virtual ~gguf_file() = default;

    virtual std::uint32_t version() const = 0;
    virtual std::vector<std::string_view> keys() const = 0;  ///< in file order
    virtual std::optional<gguf_type> type_of(std::string_view key) const = 0;

    /// Absent key -> nullopt; present with an unsuitable type or a value that does not fit -> model_malformed naming
    /// the key.
    virtual result<std::optional<std::uint64_t>> get_uint(std::string_view key) const = 0;
    virtual result<std::optional<std::int64_t>> get_int(std::string_view key) const = 0;
    virtual result<std::optional<double>> get_float(std::string_view key) const = 0;
    virtual result<std::optional<bool>> get_bool(std::string_view key) const = 0;
    virtual result<std::optional<std::string_view>> get_string(std::string_view key) const = 0;
    /// Arrays are converted element by element; the element type must be of the same family.
    virtual result<std::optional<std::vector<std::string_view>>> get_strings(std::string_view key) const = 0;
    virtual result<std::optional<std::vector<std::int64_t>>> get_ints(std::string_view key) const = 0;
    virtual result<std::optional<std::vector<double>>> get_floats(std::string_view key) const = 0;
    /// For a person: the value, arrays cut after a few elements.
    virtual std::string describe(std::string_view key) const = 0;

    virtual std::span<const gguf_tensor> tensors() const = 0;
    virtual const gguf_tensor* tensor(std::string_view name) const = 0;
    virtual std::uint64_t file_bytes() const = 0;
    /// The whole file as mapped (for the model hash).
    virtual std::span<const std::byte> bytes() const = 0;
};

}  // namespace troupe::model
