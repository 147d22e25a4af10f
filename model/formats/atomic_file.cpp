// O_TMPFILE where the file system has it (a killed process leaves nothing at all), else a temporary name beside the
// file.
#include "model/formats/atomic_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace troupe::model {

result<atomic_file> atomic_file::create(const std::filesystem::path& path, std::uint64_t size) {
    std::error_code ignored;
    const auto status = std::filesystem::status(path, ignored);
    if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
        return fail(errc::usage, "'" + path.string() + "' exists and is no regular file");
    const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
    std::string temporary;
    int fd = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0644);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
        temporary = path.string() + ".partial-" + std::to_string(::getpid());
        fd = ::open(temporary.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
    }
    atomic_file file(path, fd, fd >= 0 ? temporary : "");
    if (fd < 0) return file.failure("cannot be created", errno);
    // File systems that cannot reserve answer EOPNOTSUPP; the writes will tell there.
    if (size > 0 && ::fallocate(fd, 0, 0, static_cast<off_t>(size)) != 0 && errno != EOPNOTSUPP && errno != ENOSYS)
        return file.failure("needs more room than there is", errno);
    return file;
}

atomic_file::atomic_file(atomic_file&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)),
      temporary_(std::exchange(other.temporary_, std::string())), written_(other.written_) {}

atomic_file::~atomic_file() {
    if (fd_ >= 0) ::close(fd_);
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

error atomic_file::failure(const char* what, int code) const {
    return fail(errc::io, "'" + path_.string() + "' " + what + ": " + std::strerror(code));
}

result<void> atomic_file::append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return failure("cannot be written", n == 0 ? ENOSPC : errno);
        bytes = bytes.subspan(static_cast<std::size_t>(n));
        written_ += static_cast<std::uint64_t>(n);
    }
    return {};
}

result<void> atomic_file::append_zeros(std::uint64_t n) {
    static constexpr std::array<std::byte, 4096> zeros{};
    while (n > 0) {
        const std::uint64_t piece = std::min<std::uint64_t>(n, zeros.size());
        TROUPE_TRYV(append({zeros.data(), piece}));
        n -= piece;
    }
    return {};
}

result<void> atomic_file::commit() {
    if (::ftruncate(fd_, static_cast<off_t>(written_)) != 0 || ::fsync(fd_) != 0)
        return failure("cannot be written", errno);
    if (temporary_.empty()) {
        const std::string self = "/proc/self/fd/" + std::to_string(fd_);
        const std::string name = path_.string() + ".partial-" + std::to_string(::getpid());
        if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0)
            return failure("cannot be named", errno);
        temporary_ = name;
    }
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) return failure("cannot take its name", errno);
    temporary_.clear();
    return {};
}

}  // namespace troupe::model
