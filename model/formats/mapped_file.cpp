// mmap with typed errors.
#include "model/formats/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace troupe::model {

namespace {

struct descriptor {
    int fd = -1;
    ~descriptor() {
        if (fd >= 0) ::close(fd);
    }
};

error io_failure(errc code, const std::filesystem::path& path, const char* what, int number) {
    return fail(code, "model file '" + path.string() + "': " + what + ": " + std::generic_category().message(number));
}

}  // namespace

result<std::shared_ptr<const mapped_file>> mapped_file::open(const std::filesystem::path& path) {
    // O_NONBLOCK: opening a FIFO must not wait for a writer.
    const descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (file.fd < 0) return io_failure(errc::model_missing, path, "cannot be opened", errno);
    struct stat status {};
    if (::fstat(file.fd, &status) != 0) return io_failure(errc::model_missing, path, "cannot be examined", errno);
    if (!S_ISREG(status.st_mode)) return fail(errc::model_malformed, "'" + path.string() + "' is not a regular file");
    if (status.st_size == 0) return fail(errc::model_malformed, "model file '" + path.string() + "' is empty");
    const auto size = static_cast<std::size_t>(status.st_size);
    void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd, 0);
    if (address == MAP_FAILED) return io_failure(errc::model_missing, path, "cannot be mapped", errno);
    return std::shared_ptr<const mapped_file>(new mapped_file({static_cast<const std::byte*>(address), size}));
}

mapped_file::~mapped_file() { ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size()); }

}  // namespace troupe::model
