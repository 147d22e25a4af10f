// Two kinds of BPE are read: byte-level ones, and those in SentencePiece's style, which write a space as U+2581 and
// fall back to byte tokens.
#include "model/formats/hf_tokenizer.hpp"

#include <algorithm>
#include <unordered_map>

#include "model/formats/gguf_parse.hpp"
#include "model/formats/hf_pretokenizer.hpp"
#include "model/tokenizer_keys.hpp"

namespace troupe::model::detail {

namespace {

constexpr std::string_view escaped_space = "\u2581";
constexpr std::int64_t most_tokens = 1 << 24;

// token_type as GGUF numbers it
enum kind : std::int64_t { normal = 1, unknown, control, user_defined, unused, byte };

error unsupported(const std::string& what, const char* param) {
    return fail(errc::model_unsupported, "tokenizer.json: " + what, param);
}
error malformed(const std::string& what) { return fail(errc::model_malformed, "tokenizer.json: " + what); }

/// The objects of a list, or of a Sequence under `key`; a lone object counts as a list of one.
template <class Use> result<void> each_of(const json_object& o, const char* key, Use&& use) {
    TROUPE_TRY(const auto type, o.text("type"));
    if (type != "Sequence") return use(o);
    TROUPE_TRY(const auto list, o.array(key));
    if (!list) return o.wrong(key, "a list");
    for (const auto element : *list) {
        dom::object inner;
        if (element.get(inner) != simdjson::SUCCESS) return o.wrong(key, "a list of objects");
        TROUPE_TRYV(each_of(json_object(inner, o.what() + "." + key), key, use));
    }
    return {};
}

class translator {
 public:
    translator(const json_object& tokenizer, const json_object* settings, const hf_config& config, assembled_file& out)
        : o_(tokenizer), settings_(settings), config_(config), out_(out) {}
    result<void> run();

 private:
    result<void> model();
    result<void> vocabulary(const json_object& m);
    result<void> added_tokens();
    result<void> merges(const json_object& m);
    result<void> normalizer();
    result<void> normalize_by(const json_object& n);
    result<void> spaces();
    result<void> space_rule(const json_object& p);
    result<void> special_ids();
    result<void> post_processor();
    result<void> template_ends(const json_object& p);
    result<std::optional<std::string>> token_setting(const char* key) const;
    void mark_bytes();

