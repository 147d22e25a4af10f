// Where the golden templates come from: files of the pinned sdist, C strings of its test-chat-template.cpp, a model's
// metadata.
#include <cctype>
#include <filesystem>

#include "model/formats/gguf.hpp"
#include "tests/model/templates/support.hpp"

namespace troupe::model::testing {

namespace {

/// The C string literals from `at` on, joined; they use no escapes but these.
std::string decode_literals(std::string_view s, std::size_t at) {
    std::string out;
    while (at < s.size()) {
        while (at < s.size() && std::isspace(static_cast<unsigned char>(s[at])) != 0) ++at;
        if (at >= s.size() || s[at] != '"') break;
        for (++at; at < s.size() && s[at] != '"'; ++at) {
            if (s[at] != '\\') {
                out += s[at];
                continue;
            }
            const char c = s[++at];
            out += c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
        }
        ++at;
    }
    return out;
}

std::string string_of_test(const std::string& name) {
    const std::string path = environment("TROUPE_TEST_CACHE") + "/templates/test-chat-template.cpp";
    const std::string source = read_file(path), label = "/* .template_str= */ ";
    const std::size_t entry = source.find("\"" + name + "\"");
    const std::size_t at = source.find(label, entry);
    EXPECT_NE(entry, std::string::npos) << name << " in " << path;
    return entry == std::string::npos || at == std::string::npos ? "" : decode_literals(source, at + label.size());
}

std::string metadata_of(const std::string& file) {
    const auto gguf = gguf_file::open(environment("TROUPE_TEST_CACHE") + "/models/" + file);
    EXPECT_TRUE(gguf.ok()) << file;
    if (!gguf.ok()) return "";
    const auto source = (*gguf)->get_string("tokenizer.chat_template");
    EXPECT_TRUE(source.ok() && source->has_value()) << file;
    return source.ok() && source->has_value() ? std::string(**source) : "";
}

}  // namespace

std::string template_source(const std::string& name) {
    if (name.starts_with("min-")) {
        return read_file(environment("TROUPE_SOURCE_DIR") + "/tests/data/templates/" + name + ".jinja");
    }
    static const json::value published = read_json("published.json");
    const auto& origin = published.at(name).as_object();
    // A cache filled by hand may hold everything under the goldens' own names.
    const std::string folder = environment("TROUPE_TEST_CACHE") + "/templates/";
    if (std::filesystem::exists(folder + name + ".jinja")) return read_file(folder + name + ".jinja");
    if (const auto* text = origin.if_contains("string")) return string_of_test(std::string(text->as_string()));
    if (const auto* file = origin.if_contains("gguf")) return metadata_of(std::string(file->as_string()));
    return read_file(folder + std::string(origin.at("file").as_string()));
}

}  // namespace troupe::model::testing
