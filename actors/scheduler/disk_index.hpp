// Which token prefixes lie on the disk as KV images, and which go when there is no room. Book-keeping of one executor
// incarnation; the files are the executor's.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/plan.hpp"
#include "model/kv_layout.hpp"

namespace troupe::actors {

class disk_index {
 public:
    disk_index() = default;
    /// images: used longest ago first. room: bytes they may take; 0: there is no disk tier.
    disk_index(model::kv_layout layout, std::uint64_t room, std::vector<kv_image_info> images);

    std::uint64_t room() const { return room_; }
    std::uint64_t bytes() const { return bytes_; }
    std::size_t size() const { return images_.size(); }
    bool has(std::uint64_t key) const { return where_.contains(key); }
    void add(kv_image_info image);
    void remove(const std::string& file);
    /// Forgets images, used longest ago first, until `bytes` more fit; the files to remove.
    std::vector<std::string> make_room(std::uint64_t bytes);

    /// Blocks [first, end) come from this file.
    struct run {
        std::string file;
        std::uint32_t first = 0, end = 0;
    };
    struct match {
        std::uint32_t end = 0;  ///< blocks of the prefix; 0: nothing found
        std::uint64_t bytes = 0;
        std::vector<run> runs;
    };
    /// The longest prefix of at most `most` tokens that goes on where `from` blocks are at hand: full-attention blocks
    /// of all positions from there, those of windows as far as a row at its end looks back.
    match find(std::span<const token_id> tokens, std::uint32_t from, std::int64_t most) const;
    void touch(const match& m);
    /// The first block of a group that a row after `end` blocks looks at.
    static std::uint32_t first_seen(std::uint32_t end, std::int32_t window);

 private:
    using order = std::list<kv_image_info>;
    struct place {
        order::iterator image;
        std::uint32_t i = 0;
    };

    model::kv_layout layout_;
    std::uint64_t room_ = 0, bytes_ = 0;
    order images_;  ///< used longest ago first
    std::unordered_map<std::string, order::iterator> by_file_;
    std::unordered_map<std::uint64_t, place> where_;
};

}  // namespace troupe::actors
