// Text -> token ids and back: byte-level BPE and SentencePiece-style vocabularies read from GGUF metadata. Immutable
// after load, shared by every thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "model/formats/model_file.hpp"
#include "model/templates/text_part.hpp"

namespace troupe::model {

using token_id = std::int32_t;

enum class token_kind : std::uint8_t { normal = 1, unknown, control, user_defined, unused, byte };

class tokenizer {
 public:
    /// Reads tokenizer.ggml.*. model_unsupported for a tokenizer or pre-tokenizer this build does not know,
    /// model_malformed for ids out of range, merges that name no token and the like.
    static result<std::shared_ptr<const tokenizer>> load(const model_file& file);
    virtual ~tokenizer() = default;

    virtual std::int32_t n_tokens() const = 0;
    virtual std::string_view type_name() const = 0;  ///< "bpe" or "spm"
    virtual std::string_view pre_name() const = 0;   ///< tokenizer.ggml.pre, or "default"
    virtual token_kind kind(token_id id) const = 0;
    /// Bytes the token stands for. Control tokens give nothing unless show_control. id must be in range.
    virtual std::string_view piece(token_id id, bool show_control = false) const = 0;
    virtual token_id bos() const = 0;  ///< -1: none
    virtual token_id eos() const = 0;  ///< -1: none
    virtual bool add_bos() const = 0;
    virtual bool add_eos() const = 0;
    /// Does this token end a generation? (EOS, end of turn, end of message; from metadata, stored type and well-known
    /// names)
    virtual bool is_end(token_id id) const = 0;
    virtual std::span<const token_id> end_tokens() const = 0;  ///< ascending

    /// Ids of text. Ill-formed UTF-8 is replaced by U+FFFD first (one for each maximal ill-formed subsequence).
    /// parse_special: control tokens written out in the text become their ids (user-defined ones always do).
    /// add_special: BOS/EOS as add_bos/add_eos say.
    virtual std::vector<token_id> encode(std::string_view text, bool parse_special, bool add_special) const = 0;
    /// Ids of a rendered template: special tokens are recognised in parts the template wrote, never in parts that came
    /// from the user. Nothing is added but BOS: one that
    /// the template starts with stays (several become one), and if add_bos says so it is put where it lacks.
    virtual std::vector<token_id> encode(std::span<const text_part> parts) const = 0;
};

/// Bytes of tokens -> text that never ends inside a code point: incomplete tails are held back, each maximal ill-formed
/// subsequence becomes U+FFFD (Unicode "substitution of maximal subparts", the WHATWG decoder's timing).
class utf8_stream {
 public:
    /// Text that is now certain.
    std::string push(std::string_view bytes);
    /// End of stream: held bytes become one U+FFFD.
    std::string flush();

 private:
    std::string held_;
};

}  // namespace troupe::model