    const json_object& o_;
    const json_object* settings_;
    const hf_config& config_;
    assembled_file& out_;
    std::vector<std::string> texts_;
    std::vector<std::int64_t> kinds_, strip_left_, strip_right_;
    std::unordered_map<std::string, std::int64_t> ids_;
    std::string bos_, eos_, unknown_;
    bool byte_level_ = false, prepends_ = false, escapes_ = false;
    bool adds_bos_ = false, adds_eos_ = false;
};

result<void> translator::vocabulary(const json_object& m) {
    TROUPE_TRY(const auto vocab, m.object("vocab"));
    if (!vocab) return malformed("the model has no 'vocab'");
    texts_.resize(static_cast<std::size_t>(config_.n_vocab));
    kinds_.assign(texts_.size(), unused);
    for (const auto [text, value] : vocab->raw()) {
        std::int64_t id = 0;
        if (value.get(id) != simdjson::SUCCESS || id < 0 || id >= config_.n_vocab)
            return malformed("token " + printable_name(text) + " has an id outside the model's vocabulary of " +
                             std::to_string(config_.n_vocab));
        const auto i = static_cast<std::size_t>(id);
        if (kinds_[i] != unused) return malformed("id " + std::to_string(id) + " is given to two tokens");
        if (!ids_.emplace(std::string(text), id).second) return malformed(printable_name(text) + " occurs twice");
        texts_[i] = text;
        kinds_[i] = normal;
    }
    return {};
}

result<void> translator::added_tokens() {
    TROUPE_TRY(const auto list, o_.array("added_tokens"));
    if (!list) return {};
    for (const auto element : *list) {
        dom::object raw;
        if (element.get(raw) != simdjson::SUCCESS) return o_.wrong("added_tokens", "a list of objects");
        const json_object token(raw, o_.what() + ".added_tokens");
        TROUPE_TRY(const auto id, token.integer("id"));
        TROUPE_TRY(const auto content, token.text("content"));
        if (!id || !content || *id < 0 || *id >= config_.n_vocab)
            return malformed("an added token has no text or an id outside the vocabulary");
        const auto i = static_cast<std::size_t>(*id);
        const auto [known, fresh] = ids_.emplace(std::string(*content), *id);
        if (known->second != *id || (fresh && kinds_[i] != unused))
            return malformed("added token " + printable_name(*content) + " collides with another");
        TROUPE_TRY(const bool word, json_object::or_else(token.boolean("single_word"), false));
        if (word) return unsupported("added tokens that match whole words only are not built", "added_tokens");
        TROUPE_TRY(const bool special, json_object::or_else(token.boolean("special"), false));
        texts_[i] = *content;
        kinds_[i] = *content == unknown_ ? unknown : special ? control : user_defined;
        TROUPE_TRY(const bool left, json_object::or_else(token.boolean("lstrip"), false));
        TROUPE_TRY(const bool right, json_object::or_else(token.boolean("rstrip"), false));
        if (left) strip_left_.push_back(*id);
        if (right) strip_right_.push_back(*id);
    }
    return {};
}

void translator::mark_bytes() {
    constexpr const char* digits = "0123456789ABCDEF";
    for (int b = 0; b < 256; ++b) {
        const auto found = ids_.find(std::string("<0x") + digits[b / 16] + digits[b % 16] + ">");
        if (found != ids_.end()) kinds_[static_cast<std::size_t>(found->second)] = byte;
    }
}

/// "a b" or ["a", "b"].
result<void> translator::merges(const json_object& m) {
    TROUPE_TRY(const auto list, m.array("merges"));
    if (!list) return malformed("the model has no 'merges'");
    std::vector<std::string> all;
    for (const auto element : *list) {
        std::string_view text, left, right;
        dom::array pair;
        if (element.get(text) == simdjson::SUCCESS) {
            all.emplace_back(text);
            continue;
        }
        if (element.get(pair) != simdjson::SUCCESS || pair.size() != 2 || pair.at(0).get(left) != simdjson::SUCCESS ||
            pair.at(1).get(right) != simdjson::SUCCESS || left.empty() || right.empty())
            return m.wrong("merges", "a list of pairs");
        if (left.find(' ', 1) != left.npos || right.find(' ') != right.npos)
            return unsupported("merges of tokens with spaces are not built", "merges");
        all.push_back(std::string(left) + " " + std::string(right));
    }
    out_.set("tokenizer.ggml.merges", std::move(all));
    return {};
}

result<void> translator::model() {
    TROUPE_TRY(const auto m, o_.object("model"));
    if (!m) return malformed("there is no 'model'");
    TROUPE_TRY(const auto type, m->text("type"));
    if (type.value_or("BPE") != "BPE")
        return unsupported("model " + printable_name(*type) + " is not built; BPE is", "model");
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
        TROUPE_TRY(const auto affix, m->text(key));
        if (affix && !affix->empty()) return unsupported(std::string("'") + key + "' is not built", key);
    }
    if (m->has("dropout")) {
        TROUPE_TRY(const auto dropout, m->number("dropout"));
        if (*dropout != 0) return unsupported("dropout is not built", "dropout");
    }
    TROUPE_TRY(const auto unk, m->text("unk_token"));
    unknown_ = unk.value_or("");
    TROUPE_TRYV(vocabulary(*m));
    TROUPE_TRYV(added_tokens());
    if (const auto found = ids_.find(unknown_); unk && found != ids_.end())
        out_.set("tokenizer.ggml.unknown_token_id", found->second);
    TROUPE_TRYV(merges(*m));
    TROUPE_TRY(const bool fallback, json_object::or_else(m->boolean("byte_fallback"), false));
    TROUPE_TRY(const bool whole, json_object::or_else(m->boolean("ignore_merges"), false));
    TROUPE_TRYV(normalizer());
    TROUPE_TRY(const auto pre, o_.object("pre_tokenizer"));
    byte_level_ = !escapes_ && pre.has_value() && !fallback;
    if (!byte_level_) {
        if (!fallback)
            return unsupported("BPE that is neither byte-level nor falls back to bytes is not built", "model");
        if (whole) return unsupported("'ignore_merges' is built for byte-level BPE only", "ignore_merges");
        mark_bytes();
        out_.set("tokenizer.ggml.model", std::string("llama"));
        return spaces();
    }
    out_.set("tokenizer.ggml.model", std::string("gpt2"));
    TROUPE_TRY(auto name, byte_level_pretokenizer(*pre));
    out_.set("tokenizer.ggml.pre", std::move(name));
    out_.set(tokenizer_keys::ignore_merges, whole);
    return {};
}

result<void> translator::normalize_by(const json_object& n) {
    TROUPE_TRY(const auto type, n.text("type"));
    if (type == "NFC") {
        out_.set(tokenizer_keys::nfc, true);
        return {};
    }
    if (type == "Prepend") {
        TROUPE_TRY(const auto text, n.text("prepend"));
        if (text == escaped_space) prepends_ = true;
        return prepends_ ? result<void>()
                         : unsupported("a prepended text other than U+2581 is not built", "normalizer");
    }
    if (type == "Replace") {
        TROUPE_TRY(const auto pattern, n.object("pattern"));
        TROUPE_TRY(const auto content, n.text("content"));
        std::optional<std::string_view> from;
        if (pattern) {
            TROUPE_TRY(from, pattern->text("String"));
        }
        if (from == " " && content == escaped_space) {
            escapes_ = true;
            return {};
        }
        return unsupported("replacing anything but spaces by U+2581 is not built", "normalizer");
    }
    return unsupported("normalizer " + printable_name(type.value_or("(none)")) + " is not built", "normalizer");
}

result<void> translator::normalizer() {
    TROUPE_TRY(const auto n, o_.object("normalizer"));
    if (!n) return {};
    return each_of(*n, "normalizers", [&](const json_object& inner) { return normalize_by(inner); });
}

/// How a tokenizer in SentencePiece's style treats spaces beyond what its normalizer does.
result<void> translator::space_rule(const json_object& p) {
    TROUPE_TRY(const auto type, p.text("type"));
    if (type == "Metaspace") {
        TROUPE_TRY(const auto replacement, p.text("replacement"));
        if (replacement.value_or(escaped_space) != escaped_space)
            return unsupported("a Metaspace other than U+2581 is not built", "pre_tokenizer");
        TROUPE_TRY(const bool old_prefix, json_object::or_else(p.boolean("add_prefix_space"), true));
        TROUPE_TRY(const auto scheme, p.text("prepend_scheme"));
        const auto wanted = scheme.value_or(old_prefix ? "always" : "never");
        if (wanted != "always" && wanted != "never" && wanted != "first")
            return unsupported("prepend_scheme " + printable_name(wanted) + " is not built", "pre_tokenizer");
        escapes_ = true;
        out_.set(tokenizer_keys::space_prefix, std::string(wanted == "always"  ? "unless"
                                                           : wanted == "first" ? "first"
                                                                               : "never"));
        TROUPE_TRY(const bool split, json_object::or_else(p.boolean("split"), true));
        out_.set(tokenizer_keys::split_words, split);
        return {};
    }
    if (type == "Split") {
        // Gemma splits at spaces after its normalizer has replaced all of them.
        TROUPE_TRY(const auto pattern, p.object("pattern"));
        if (pattern && escapes_) {
            TROUPE_TRY(const auto text, pattern->text("String"));
            if (text == " ") return {};
        }
    }
    return unsupported(
        "pre-tokenizer " + printable_name(type.value_or("(none)")) + " is not built for BPE in SentencePiece's style",
        "pre_tokenizer");
}

result<void> translator::spaces() {
    out_.set(tokenizer_keys::space_prefix, std::string(prepends_ ? "each" : "never"));
    TROUPE_TRY(const auto pre, o_.object("pre_tokenizer"));
    if (pre) TROUPE_TRYV(each_of(*pre, "pretokenizers", [&](const json_object& p) { return space_rule(p); }));
    return escapes_ ? result<void>()
                    : unsupported("BPE that does not write spaces as U+2581 is not built", "normalizer");
}

/// "<s>" or {"content": "<s>", ...}
result<std::optional<std::string>> translator::token_setting(const char* key) const {
    if (settings_ == nullptr || !settings_->has(key)) return std::optional<std::string>();
    std::string_view text;
    if (settings_->get(key)->get(text) == simdjson::SUCCESS) return std::optional(std::string(text));
    TROUPE_TRY(const auto token, settings_->object(key));
    TROUPE_TRY(const auto content, token->text("content"));
    if (!content) return settings_->wrong(key, "a token");
    return std::optional(std::string(*content));
}

result<void> translator::special_ids() {
    const auto id_of = [&](const std::optional<std::string>& name, const std::vector<std::int64_t>& others) {
        const auto found = name ? ids_.find(*name) : ids_.end();
        if (found != ids_.end()) return found->second;
        return others.empty() || others[0] >= config_.n_vocab ? std::int64_t{-1} : others[0];
    };
    TROUPE_TRY(const auto bos_name, token_setting("bos_token"));
    TROUPE_TRY(const auto eos_name, token_setting("eos_token"));
    const auto bos = id_of(bos_name, config_.bos), eos = id_of(eos_name, config_.eos);
    std::vector<std::int64_t> ends;
    for (const auto id : config_.eos)
        if (id < config_.n_vocab) ends.push_back(id);
    if (bos >= 0) {
        out_.set("tokenizer.ggml.bos_token_id", bos);
        bos_ = texts_[static_cast<std::size_t>(bos)];
    }
    if (eos >= 0) {
        out_.set("tokenizer.ggml.eos_token_id", eos);
        eos_ = texts_[static_cast<std::size_t>(eos)];
    }
    out_.set(tokenizer_keys::end_ids, std::move(ends));
    return {};
}

/// Does the template put the beginning or the end of text around a sequence?
result<void> translator::template_ends(const json_object& p) {
    TROUPE_TRY(const auto type, p.text("type"));
    if (type == "ByteLevel") return {};
    if (type != "TemplateProcessing")
        return unsupported(
            "post-processor " + printable_name(type.value_or("(none)")) + " is not built", "post_processor");
    TROUPE_TRY(const auto single, p.array("single"));
    if (!single) return {};
    bool before = true;
    for (const auto element : *single) {
        dom::object piece, special;
        if (element.get(piece) != simdjson::SUCCESS) return p.wrong("single", "a list of objects");
        if (piece.at_key("SpecialToken").get(special) != simdjson::SUCCESS) {
            before = false;
            continue;
        }
        TROUPE_TRY(const auto id, json_object(special, p.what()).text("id"));
        const bool known = before ? id == bos_ && !adds_bos_ : id == eos_ && !adds_eos_;
        if (!known)
            return unsupported(
                "a post-processor that adds other tokens than BOS and EOS is not built", "post_processor");
        (before ? adds_bos_ : adds_eos_) = true;
    }
    return {};
}

result<void> translator::post_processor() {
    TROUPE_TRY(const auto p, o_.object("post_processor"));
    if (p) TROUPE_TRYV(each_of(*p, "processors", [&](const json_object& inner) { return template_ends(inner); }));
    if (settings_ != nullptr) {
        // transformers builds the post-processor of these classes anew from the two flags.
        TROUPE_TRY(const auto name, settings_->text("tokenizer_class"));
        const bool rebuilt = name && (name->starts_with("Llama") || name->starts_with("Gemma"));
        TROUPE_TRY(const auto bos, settings_->boolean("add_bos_token"));
        TROUPE_TRY(const auto eos, settings_->boolean("add_eos_token"));
        if (bos && rebuilt) adds_bos_ = *bos;
        if (eos && rebuilt) adds_eos_ = *eos;
    }
    out_.set("tokenizer.ggml.add_bos_token", adds_bos_);
    out_.set("tokenizer.ggml.add_eos_token", adds_eos_);
    return {};
}

result<void> translator::run() {
    TROUPE_TRYV(model());
    TROUPE_TRYV(special_ids());
    TROUPE_TRYV(post_processor());
    for (std::size_t i = 0; i < texts_.size(); ++i)
        if (kinds_[i] == unused) texts_[i] = "[PAD" + std::to_string(i) + "]";
    out_.set("tokenizer.ggml.tokens", std::move(texts_));
    out_.set("tokenizer.ggml.token_type", std::move(kinds_));
    if (!strip_left_.empty()) out_.set(tokenizer_keys::strip_left, std::move(strip_left_));
    if (!strip_right_.empty()) out_.set(tokenizer_keys::strip_right, std::move(strip_right_));
    return {};
}

}  // namespace

