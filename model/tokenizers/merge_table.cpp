// Texts of merges become ids once, at load.
#include "model/tokenizers/merge_table.hpp"

namespace troupe::model {

namespace {
error malformed(std::string what) { return fail(errc::model_malformed, "malformed tokenizer: " + std::move(what)); }
}  // namespace

result<merge_table> load_merges(const model_file& file, const vocabulary& words) {
    TROUPE_TRY(const auto merges, file.get_strings("tokenizer.ggml.merges"));
    if (!merges) return malformed("this tokenizer needs tokenizer.ggml.merges");
    string_index ids(words.texts.size());
    for (token_id id = 0; id < words.size(); ++id) ids.insert(words.texts[static_cast<std::size_t>(id)], id);
    merge_table table(merges->size());
    std::string joined;
    for (std::size_t rank = 0; rank < merges->size(); ++rank) {
        const auto merge = (*merges)[rank];
        // The first character may itself be a space in vocabularies that do not escape it.
        const auto space = merge.find(' ', 1);
        if (space == std::string_view::npos) return malformed("merge " + std::to_string(rank) + " is no pair");
        joined.assign(merge.substr(0, space)).append(merge.substr(space + 1));
        const auto left = ids.find(merge.substr(0, space));
        const auto right = ids.find(merge.substr(space + 1));
        const auto whole = ids.find(joined);
        if (left < 0 || right < 0 || whole < 0)
            return malformed("merge " + std::to_string(rank) + " names a token the vocabulary does not have");
        // Text could otherwise grow into a control token that nobody may write.
        if (words.trusted_only(whole)) return malformed("merge " + std::to_string(rank) + " makes a control token");
        table.insert(pair_key(left, right), {static_cast<std::uint32_t>(rank), whole});
    }
    return table;
}

}  // namespace troupe::model
