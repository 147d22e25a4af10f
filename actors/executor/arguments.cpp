#include "actors/executor/arguments.hpp"

#include <charconv>
#include <string_view>

namespace troupe::actors {
namespace {

/// Calls field(name, reference) for every argument: the one list both directions use.
template <class Arguments, class Field> void for_each_field(Arguments& a, Field&& field) {
    field("--model", a.model);
    field("--kernels", a.kernels);
    field("--threads", a.threads);
    field("--ctx-size", a.ctx);
    field("--kv-type", a.kv_type);
    field("--kv-memory", a.kv_memory);
    field("--kv-folder", a.kv_folder);
    field("--kv-disk", a.kv_disk);
    field("--max-rows", a.max_rows);
    field("--nice", a.nice);
    field("--log-level", a.log_level);
    field("--socket-fd", a.socket_fd);
    field("--page-fd", a.page_fd);
    field("--parent", a.parent);
}

bool parse_value(std::string_view word, std::string& out) { return out = word, true; }

template <class Integer> bool parse_value(std::string_view word, Integer& out) {
    const auto [end, ec] = std::from_chars(word.data(), word.data() + word.size(), out);
    return ec == std::errc{} && end == word.data() + word.size();
}

const std::string& to_word(const std::string& value) { return value; }
template <class Integer> std::string to_word(Integer value) { return std::to_string(value); }

}  // namespace

std::vector<std::string> to_words(const executor_arguments& arguments) {
    std::vector<std::string> words;
    for_each_field(arguments, [&](const char* name, const auto& value) {
        words.emplace_back(name);
        words.emplace_back(to_word(value));
    });
    return words;
}

result<executor_arguments> parse_words(std::span<const std::string> words) {
    executor_arguments arguments;
    for (std::size_t i = 0; i < words.size(); i += 2) {
        if (i + 1 == words.size()) return fail(errc::usage, words[i] + " needs a value", words[i]);
        bool known = false, good = true;
        for_each_field(arguments, [&](std::string_view name, auto& value) {
            if (words[i] != name) return;
            known = true;
            good = parse_value(words[i + 1], value);
        });
        if (!known) return fail(errc::usage, "unknown option " + words[i], words[i]);
        if (!good) return fail(errc::usage, words[i + 1] + " is no value for " + words[i], words[i]);
    }
    if (arguments.model.empty()) return fail(errc::usage, "--model is missing", "--model");
    return arguments;
}

}  // namespace troupe::actors
