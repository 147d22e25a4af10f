// GGUF version 3 files made from another model file: its metadata with changes, then tensors one after the other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/formats/atomic_file.hpp"
#include "model/formats/gguf.hpp"

namespace troupe::model {

/// Values to set (replaced in place, else appended) and keys to leave out.
class gguf_changes {
 public:
    void set(const std::string& key, std::uint32_t value);
    void set(const std::string& key, std::string_view value);
    void remove(const std::string& key) { removed_.push_back(key); }

 private:
    friend class gguf_output;
    std::vector<std::pair<std::string, std::string>> values_;  ///< key, type and value as in a file
    std::vector<std::string> removed_;
};

struct gguf_output_tensor {
    std::string name;
    std::vector<std::int64_t> shape;
    kernels::dtype type{};
    std::uint64_t bytes() const;
};

class gguf_output {
 public:
    /// Writes header and tensor table. The alignment is the source's. Errors as atomic_file.
    static result<gguf_output> create(const std::filesystem::path& path, const model_file& source,
        const gguf_changes& changes, std::span<const gguf_output_tensor> tensors);

    /// Data of the tensors in the order of the table; end_tensor() after each.
    result<void> append(std::span<const std::byte> bytes) { return file_.append(bytes); }
    result<void> end_tensor();
    result<void> commit() { return file_.commit(); }

 private:
    gguf_output(atomic_file file, std::uint64_t alignment) : file_(std::move(file)), alignment_(alignment) {}
    atomic_file file_;
    std::uint64_t alignment_;
};

}  // namespace troupe::model
