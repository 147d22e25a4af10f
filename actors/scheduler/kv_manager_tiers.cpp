// Blocks on their way to the disk and back.
#include <algorithm>

#include "actors/scheduler/kv_manager.hpp"
#include "core/check.hpp"

namespace troupe::actors {

void kv_manager::hold_to_save(sequence_kv& s, prefix_cache::node* leaf, std::uint32_t first, kv_job& job) {
    std::vector<prefix_cache::node*> path;
    for (auto* n = leaf; n->parent != nullptr; n = n->parent) path.push_back(n);
    std::reverse(path.begin(), path.end());
    const auto end = static_cast<std::uint32_t>(path.size());
    std::vector<token_id> tokens;
    for (const auto* n : path) tokens.insert(tokens.end(), n->key.begin(), n->key.end());
    job.tokens = pack_ids(tokens);
    job.first_block = first;
    auto& part = job.parts.emplace_back();
    s = {};
    s.groups.resize(layout_.groups.size());
    for (std::size_t g = 0; g < s.groups.size(); ++g) {
        s.groups[g].blocks.assign(end, no_block);
        const std::int32_t window = layout_.groups[g].window;
        for (std::uint32_t i = first; i < end; ++i) {
            const block_id b = path[i]->blocks[g];
            if (b == no_block || (window > 0 && i + window_slack < disk_index::first_seen(end, window))) continue;
            s.groups[g].blocks[i] = b;
            pool_.ref(g, b);
            pool_.fix(g, b);
            part.index.push_back(i);
            part.group.push_back(static_cast<std::uint32_t>(g));
            part.blocks.push_back(b);
        }
    }
    s.published = leaf;
    cache_.pin(leaf);
}

kv_manager::got kv_manager::hold_to_load(
    sequence_kv& s, prefix_cache::match at_hand, const disk_index::match& found, kv_job& job) {
    if (s.groups.empty()) {
        CHECK(at_hand.copied == 0, "whole blocks only");
        adopt(s, std::move(at_hand));
        for (std::size_t g = 0; g < s.groups.size(); ++g) {
            auto& mine = s.groups[g];
            const std::uint32_t first = disk_index::first_seen(found.end, layout_.groups[g].window);
            for (; mine.live < first; ++mine.live) {
                if (mine.live == mine.blocks.size()) mine.blocks.push_back(no_block);
                block_id& b = mine.blocks[mine.live];
                if (b != no_block) pool_.unref(g, b);
                b = no_block;
            }
        }
    }
    const got r = extend(s, std::int64_t{found.end} * model::block_tokens);
    if (r != got::all) return r;
    for (const auto& run : found.runs) {
        auto& part = job.parts.emplace_back();
        part.file = run.file;
        for (std::size_t g = 0; g < s.groups.size(); ++g)
            for (std::uint32_t i = std::max(run.first, s.groups[g].live); i < run.end; ++i) {
                part.index.push_back(i);
                part.group.push_back(static_cast<std::uint32_t>(g));
                part.blocks.push_back(s.groups[g].blocks[i]);
                pool_.fix(g, s.groups[g].blocks[i]);
            }
    }
    return r;
}

void kv_manager::unfix(const kv_job& job) {
    for (const auto& part : job.parts)
        for (std::size_t i = 0; i < part.blocks.size(); ++i) pool_.unfix(part.group[i], part.blocks[i]);
}

}  // namespace troupe::actors
