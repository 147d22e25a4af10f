// A file that appears under its name only when it is complete: whatever goes wrong before commit() leaves nothing
// behind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "core/result.hpp"

namespace troupe::model {

class atomic_file {
 public:
    /// Opens a nameless file in the folder of `path` and reserves `size` bytes, so that a full disk shows before the
    /// work. io: not writable, no room; usage: `path` exists and is no regular file.
    static result<atomic_file> create(const std::filesystem::path& path, std::uint64_t size);
    atomic_file(atomic_file&& other) noexcept;
    atomic_file& operator=(atomic_file&&) = delete;
    ~atomic_file();

    result<void> append(std::span<const std::byte> bytes);
    result<void> append_zeros(std::uint64_t n);
    std::uint64_t written() const { return written_; }
    /// Flushes to the disk and takes the name, replacing a file that has it.
    result<void> commit();

 private:
    atomic_file(std::filesystem::path path, int fd, std::string temporary)
        : path_(std::move(path)), fd_(fd), temporary_(std::move(temporary)) {}
    error failure(const char* what, int code) const;

    std::filesystem::path path_;
    int fd_ = -1;
    std::string temporary_;  ///< its name while it has one
    std::uint64_t written_ = 0;
};

}  // namespace troupe::model
