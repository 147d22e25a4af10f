// Keys for what tokenizer.json can say and GGUF cannot: set by formats/, read by tokenizers/.
#pragma once

namespace troupe::model::tokenizer_keys {

inline constexpr const char* end_ids = "troupe.tokenizer.end_token_ids";      ///< integers: each ends a generation
inline constexpr const char* strip_left = "troupe.tokenizer.strip_left_ids";  ///< integers: take the space before them
inline constexpr const char* strip_right =
    "troupe.tokenizer.strip_right_ids";  ///< integers: take the space behind them
inline constexpr const char* ignore_merges = "troupe.tokenizer.ignore_merges";  ///< bool, overrides the pre-tokenizer
inline constexpr const char* nfc = "troupe.tokenizer.normalize_nfc";            ///< bool
/// "never", "each" (stretch between special tokens), "unless" (it begins with one), "first" (stretch, unless it does)
inline constexpr const char* space_prefix = "troupe.tokenizer.space_prefix";
inline constexpr const char* split_words = "troupe.tokenizer.split_words";  ///< bool: no token reaches across a space

}  // namespace troupe::model::tokenizer_keys
