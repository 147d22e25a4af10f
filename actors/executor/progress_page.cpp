#include "actors/executor/progress_page.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace troupe::actors {
namespace {

constexpr std::size_t page_bytes = 4096;
static_assert(sizeof(progress_page) <= page_bytes);

}  // namespace

void mark(std::atomic<std::int64_t>& moment) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    moment.store(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count(), std::memory_order_release);
}

executor_status read_status(const progress_page& page, std::uint64_t epoch) {
    return {.epoch = epoch,
        .progress = page.progress.load(std::memory_order_acquire),
        .plan_started = page.plan_started.load(std::memory_order_acquire),
        .plans_done = page.plans_done.load(std::memory_order_acquire),
        .busy = page.busy.load(std::memory_order_acquire) != 0,
        .load_progress = page.load_permille.load(std::memory_order_relaxed) / 1000.0};
}

result<std::unique_ptr<shared_page>> shared_page::map(int fd) {
    void* at = mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return fail(errc::out_of_memory, std::string("cannot map the progress page: ") + std::strerror(errno));
    // The file is all zero, which is what every field starts with: both sides may come first.
    return std::unique_ptr<shared_page>(new shared_page(fd, std::launder(static_cast<progress_page*>(at))));
}

result<std::unique_ptr<shared_page>> shared_page::create() {
    const int fd = memfd_create("troupe-progress", MFD_CLOEXEC);
    if (fd < 0) return fail(errc::out_of_memory, std::string("cannot make a memory file: ") + std::strerror(errno));
    if (ftruncate(fd, page_bytes) != 0) {
        close(fd);
        return fail(errc::out_of_memory, std::string("cannot size a memory file: ") + std::strerror(errno));
    }
    auto mapped = map(fd);
    if (!mapped) close(fd);
    return mapped;
}

result<std::unique_ptr<shared_page>> shared_page::open(int fd) {
    struct stat status {};
    if (fstat(fd, &status) != 0 || status.st_size != static_cast<off_t>(page_bytes))
        return fail(errc::usage, "the inherited progress page is none", "page-fd");
    return map(fd);
}

shared_page::~shared_page() {
    munmap(page_, page_bytes);
    close(fd_);
}

}  // namespace troupe::actors
