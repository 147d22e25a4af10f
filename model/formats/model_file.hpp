// What the rest of the model layer sees of a file or folder that holds a model: metadata under GGUF's keys and tensors
// under GGUF's names, whatever format they are stored in. Families, tokenizers and templates read nothing else.
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

/// Makes the rows of a tensor that its file stores otherwise: permuted, transposed, in several pieces. Any number of
/// threads may read at once.
class tensor_source {
 public:
    virtual ~tensor_source() = default;
    /// Writes rows [first, first + n), each row_bytes(type, cols) long, one after the other.
    virtual void read_rows(std::int64_t first, std::int64_t n, std::byte* out) const = 0;
};

struct model_tensor {
    std::string name;
    kernels::dtype type{};
    std::vector<std::int64_t> shape;  ///< GGUF order: shape[0] is the row length (inputs), shape[1] the rows
    std::span<const std::byte> data;  ///< inside the map, exactly the tensor's bytes; may be unaligned. Empty: `source`
    std::shared_ptr<const tensor_source> source;
    std::int64_t cols() const { return shape.empty() ? 1 : shape[0]; }
    std::int64_t rows() const;    ///< product of all but shape[0]
    std::uint64_t bytes() const;  ///< of all rows
    /// All bytes of the tensor: `data`, or what `source` writes into `buffer`.
    std::span<const std::byte> contents(std::vector<std::byte>& buffer) const;
};

class model_file {
 public:
    /// A GGUF file, or a folder as Hugging Face keeps models. model_missing if it cannot be opened.
    static result<std::shared_ptr<const model_file>> open(const std::filesystem::path& path);
    virtual ~model_file() = default;

    virtual std::string format() const = 0;                  ///< for a person: "GGUF version 3"
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

    virtual std::span<const model_tensor> tensors() const = 0;
    virtual const model_tensor* tensor(std::string_view name) const = 0;

    /// The mapped files, each cut in two: what is hashed whole and what is sampled (for the model hash).
    struct region {
        std::span<const std::byte> header, data;
    };
    virtual std::vector<region> regions() const = 0;
    std::uint64_t file_bytes() const;  ///< of all regions
};

}  // namespace troupe::model
