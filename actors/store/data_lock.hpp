// The data directory belongs to one engine at a time: an flock on <dir>/lock, held as long as this object lives.
#pragma once

#include <filesystem>
#include <utility>

#include "core/result.hpp"

namespace troupe::actors {

class data_lock {
 public:
    /// Creates the directory. errc::usage if another process holds it; errc::io if the place cannot be written.
    static result<data_lock> take(const std::filesystem::path& dir);
    data_lock(data_lock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    data_lock& operator=(data_lock&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~data_lock();

 private:
    explicit data_lock(int fd) : fd_(fd) {}
    int fd_;
};

}  // namespace troupe::actors
