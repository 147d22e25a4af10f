// A file mapped read-only. The pages are shared with every other process that maps the same file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "core/result.hpp"

namespace troupe::model {

class mapped_file {
 public:
    /// model_missing if the file cannot be opened, model_malformed if it is empty or not a regular file.
    static result<std::shared_ptr<const mapped_file>> open(const std::filesystem::path& path);
    mapped_file(const mapped_file&) = delete;
    mapped_file& operator=(const mapped_file&) = delete;
    ~mapped_file();

    std::span<const std::byte> bytes() const { return bytes_; }

 private:
    explicit mapped_file(std::span<const std::byte> bytes) : bytes_(bytes) {}
    std::span<const std::byte> bytes_;
};

}  // namespace troupe::model