result<void> translate_tokenizer(
    const json_document& tokenizer, const json_document* settings, const hf_config& config, assembled_file& out) {
    const json_object o(tokenizer.root(), tokenizer.what());
    std::optional<json_object> s;
    if (settings != nullptr) s.emplace(settings->root(), settings->what());
    if (config.n_vocab < 1 || config.n_vocab > most_tokens) return malformed("the vocabulary's size is impossible");
    return translator(o, s ? &*s : nullptr, config, out).run();
}

result<void> translate_template(const json_document& settings, assembled_file& out) {
    const json_object o(settings.root(), settings.what());
    const auto value = o.get("chat_template");
    std::string_view text;
    if (!value) return {};
    if (value->get(text) == simdjson::SUCCESS) {
        out.set("tokenizer.chat_template", std::string(text));
        return {};
    }
    // Several templates by name: the one called "default".
    TROUPE_TRY(const auto list, o.array("chat_template"));
    for (const auto element : *list) {
        dom::object raw;
        if (element.get(raw) != simdjson::SUCCESS) return o.wrong("chat_template", "a template or a list of them");
        const json_object entry(raw, o.what() + ".chat_template");
        TROUPE_TRY(const auto name, entry.text("name"));
        TROUPE_TRY(const auto source, entry.text("template"));
        if (name == "default" && source) out.set("tokenizer.chat_template", std::string(*source));
    }
    return {};
}

}  // namespace troupe::model::detail
