#include "actors/scheduler/disk_index.hpp"

#include <algorithm>

#include "model/kv_image.hpp"

namespace troupe::actors {
namespace {

constexpr std::size_t block = model::block_tokens;

}  // namespace

disk_index::disk_index(model::kv_layout layout, std::uint64_t room, std::vector<kv_image_info> images)
    : layout_(std::move(layout)), room_(room) {
    for (auto& image : images) add(std::move(image));
}

void disk_index::add(kv_image_info image) {
    remove(image.file);
    bytes_ += image.bytes;
    const auto at = images_.insert(images_.end(), std::move(image));
    by_file_[at->file] = at;
    for (std::uint32_t i = 0; i < at->keys.size(); ++i) where_[at->keys[i]] = {at, i};
}

void disk_index::remove(const std::string& file) {
    const auto found = by_file_.find(file);
    if (found == by_file_.end()) return;
    const auto at = found->second;
    for (const std::uint64_t key : at->keys)
        if (const auto w = where_.find(key); w != where_.end() && w->second.image == at) where_.erase(w);
    bytes_ -= at->bytes;
    by_file_.erase(found);
    images_.erase(at);
}

std::vector<std::string> disk_index::make_room(std::uint64_t bytes) {
    std::vector<std::string> gone;
    while (!images_.empty() && bytes_ + bytes > room_) {
        gone.push_back(images_.front().file);
        remove(gone.back());
    }
    return gone;
}

std::uint32_t disk_index::first_seen(std::uint32_t end, std::int32_t window) {
    if (window == 0) return 0;
    const std::int64_t first = std::int64_t{end} * static_cast<std::int64_t>(block) - window + 1;
    return static_cast<std::uint32_t>(std::max<std::int64_t>(0, first) / static_cast<std::int64_t>(block));
}

disk_index::match disk_index::find(std::span<const token_id> tokens, std::uint32_t from, std::int64_t most) const {
    match m;
    const auto& groups = layout_.groups;
    std::vector<std::uint32_t> gap(groups.size(), from);  // blocks [gap, i] of the group are there
    std::vector<place> path;
    std::uint64_t key = model::root_key;
    const auto n = static_cast<std::uint32_t>(std::max<std::int64_t>(0, most) / static_cast<std::int64_t>(block));
    for (std::uint32_t i = 0; i < n; ++i) {
        key = model::prefix_key(key, tokens.subspan(i * block, block));
        if (i < from) continue;
        const auto found = where_.find(key);
        if (found == where_.end()) break;
        const std::uint32_t mask = found->second.image->groups[found->second.i];
        bool usable = true, whole = true;
        for (std::size_t g = 0; g < groups.size(); ++g) {
            if (!(mask >> g & 1)) {
                gap[g] = i + 1;
                whole = whole && groups[g].window > 0;
            }
            usable = usable && gap[g] <= std::max(from, first_seen(i + 1, groups[g].window));
        }
        if (!whole) break;
        path.push_back(found->second);
        if (usable) m.end = i + 1;
    }
    for (std::uint32_t i = from; i < m.end; ++i) {
        const auto& image = path[i - from].image;
        if (m.runs.empty() || m.runs.back().file != image->file) m.runs.push_back({image->file, i, i});
        m.runs.back().end = i + 1;
        for (std::size_t g = 0; g < groups.size(); ++g)
            if (i >= first_seen(m.end, groups[g].window)) m.bytes += groups[g].block_bytes;
    }
    return m;
}

void disk_index::touch(const match& m) {
    // What comes later on a path goes earlier, so that no beginning is missing.
    for (auto r = m.runs.rbegin(); r != m.runs.rend(); ++r)
        if (const auto at = by_file_.find(r->file); at != by_file_.end())
            images_.splice(images_.end(), images_, at->second);
}

}  // namespace troupe::actors
