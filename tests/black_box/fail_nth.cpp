// Preloaded into troupe by test_fail_nth.py: the n-th call of a kind fails, once. A file of counters, mapped by the
// test and by every process it starts, says which: word 2k is the countdown of kind k (0: off), word 2k + 1 how often
// it fired.
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

enum kind : int {
    front_send,
    front_recv,
    front_accept,
    front_write,
    front_sync,
    front_truncate,
    executor_send,
    executor_recv,
    executor_map,
    executor_commit
};

std::atomic<std::int64_t>* counters = nullptr;
bool in_executor = false;

template <class F> F next(const char* name) { return reinterpret_cast<F>(dlsym(RTLD_NEXT, name)); }

__attribute__((constructor)) void open_counters() {
    const char* path = std::getenv("FAIL_NTH_COUNTERS");
    const int fd = path != nullptr ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return;
    static const auto real_map = next<void* (*)(void*, std::size_t, int, int, int, off_t)>("mmap64");
    void* at = real_map(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    char words[256] = {};
    const int own = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    const auto n = own >= 0 ? read(own, words, sizeof words - 1) : 0;
    if (own >= 0) close(own);
    in_executor = n > 0 && std::strcmp(words + std::strlen(words) + 1, "executor") == 0;
    if (at != MAP_FAILED) counters = static_cast<std::atomic<std::int64_t>*>(at);
}

/// True for the call that is to fail.
bool due(kind k) {
    if (counters == nullptr) return false;
    auto& left = counters[2 * k];
    if (left.load(std::memory_order_relaxed) <= 0 || left.fetch_sub(1) != 1) return false;
    ++counters[2 * k + 1];
    return true;
}

int failed(int error) {
    errno = error;
    return -1;
}

}  // namespace

extern "C" {

ssize_t send(int fd, const void* data, std::size_t n, int flags) {
    static const auto real = next<ssize_t (*)(int, const void*, std::size_t, int)>("send");
    return due(in_executor ? executor_send : front_send) ? failed(EPIPE) : real(fd, data, n, flags);
}
ssize_t sendmsg(int fd, const msghdr* m, int flags) {
    static const auto real = next<ssize_t (*)(int, const msghdr*, int)>("sendmsg");
    return due(in_executor ? executor_send : front_send) ? failed(EPIPE) : real(fd, m, flags);
}
ssize_t recv(int fd, void* data, std::size_t n, int flags) {
    static const auto real = next<ssize_t (*)(int, void*, std::size_t, int)>("recv");
    return due(in_executor ? executor_recv : front_recv) ? failed(ECONNRESET) : real(fd, data, n, flags);
}
ssize_t recvmsg(int fd, msghdr* m, int flags) {
    static const auto real = next<ssize_t (*)(int, msghdr*, int)>("recvmsg");
    return due(in_executor ? executor_recv : front_recv) ? failed(ECONNRESET) : real(fd, m, flags);
}
int accept(int fd, sockaddr* address, socklen_t* length) {
    static const auto real = next<int (*)(int, sockaddr*, socklen_t*)>("accept");
    return due(front_accept) ? failed(EMFILE) : real(fd, address, length);
}
int accept4(int fd, sockaddr* address, socklen_t* length, int flags) {
    static const auto real = next<int (*)(int, sockaddr*, socklen_t*, int)>("accept4");
    return due(front_accept) ? failed(EMFILE) : real(fd, address, length, flags);
}
ssize_t pwrite64(int fd, const void* data, std::size_t n, off64_t at) {
    static const auto real = next<ssize_t (*)(int, const void*, std::size_t, off64_t)>("pwrite64");
    return !in_executor && due(front_write) ? failed(ENOSPC) : real(fd, data, n, at);
}
int fdatasync(int fd) {
    static const auto real = next<int (*)(int)>("fdatasync");
    return !in_executor && due(front_sync) ? failed(EIO) : real(fd);
}
int fsync(int fd) {
    static const auto real = next<int (*)(int)>("fsync");
    return !in_executor && due(front_sync) ? failed(EIO) : real(fd);
}
int ftruncate64(int fd, off64_t size) {
    static const auto real = next<int (*)(int, off64_t)>("ftruncate64");
    return !in_executor && due(front_truncate) ? failed(EIO) : real(fd, size);
}
int mprotect(void* at, std::size_t n, int access) {
    static const auto real = next<int (*)(void*, std::size_t, int)>("mprotect");
    return in_executor && access != PROT_NONE && due(executor_commit) ? failed(ENOMEM) : real(at, n, access);
}
void* mmap64(void* at, std::size_t n, int access, int flags, int fd, off64_t offset) {
    static const auto real = next<void* (*)(void*, std::size_t, int, int, int, off64_t)>("mmap64");
    return in_executor && due(executor_map) ? (errno = ENOMEM, MAP_FAILED) : real(at, n, access, flags, fd, offset);
}
void* mmap(void* at, std::size_t n, int access, int flags, int fd, off_t offset) {
    static const auto real = next<void* (*)(void*, std::size_t, int, int, int, off_t)>("mmap");
    return in_executor && due(executor_map) ? (errno = ENOMEM, MAP_FAILED) : real(at, n, access, flags, fd, offset);
}
}
