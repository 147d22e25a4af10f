#include "actors/executor/kv_disk_tier.hpp"

#include <algorithm>
#include <chrono>
#include <system_error>

#include "core/log.hpp"

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t hash_shown = 16;  // characters of the model's hash in a folder's name
constexpr std::string_view image_suffix = ".kv", partial_mark = ".kv.partial-";

model::kv_identity identity_of(const executor_info& info, const model::kv_layout& layout) {
    return {info.model_hash, info.numerics_id, layout};
}

std::string as_name(std::string text) {
    for (char& c : text)
        if (c == '/' || c == '.') c = '_';
    return text;
}

void remove_file(const fs::path& path) {
    std::error_code ignored;
    fs::remove(path, ignored);
}

struct found_file {
    fs::path path;
    std::uint64_t bytes = 0;
    fs::file_time_type used{};
};

/// Every image below `folder`, used longest ago first. What a process that was killed left half written goes: nobody
/// else writes here.
std::vector<found_file> files_below(const fs::path& folder) {
    std::vector<found_file> files;
    std::error_code ec;
    for (fs::recursive_directory_iterator at(folder, ec), end; !ec && at != end; at.increment(ec)) {
        std::error_code one;
        if (at->path().filename().string().find(partial_mark) != std::string::npos) remove_file(at->path());
        if (at->path().extension() != image_suffix || !at->is_regular_file(one)) continue;
        found_file f{at->path(), at->file_size(one), at->last_write_time(one)};
        if (!one) files.push_back(std::move(f));
    }
    std::stable_sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.used < b.used; });
    return files;
}

kv_image_info describe(const model::kv_image& image, std::string file) {
    kv_image_info info{std::move(file), image.bytes(), image.head().first_block, {}, image.head().groups};
    std::uint64_t key = model::root_key;
    for (std::uint32_t i = 0; i < image.head().end_block(); ++i) {
        key = model::prefix_key(
            key, std::span(image.head().tokens).subspan(std::size_t{i} * model::block_tokens, model::block_tokens));
        if (i >= info.first_block) info.keys.push_back(key);
    }
    return info;
}

}  // namespace

kv_folder open_kv_folder(const kv_disk& disk, const executor_info& info, const model::kv_layout& layout) {
    if (disk.folder.empty()) return {};
    if (disk.bytes == 0) {  // switched off: nothing that was said stays behind
        for (const auto& f : files_below(disk.folder)) remove_file(f.path);
        return {};
    }
    kv_folder found;
    found.path = disk.folder / as_name(info.model_hash.substr(0, hash_shown)) / as_name(info.numerics_id);
    std::error_code ec;
    fs::create_directories(found.path, ec);
    if (!ec) fs::permissions(disk.folder, fs::perms::owner_all, ec);  // images tell what was said
    if (ec) {
        log::warn("kv_disk_off folder={} reason=\"{}\"", found.path.string(), ec.message());
        return {};
    }
    const auto identity = identity_of(info, layout);
    auto files = files_below(disk.folder);
    std::uint64_t foreign = 0;
    for (const auto& f : files) foreign += f.path.parent_path() == found.path ? 0 : f.bytes;
    for (const auto& f : files) {
        if (f.path.parent_path() != found.path) {
            if (foreign <= disk.bytes / 2) continue;
            foreign -= f.bytes;
            remove_file(f.path);
            continue;
        }
        const auto image = model::kv_image::open(f.path, identity);
        if (image) {
            found.images.push_back(describe(*image, f.path.filename().string()));
            continue;
        }
        ++found.refused;
        log::warn("kv_image_refused file={} reason={}", f.path.filename().string(), image.error().param);
        remove_file(f.path);
    }
    found.room = disk.bytes - foreign;
    log::info("kv_disk images={} refused={} room_mib={}", found.images.size(), found.refused, found.room >> 20);
    return found;
}

kv_disk_tier::kv_disk_tier(backend& b, fs::path folder, std::function<void(kv_job_result)> done)
    : backend_(b), folder_(std::move(folder)), identity_(identity_of(b.info(), b.layout())), done_(std::move(done)) {
    if (!folder_.empty()) thread_ = std::thread([this] { run(); });
}

