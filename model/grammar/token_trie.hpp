// A vocabulary's tokens as a tree over their bytes, laid out in the order of a walk: what a grammar refuses after a few
// bytes is refused for all tokens that begin with them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizers/tokenizer.hpp"

namespace troupe::model {

class token_trie {
 public:
    /// `pieces`: bytes of each token; an empty one is never allowed in constrained text.
    explicit token_trie(const std::vector<std::string_view>& pieces);
    /// Control, unknown and unused tokens stand for no text.
    static std::shared_ptr<const token_trie> of(const tokenizer& vocabulary);

    std::size_t n_tokens() const { return offsets_.size() - 1; }
    std::string_view piece(token_id id) const {
        const auto i = static_cast<std::size_t>(id);
        return std::string_view(bytes_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
    }
    std::size_t longest() const { return longest_; }

    /// Nodes in depth-first order: a node's descendants are [n + 1, end(n)).
    std::uint32_t size() const { return static_cast<std::uint32_t>(node_byte_.size()); }
    std::uint8_t byte(std::uint32_t n) const { return node_byte_[n]; }
    std::uint32_t depth(std::uint32_t n) const { return node_depth_[n]; }  ///< 1 below the root
    std::uint32_t end(std::uint32_t n) const { return node_end_[n]; }
    /// Tokens whose bytes lead exactly here.
    std::span<const token_id> tokens(std::uint32_t n) const {
        return {ids_.data() + first_id_[n], first_id_[n + 1] - first_id_[n]};
    }

 private:
    std::string bytes_;
    std::vector<std::uint32_t> offsets_;
    std::vector<std::uint8_t> node_byte_;
    std::vector<std::uint16_t> node_depth_;
    std::vector<std::uint32_t> node_end_, first_id_;
    std::vector<token_id> ids_;  ///< in the order of their bytes
    std::size_t longest_ = 0;
};

}  // namespace troupe::model
