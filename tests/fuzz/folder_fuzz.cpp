// Fuzz entry of what a Hugging Face folder is made of: an input that begins with '{' is a config.json if it names a
// "model_type", else a tokenizer.json; anything else is a safetensors file. Whatever the bytes, reading neither crashes
// nor reads outside them.
#include <cstddef>
#include <cstdint>

#include "core/check.hpp"
#include "model/formats/assembled_file.hpp"
#include "model/formats/hf_config.hpp"
#include "model/formats/hf_tensors.hpp"
#include "model/formats/hf_tokenizer.hpp"
#include "model/formats/safetensors.hpp"
#include "model/tokenizers/tokenizer.hpp"

namespace {

using namespace troupe;
using namespace troupe::model;

void expect_message(const error& e) { CHECK(!e.message.empty()); }

detail::hf_config small_config() {
    detail::hf_config c;
    c.architecture = "llama";
    c.n_layers = 2;
    c.n_heads = c.n_kv_heads = 2;
    c.n_vocab = 320;
    c.n_experts = 2;
    c.adjacent_rope = c.awq = true;
    c.awq_group = 32;
    c.eos = {2};
    return c;
}

void read_config(std::string_view text) {
    const auto document = detail::json_document::parse(text, "config.json");
    if (!document) return expect_message(document.error());
    assembled_file out;
    const auto config = detail::translate_config(**document, document->get(), out);
    if (!config) return expect_message(config.error());
    for (const auto key : out.keys()) CHECK(out.type_of(key) && !out.describe(key).empty());
}

void read_tokenizer(std::string_view text) {
    const auto document = detail::json_document::parse(text, "tokenizer.json");
    if (!document) return expect_message(document.error());
    assembled_file out;
    const auto done = detail::translate_tokenizer(**document, document->get(), small_config(), out);
    if (!done) return expect_message(done.error());
    const auto tokens = tokenizer::load(out);
    if (!tokens) return expect_message(tokens.error());
    for (const auto id : (*tokens)->encode("<s> It's 12 na\u00efve\n\t\u4e2d </s>", true, true))
        CHECK(id >= 0 && id < (*tokens)->n_tokens());
}

void read_safetensors(std::span<const std::byte> bytes) {
    const auto contents = parse_safetensors(bytes);
    if (!contents) return expect_message(contents.error());
    for (const bool plus_one : {false, true}) {
        auto config = small_config();
        config.norms_plus_one = config.four_norms = plus_one;
        assembled_file out;
        const auto done = detail::translate_tensors(contents->tensors, config, out);
        if (!done) {
            expect_message(done.error());
            continue;
        }
        std::vector<std::byte> buffer;
        for (const auto& t : out.tensors()) CHECK(t.contents(buffer).size() == t.bytes());
    }
}

}  // namespace

extern "C" int folder_fuzz_input(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    if (!text.starts_with('{'))
        read_safetensors(std::as_bytes(std::span(data, size)));
    else if (text.find("\"model_type\"") != text.npos)
        read_config(text);
    else
        read_tokenizer(text);
    return 0;
}
