// Jobs of the tiers below: the blocks are looked at when the job is finished, not when it begins, so that whoever moved
// or overwrote them in between is found out.
#include "fake_executor.hpp"
#include "model/kv_image.hpp"

namespace troupe::actors::sim {

kv_job_result fake_executor::finish_job() {
    const kv_job job = std::move(jobs_.front());
    jobs_.pop_front();
    kv_job_result r{.epoch = info_.epoch, .id = job.id, .us = 1000};
    const auto tokens = unpack_ids(job.tokens);
    if (!images_) return fault("a job, but there is no disk"), r;
    for (const kv_part& part : job.parts) {
        const bool good = job.kind == kv_job_kind::save ? save(job, part, tokens)
                          : job.kind == kv_job_kind::load
                              ? load(part, tokens)
                              : images_->images.erase(part.file) <= 1;  // it may be gone already
        if (!good) {
            r.reason = "checksum";
            break;
        }
        ++r.good_parts;
        r.bytes += bytes_of(part);
    }
    return r;
}

std::uint64_t fake_executor::bytes_of(const kv_part& part) const {
    std::uint64_t bytes = 0;
    for (const std::uint32_t g : part.group) bytes += layout_.groups[g].block_bytes;
    return bytes;
}

bool fake_executor::save(const kv_job& job, const kv_part& part, const std::vector<token_id>& tokens) {
    fake_image image;
    image.tokens = tokens;
    image.info = {.file = part.file, .bytes = bytes_of(part)};
    image.info.first_block = job.first_block;
    image.info.groups.resize(tokens.size() / model::block_tokens - job.first_block);
    std::uint64_t key = model::root_key;
    for (std::size_t i = 0; i < tokens.size() / model::block_tokens; ++i) {
        key = model::prefix_key(key, std::span(tokens).subspan(i * model::block_tokens, model::block_tokens));
        if (i >= job.first_block) image.info.keys.push_back(key);
    }
    for (std::size_t i = 0; i < part.blocks.size(); ++i) {
        image.info.groups[part.index[i] - job.first_block] |= 1u << part.group[i];
        const block* from = find(part.group[i], part.blocks[i]);
        if (!from) return false;
        for (std::int32_t s = 0; s < model::block_tokens; ++s) {
            const auto pos = static_cast<std::int32_t>(part.index[i]) * model::block_tokens + s;
            const slot& seen = (*from)[static_cast<std::size_t>(s)];
            if (seen.pos != pos || seen.token != tokens[static_cast<std::size_t>(pos)])
                fault("what is saved is not what it should be, at " + std::to_string(pos));
        }
        image.blocks[{part.index[i], part.group[i]}] = *from;
    }
    images_->images[part.file] = std::move(image);
    std::uint64_t bytes = 0;
    for (const auto& [file, i] : images_->images) bytes += i.info.bytes;
    if (bytes > images_->room) fault("more on the disk than may be");
    return true;
}

bool fake_executor::load(const kv_part& part, const std::vector<token_id>& tokens) {
    const auto found = images_->images.find(part.file);
    if (found == images_->images.end() || found->second.damaged) {
        images_->images.erase(part.file);
        return false;
    }
    const auto& held = found->second.tokens;
    std::size_t depends = 0;  // what follows may be another branch
    for (const std::uint32_t i : part.index) depends = std::max<std::size_t>(depends, (i + 1) * model::block_tokens);
    for (std::size_t i = 0; i < depends; ++i)
        if (i >= held.size() || i >= tokens.size() || held[i] != tokens[i])
            return fault("an image of other tokens is asked for"), false;
    for (std::size_t i = 0; i < part.blocks.size(); ++i) {
        const auto content = found->second.blocks.find({part.index[i], part.group[i]});
        if (content == found->second.blocks.end()) return fault("a block that the image does not have"), false;
        if (block* to = find(part.group[i], part.blocks[i])) *to = content->second;
    }
    return true;
}

}  // namespace troupe::actors::sim
