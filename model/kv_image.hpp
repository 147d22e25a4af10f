// KV blocks of a token prefix as a file: written when nobody needs them for now, read back when that is cheaper than
// computing them again. An image is bound to model, numerics and layout, and every block has a checksum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "model/kv_layout.hpp"

namespace troupe::model {

/// Names a prefix of whole blocks: that of its parent and the 16 tokens after it. For finding only, never for trusting:
/// tokens are compared when an image is read.
std::uint64_t prefix_key(std::uint64_t parent, std::span<const std::int32_t> block);
inline constexpr std::uint64_t root_key = 0;

/// What the bits of KV memory depend on besides the tokens.
struct kv_identity {
    std::string model_hash, numerics_id;
    kv_layout layout;
};

struct kv_image_head {
    std::vector<std::int32_t> tokens;   ///< from position 0 to the end of the last block
    std::uint32_t first_block = 0;      ///< the image holds blocks from here on
    std::vector<std::uint32_t> groups;  ///< one a block: bit g is set if layer group g's block is in the image
    std::uint32_t end_block() const { return first_block + static_cast<std::uint32_t>(groups.size()); }
};

/// Writes atomically. `read` fills in block i (counted from position 0) of a group. io: no room, not writable.
result<void> write_kv_image(const std::filesystem::path& path, const kv_identity& identity, const kv_image_head& head,
    const std::function<void(std::size_t group, std::uint32_t i, std::span<std::byte> to)>& read);
/// Bytes of the file.
std::uint64_t kv_image_bytes(const kv_identity& identity, const kv_image_head& head);

class kv_image {
 public:
    /// Checks everything but the blocks themselves. Errors say why in `param`: unreadable, truncated, checksum,
    /// malformed, foreign (another model, numerics, layout or version).
    static result<kv_image> open(const std::filesystem::path& path, const kv_identity& identity);

    const kv_image_head& head() const { return head_; }
    std::uint64_t bytes() const { return bytes_; }
    /// Reads block i (counted from position 0) of a group into `to`. Errors: checksum if it is damaged, unreadable,
    /// malformed if it is not in the image.
    result<void> read(std::size_t group, std::uint32_t i, std::vector<std::byte>& to) const;

 private:
    struct place {
        std::uint64_t offset = 0;
        std::uint32_t crc = 0;
    };
    /// Read and never mapped: a page of a bad disk must be an error, not the end of the process.
    struct open_file;
    std::shared_ptr<const open_file> file_;
    std::uint64_t bytes_ = 0;
    kv_image_head head_;
    std::size_t n_groups_ = 0;
    std::vector<std::uint64_t> block_bytes_;  ///< one a group
    std::vector<place> places_;               ///< [block][group]; offset 0: not in the image
};

}  // namespace troupe::model
