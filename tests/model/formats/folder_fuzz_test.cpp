// Replays the fuzz entry of folders over a corpus made here: small valid parts cut at every length and with every bit
// flipped.
#include <gtest/gtest.h>

#include "tests/fuzz/replay.hpp"
#include "tests/support/safetensors_writer.hpp"

extern "C" int folder_fuzz_input(const std::uint8_t* data, std::size_t size);

namespace troupe::model {
namespace {

std::vector<std::string> seeds() {
    testing::safetensors_writer w;
    w.add("model.embed_tokens.weight", "BF16", "4,32", 256).add("lm_head.weight", "F16", "4,32", 256);
    w.add("model.layers.0.self_attn.q_proj.qweight", "I32", "32,1", 128);
    w.add("model.layers.0.self_attn.q_proj.qzeros", "I32", "1,1", 4);
    w.add("model.layers.0.self_attn.q_proj.scales", "F16", "1,8", 16);
    w.add("model.layers.1.mlp.experts.0.up_proj.weight", "F32", "1,2", 8);
    w.add("model.layers.1.mlp.experts.1.up_proj.weight", "F32", "1,2", 8);
    w.add("model.norm.weight", "F16", "2", 4);
    return {w.text(),
        R"({"model_type":"llama","vocab_size":8,"hidden_size":32,"intermediate_size":32,"num_hidden_layers":1,)"
        R"("num_attention_heads":2,"max_position_embeddings":64,"eos_token_id":[1,2],"rope_scaling":{"rope_type":)"
        R"("llama3","factor":8.0},"quantization_config":{"quant_method":"awq","bits":4,"group_size":32}})",
        R"({"added_tokens":[{"id":2,"content":"</s>","special":true,"rstrip":true}],"normalizer":{"type":"NFC"},)"
        R"("pre_tokenizer":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":3},"merges":["a b"]}})",
        R"({"normalizer":null,"pre_tokenizer":{"type":"Metaspace","prepend_scheme":"first"},"post_processor":null,)"
        "\"model\":{\"byte_fallback\":true,\"vocab\":{\"<0x41>\":0,\"\u2581\":1,\"a\":2,\"\u2581a\":3},"
        "\"merges\":[[\"\u2581\",\"a\"]]}}"};
}

TEST(folder_fuzz, cut_at_every_length) {
    for (const auto& seed : seeds()) fuzz::cut_at_every_length(folder_fuzz_input, seed);
}

TEST(folder_fuzz, every_bit_flipped) {
    for (const auto& seed : seeds()) fuzz::flip_every_bit(folder_fuzz_input, seed);
}

}  // namespace
}  // namespace troupe::model
