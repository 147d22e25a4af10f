// troupe generate: the text that follows a prompt, and nothing else, on stdout.
#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/commands.hpp"
#include "cli/local_model.hpp"
#include "core/ids.hpp"
#include "model/sampling/sampler.hpp"

namespace troupe::cli {
namespace {

model::sampling_params sampling_of(const generation_params& p) {
    model::sampling_params s;
    s.temperature = static_cast<float>(p.temperature.value_or(s.temperature));
    s.top_k = p.top_k.value_or(s.top_k);
    s.top_p = static_cast<float>(p.top_p.value_or(s.top_p));
    s.min_p = static_cast<float>(p.min_p.value_or(s.min_p));
    const auto seed = p.seed.value_or(-1);
    s.seed = seed < 0 ? random_u64() : static_cast<std::uint64_t>(seed);
    return s;
}

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

result<void> run(const generate_options& o) {
    TROUPE_TRY(const auto file, model::model_file::open(o.model));
    TROUPE_TRY(const auto tokens, model::tokenizer::load(*file));
    auto history = tokens->encode(o.prompt, true, true);
    if (history.empty()) return fail(errc::usage, "the prompt is empty", "prompt");
    local_options local{
        o.model, o.kernels, o.kv_type, o.threads, o.ctx, static_cast<std::int64_t>(history.size()) + o.n};
    TROUPE_TRY(const auto m, local_model::load(local));
    if (static_cast<std::int64_t>(history.size()) > m->n_ctx())
        return fail(errc::context_length_exceeded,
            fmt::format("the prompt has {} tokens, the context {}", history.size(), m->n_ctx()), "prompt");

    const auto params = sampling_of(o.params);
    model::sampler sampler(m->info().n_vocab);
    model::utf8_stream text;
    m->run(history, 0);
    for (std::int64_t i = 0; i < o.n; ++i) {
        const auto next = sampler.sample(m->logits(), params, history, static_cast<std::int64_t>(history.size())).id;
        if (tokens->is_end(next) && !o.ignore_eos) break;
        print(text.push(tokens->piece(next)));
        std::fflush(stdout);
        history.push_back(next);
        if (i + 1 == o.n || static_cast<std::int64_t>(history.size()) > m->n_ctx()) break;
        m->run(std::span(history).last(1), static_cast<std::int32_t>(history.size()) - 1);
    }
    print(text.flush());
    if (isatty(STDOUT_FILENO)) std::fputc('\n', stdout);  // a prompt should not follow the text on its line
    return {};
}

}  // namespace

int generate(const generate_options& o) {
    const auto r = run(o);
    return r ? 0 : report(r.error());
}

}  // namespace troupe::cli