kv_disk_tier::~kv_disk_tier() {
    {
        std::lock_guard lock(mutex_);
        stop_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
}

void kv_disk_tier::start(kv_job job) {
    if (folder_.empty()) {
        done_({.id = job.id, .reason = "unreadable"});
        return;
    }
    {
        std::lock_guard lock(mutex_);
        jobs_.push_back(std::move(job));
    }
    wake_.notify_one();
}

void kv_disk_tier::run() {
    for (;;) {
        kv_job job;
        {
            std::unique_lock lock(mutex_);
            wake_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
            if (stop_) return;
            job = std::move(jobs_.front());
            jobs_.pop_front();
        }
        done_(work(job));
    }
}

kv_job_result kv_disk_tier::work(const kv_job& job) {
    const auto start = std::chrono::steady_clock::now();
    const auto tokens = unpack_ids(job.tokens);
    kv_job_result r{.id = job.id};
    for (const kv_part& part : job.parts) {
        result<std::uint64_t> bytes = std::uint64_t{0};
        if (job.kind == kv_job_kind::save) bytes = save(job);
        if (job.kind == kv_job_kind::load) bytes = load(part, tokens);
        if (job.kind == kv_job_kind::drop) remove_file(folder_ / part.file);
        if (!bytes) {
            const auto& e = bytes.error();
            r.reason = e.param.empty() ? std::string(info(e.code).name) : e.param;
            log::warn("kv_image_failed file={} reason={} message=\"{}\"", part.file, r.reason, e.message);
            // What cannot be read is of no use; a disk that is full is left alone.
            if (job.kind == kv_job_kind::load) remove_file(folder_ / part.file);
            break;
        }
        ++r.good_parts;
        r.bytes += *bytes;
    }
    r.us = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start).count());
    return r;
}

result<std::uint64_t> kv_disk_tier::save(const kv_job& job) {
    const kv_part& part = job.parts.front();
    model::kv_image_head head{unpack_ids(job.tokens), job.first_block, {}};
    const std::size_t n_groups = identity_.layout.groups.size();
    const std::size_t n = head.tokens.size() / model::block_tokens - job.first_block;
    head.groups.resize(n);
    std::vector<model::block_id> blocks(n * n_groups, model::no_block);
    for (std::size_t i = 0; i < part.blocks.size(); ++i) {
        const std::size_t at = part.index[i] - job.first_block;
        head.groups[at] |= 1u << part.group[i];
        blocks[at * n_groups + part.group[i]] = part.blocks[i];
    }
    const auto written = model::write_kv_image(
        folder_ / part.file, identity_, head, [&](std::size_t g, std::uint32_t i, std::span<std::byte> to) {
            backend_.read_block(g, blocks[(i - job.first_block) * n_groups + g], to);
        });
    if (!written) return written.error();
    return model::kv_image_bytes(identity_, head);
}

result<std::uint64_t> kv_disk_tier::load(const kv_part& part, const std::vector<token_id>& tokens) {
    const fs::path path = folder_ / part.file;
    TROUPE_TRY(const auto image, model::kv_image::open(path, identity_));
    // What follows the blocks that are wanted may be another branch.
    std::size_t depends = 0;
    for (const std::uint32_t i : part.index)
        depends = std::max(depends, (std::size_t{i} + 1) * static_cast<std::size_t>(model::block_tokens));
    const auto& held = image.head().tokens;
    if (depends > std::min(held.size(), tokens.size()) ||
        !std::equal(held.begin(), held.begin() + static_cast<std::ptrdiff_t>(depends), tokens.begin()))
        return fail(errc::io, "the image is of other tokens", "foreign");
    std::uint64_t bytes = 0;
    std::vector<std::byte> block;
    for (std::size_t i = 0; i < part.blocks.size(); ++i) {
        TROUPE_TRYV(image.read(part.group[i], part.index[i], block));
        backend_.write_block(part.group[i], part.blocks[i], block);
        bytes += block.size();
    }
    std::error_code ignored;
    fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);  // when it was used last
    return bytes;
}

}  // namespace troupe::actors
