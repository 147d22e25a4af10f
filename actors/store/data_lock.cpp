#include "actors/store/data_lock.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace troupe::actors {

result<data_lock> data_lock::take(const std::filesystem::path& dir) {
    std::error_code ec;
    std::filesystem::create_directories(dir, ec);
    if (ec) return fail(errc::io, "cannot create " + dir.string() + ": " + ec.message(), "data_dir");
    const auto file = dir / "lock";
    const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return fail(errc::io, "cannot open " + file.string() + ": " + std::strerror(errno), "data_dir");
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return data_lock(fd);
    const int reason = errno;
    ::close(fd);
    if (reason == EWOULDBLOCK)
        return fail(errc::usage, dir.string() + " is in use by another troupe process; give --data-dir another place",
            "data_dir");
    return fail(errc::io, "cannot lock " + file.string() + ": " + std::strerror(reason), "data_dir");
}

data_lock::~data_lock() {
    if (fd_ >= 0) ::close(fd_);
}

}  // namespace troupe::actors
