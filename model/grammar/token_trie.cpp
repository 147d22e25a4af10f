// Built in one pass over the sorted tokens.
#include "model/grammar/token_trie.hpp"

#include <algorithm>

namespace troupe::model {
namespace {

constexpr std::size_t longest_token = 4096;  ///< longer ones (none are known) are not used in constrained text

}  // namespace

token_trie::token_trie(const std::vector<std::string_view>& pieces) {
    offsets_.push_back(0);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
        bytes_ += pieces[i];
        offsets_.push_back(static_cast<std::uint32_t>(bytes_.size()));
        if (pieces[i].empty() || pieces[i].size() > longest_token) continue;
        ids_.push_back(static_cast<token_id>(i));
        longest_ = std::max(longest_, pieces[i].size());
    }
    std::sort(ids_.begin(), ids_.end(), [&](token_id a, token_id b) {
        const auto x = piece(a), y = piece(b);
        return x != y ? x < y : a < b;
    });
    std::vector<std::uint32_t> path;  // nodes from the root to the last token
    std::string_view last;
    for (std::uint32_t i = 0; i < ids_.size(); ++i) {
        const auto text = piece(ids_[i]);
        const auto shared = static_cast<std::size_t>(
            std::mismatch(last.begin(), last.end(), text.begin(), text.end()).first - last.begin());
        for (; path.size() > shared; path.pop_back()) node_end_[path.back()] = size();
        for (std::size_t d = shared; d < text.size(); ++d) {
            path.push_back(size());
            node_byte_.push_back(static_cast<std::uint8_t>(text[d]));
            node_depth_.push_back(static_cast<std::uint16_t>(d + 1));
            node_end_.push_back(0);
            first_id_.push_back(i);
        }
        last = text;
    }
    for (; !path.empty(); path.pop_back()) node_end_[path.back()] = size();
    // A node that only leads on was made by the same token as the node after it: its range is empty.
    first_id_.push_back(static_cast<std::uint32_t>(ids_.size()));
}

std::shared_ptr<const token_trie> token_trie::of(const tokenizer& vocabulary) {
    std::vector<std::string_view> pieces;
    for (token_id id = 0; id < vocabulary.n_tokens(); ++id) {
        const auto kind = vocabulary.kind(id);
        const bool text = kind != token_kind::control && kind != token_kind::unknown && kind != token_kind::unused;
        pieces.push_back(text && !vocabulary.is_end(id) ? vocabulary.piece(id) : std::string_view());
    }
    return std::make_shared<const token_trie>(pieces);
}

}  // namespace troupe::model
