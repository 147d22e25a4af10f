// What a grammar costs a step: the first mask of a place and the next ones, at a whole model's vocabulary.
// grammar_bench MODEL [TOKENS]: microseconds of processor time for each mask while a random walk writes JSON under a schema.
#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <random>

#include <fmt/format.h>

#include "model/grammar/constraint.hpp"
#include "model/grammar/json_schema.hpp"
#include "model/tokenizers/tokenizer.hpp"

namespace troupe {
namespace {

/// Processor time of this thread: what others do on the machine does not count.
double now_us() {
    timespec t{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
}
double us_since(double t) { return now_us() - t; }

void walk(const std::string& name, const std::string& source, const std::shared_ptr<const model::token_trie>& trie,
    int tokens) {
    const auto start = now_us();
    auto compiled = model::constraint::compile(source, trie);
    if (!compiled) return fmt::print("{}: {}\n", name, compiled.error().message);
    const double compile = us_since(start);
    for (const char* pass : {"first", "again"}) {
        std::mt19937 random(1);
        std::vector<double> times;
        model::constraint_cursor at(*compiled);
        model::token_mask mask;
        for (int i = 0; i < tokens; ++i) {
            const auto begin = now_us();
            if (!at.mask(mask)) break;
            times.push_back(us_since(begin));
            std::vector<model::token_id> some;
            for (int tries = 0; tries < 200'000 && some.empty(); ++tries) {
                const auto id = random() % trie->n_tokens();
                if (mask.test(id)) some.push_back(static_cast<model::token_id>(id));
            }
            for (std::size_t id = 0; some.empty() && id < trie->n_tokens(); ++id)
                if (mask.test(id)) some.push_back(static_cast<model::token_id>(id));
            if (some.empty() || !at.accept(some[0])) break;
        }
        std::sort(times.begin(), times.end());
        const auto at_share = [&](double p) {
            return times[static_cast<std::size_t>(p * static_cast<double>(times.size() - 1))];
        };
        fmt::print(
            "{:12} {:6} compile {:6.0f} us, {:4} masks: median {:7.1f} us, p90 {:7.1f}, p99 {:7.1f}, largest {:8.1f}\n",
            name, pass, compile, times.size(), at_share(0.5), at_share(0.9), at_share(0.99), times.back());
    }
}

int run(int argc, char** argv) {
    if (argc < 2) return fmt::print("grammar_bench MODEL [TOKENS]\n"), 2;
    const auto file = model::model_file::open(argv[1]);
    if (!file) return fmt::print("{}\n", file.error().message), 4;
    const auto words = model::tokenizer::load(**file);
    if (!words) return fmt::print("{}\n", words.error().message), 4;
    const auto start = now_us();
    const auto trie = model::token_trie::of(**words);
    fmt::print("{} tokens, {} nodes, longest {} bytes, tree in {:.0f} ms\n", trie->n_tokens(), trie->size(),
        trie->longest(), us_since(start) / 1000);
    const int tokens = argc > 2 ? std::atoi(argv[2]) : 300;
    for (const auto& [name, schema] :
        {std::pair{"person", R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"},
"friends":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"city":{"type":"string"}},"required":["name","city"]}}},"required":["name","age","friends"]})"},
            std::pair{"any object", R"({"type":"object"})"},
            std::pair{"short text", R"({"type":"array","items":{"type":"string","maxLength":40}})"}}) {
        const auto source = model::grammar_of_schema(schema, "schema");
        if (source) walk(name, *source, trie, tokens);
    }
    return 0;
}

}  // namespace
}  // namespace troupe

int main(int argc, char** argv) { return troupe::run(argc, argv); }
