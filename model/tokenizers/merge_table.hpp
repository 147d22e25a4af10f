// Ranked pairs of tokens: the merges of BPE in either style. Internal to tokenizers/.
#pragma once

#include "model/tokenizers/flat_map.hpp"
#include "model/tokenizers/merge.hpp"
#include "model/tokenizers/vocabulary.hpp"

namespace troupe::model {

using merge_table = flat_map<merge_target>;

inline std::uint64_t pair_key(token_id left, token_id right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

inline merge_target find_merge(const merge_table& table, const symbol& left, const symbol& right) {
    if (left.id < 0 || right.id < 0) return {};
    const auto* target = table.find(pair_key(left.id, right.id));
    return target ? *target : merge_target{};
}

/// tokenizer.ggml.merges, "a b" by rank. model_malformed for merges that name no token or make a control token.
result<merge_table> load_merges(const model_file& file, const vocabulary& words);

}  // namespace troupe::model
