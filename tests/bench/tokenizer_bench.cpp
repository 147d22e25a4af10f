// Throughput of encode() in MB/s: tokenizer_bench VOCABULARY.gguf [TEXT_FILE]. Without a file, built-in English prose
// is repeated. Prints load time, the best of five runs (CPU time, one thread) and bytes a token.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string>

#include "model/tokenizers/tokenizer.hpp"

namespace {

constexpr const char* prose =
    "The harbour lay quiet under a thin mist when the first boats came in. Anna counted them from the window, as she "
    "had\n"
    "done every morning since March, and wrote the number (seven, today) into the ledger her father's father had "
    "begun.\n"
    "\"You'll be late,\" said a voice behind her; it was 6:45, and the train to Lisbon wouldn't wait for anybody.\n\n";

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

std::string read_text(int count, char** arguments) {
    std::string text;
    if (count > 2) {
        std::ifstream in(arguments[2], std::ios::binary);
        text.assign(std::istreambuf_iterator<char>(in), {});
    }
    const std::string unit = text.empty() ? prose : text;
    constexpr std::size_t enough = 2'000'000;
    while (text.size() < enough) text += unit;
    return text;
}

}  // namespace

int main(int count, char** arguments) {
    if (count < 2) {
        std::fprintf(stderr, "usage: %s VOCABULARY.gguf [TEXT_FILE]\n", arguments[0]);
        return 2;
    }
    const auto start = cpu_seconds();
    const auto file = troupe::model::model_file::open(arguments[1]);
    if (!file) {
        std::fprintf(stderr, "%s\n", file.error().message.c_str());
        return 1;
    }
    const auto words = troupe::model::tokenizer::load(**file);
    if (!words) {
        std::fprintf(stderr, "%s\n", words.error().message.c_str());
        return 1;
    }
    const double load = cpu_seconds() - start;
    const auto text = read_text(count, arguments);
    double best = 1e9;
    std::size_t tokens = 0;
    for (int run = 0; run < 5; ++run) {
        const auto begin = cpu_seconds();
        tokens = (*words)->encode(text, false, false).size();
        best = std::min(best, cpu_seconds() - begin);
    }
    const auto bytes = static_cast<double>(text.size());
    std::printf("load %.0f ms, encode %.1f MB/s, %.2f bytes a token\n", load * 1e3, bytes / best / 1e6,
        bytes / static_cast<double>(tokens));
    return 0;
}
