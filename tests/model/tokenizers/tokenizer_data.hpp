// Vocabularies and oracles for the tokenizer tests; what is missing fails the test with its path.
#pragma once

#include <gtest/gtest.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/formats/gguf.hpp"
#include "model/tokenizers/tokenizer.hpp"

namespace troupe::model::testing {

using ids = std::vector<token_id>;

/// The nine vocabularies with oracles.
inline constexpr std::array vocabulary_names = {
    "smollm2", "gemma-3", "llama-bpe", "gpt-2", "qwen2", "deepseek-llm", "deepseek-coder", "llama-spm", "phi-3"};

/// GoogleTest's names of parameters have no dashes.
inline std::string case_name(const ::testing::TestParamInfo<const char*>& info) {
    std::string name = info.param;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

inline std::filesystem::path directory_of(const char* variable) {
    const char* value = std::getenv(variable);
    EXPECT_NE(value, nullptr) << variable << " is not set";
    return value ? value : "";
}

inline std::string data_path(const std::string& name) {
    return directory_of("TROUPE_SOURCE_DIR") / "tests/data/tokenizers" / name;
}

inline std::filesystem::path vocabulary_path(const std::string& name) {
    const auto cache = directory_of("TROUPE_TEST_CACHE");
    if (name == "smollm2") return cache / "models/smollm2.gguf";
    if (name == "gemma-3") return cache / "models/gemma3-270m.gguf";
    return cache / "vocabs" / (name + ".gguf");
}

/// nullptr (and a failed expectation) if it cannot be loaded. Loaded once a process.
inline std::shared_ptr<const tokenizer> load(const std::string& name) {
    static std::map<std::string, std::shared_ptr<const tokenizer>> loaded;
    auto& entry = loaded[name];
    if (entry) return entry;
    const auto file = gguf_file::open(vocabulary_path(name));
    if (!file) {
        ADD_FAILURE() << file.error().message;
        return nullptr;
    }
    const auto words = tokenizer::load(**file);
    if (words) {
        entry = *words;
    } else {
        ADD_FAILURE() << name << ": " << words.error().message;
    }
    return entry;
}

inline std::string from_base64(std::string_view text) {
    constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string bytes;
    unsigned bits = 0;
    int n_bits = 0;
    for (const char c : text) {
        if (c == '=') break;
        bits = bits << 6 | static_cast<unsigned>(digits.find(c));
        if ((n_bits += 6) >= 8) bytes += static_cast<char>(bits >> (n_bits -= 8) & 0xff);
    }
    return bytes;
}

inline ids to_ids(simdjson::dom::element array) {
    ids out;
    for (const auto value : array.get_array()) out.push_back(static_cast<token_id>(value.get_int64().value()));
    return out;
}

/// Text of "text", or bytes of "b64".
inline std::string text_of(simdjson::dom::element entry) {
    std::string_view text;
    if (entry["text"].get(text) == simdjson::SUCCESS) return std::string(text);
    return from_base64(entry["b64"].get_string().value());
}

/// id -> text of the whole corpus.
inline const std::map<std::string, std::string>& corpus() {
    static const auto texts = [] {
        std::map<std::string, std::string> all;
        simdjson::dom::parser parser;
        for (const auto entry : parser.load(data_path("corpus.json")).get_array())
            all.emplace(entry["id"].get_string().value(), text_of(entry));
        return all;
    }();
    return texts;
}

inline std::string pieces_of(const tokenizer& words, const ids& tokens, bool show_control = true) {
    std::string text;
    for (const auto id : tokens) text += words.piece(id, show_control);
    return text;
}

}  // namespace troupe::model::testing
