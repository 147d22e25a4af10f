// troupe perplexity: how well a model predicts a text, by llama-perplexity's method and in its output; and, against the
// saved log-probabilities of another model, how far the two are apart.
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/local_model.hpp"
#include "cli/perplexity_output.hpp"
#include "model/evaluation/divergence.hpp"

namespace troupe::cli {
namespace {

using model::token_id;

result<std::string> read_text(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) return fail(errc::usage, fmt::format("'{}' cannot be read", path), "file");
    std::string text{std::istreambuf_iterator<char>(in), {}};
    if (text.ends_with('\n')) text.pop_back();  // as llama-perplexity reads a file
    return text;
}

/// Chunks of the text; every token of the result is scored or is context of one that is.
result<model::logits_header> chunks_of(const perplexity_options& o, const model::tokenizer& words) {
    TROUPE_TRY(const auto text, read_text(o.file));
    auto tokens = words.encode(text, false, false);
    if (words.add_bos()) tokens.insert(tokens.begin(), words.bos());
    model::logits_header h;
    h.n_ctx = static_cast<std::int32_t>(o.ctx);
    const auto n_ctx = static_cast<std::size_t>(o.ctx);
    if (tokens.size() < 2 * n_ctx)
        return fail(errc::usage,
            fmt::format("the text has {} tokens; a context of {} needs at least {}", tokens.size(), n_ctx, 2 * n_ctx),
            "file");
    const auto n_chunks = static_cast<std::int64_t>(tokens.size() / n_ctx);
    h.n_chunks = static_cast<std::int32_t>(o.chunks > 0 ? std::min(o.chunks, n_chunks) : n_chunks);
    tokens.resize(static_cast<std::size_t>(h.n_chunks) * n_ctx);
    h.tokens = std::move(tokens);
    return h;
}

error not_finite() {
    return fail(errc::non_finite_logits, "the model gave logits that are no finite numbers; the file may be damaged");
}

/// Runs chunks and hands out rows of logits with the token that followed each.
class evaluator {
 public:
    /// use(row of the chunk, logits, next token) is called from several threads, each row once.
    using row_use = std::function<void(std::size_t, std::span<const float>, token_id)>;

    evaluator(local_model& m, const model::logits_header& h, const model::tokenizer& words)
        : model_(m), header_(h), words_(words) {}

    void run(std::int32_t chunk, const row_use& use) {
        const auto n_ctx = static_cast<std::size_t>(header_.n_ctx), n_vocab = static_cast<std::size_t>(header_.n_vocab);
        const auto first = static_cast<std::size_t>(header_.first_scored());
        const auto all = std::span(header_.tokens).subspan(static_cast<std::size_t>(chunk) * n_ctx, n_ctx);
        std::vector<token_id> tokens(all.begin(), all.end());
        if (words_.add_bos()) tokens.front() = words_.bos();
        tokens.pop_back();  // it is predicted, and predicts nothing
        model_.run_rows(tokens, first, [&](std::size_t at, std::span<const float> logits) {
            model_.threads().run(static_cast<std::int64_t>(logits.size() / n_vocab), [&](std::int64_t i, int) {
                const auto row = static_cast<std::size_t>(i);
                use(at + row - first, logits.subspan(row * n_vocab, n_vocab), all[at + row + 1]);
            });
        });
    }

 private:
    local_model& model_;
    const model::logits_header& header_;
    const model::tokenizer& words_;
};

result<std::unique_ptr<local_model>> load(const perplexity_options& o, const model::logits_header& h) {
    local_options local{o.model, o.kernels, o.kv_type, o.threads, h.n_ctx, h.n_ctx};
    TROUPE_TRY(auto m, local_model::load(local));
    if (m->n_ctx() < h.n_ctx)
        return fail(errc::usage,
            fmt::format("chunks of {} tokens need more context than the model's {}", h.n_ctx, m->n_ctx()), "ctx-size");
    fmt::print(stderr, "perplexity: {} chunks of {} tokens, {} threads, kernels {}, kv type {}\n", h.n_chunks, h.n_ctx,
        m->n_threads(), m->ops().name, o.kv_type);
    return m;
}

result<void> measure(const perplexity_options& o, const model::tokenizer& words) {
    TROUPE_TRY(auto header, chunks_of(o, words));
    TROUPE_TRY(const auto m, load(o, header));
    header.n_vocab = m->info().n_vocab;
    std::optional<model::logits_writer> base;
    if (!o.base.empty()) {
        TROUPE_TRY(base, model::logits_writer::create(o.base, header));
    }
    const auto n_rows = static_cast<std::size_t>(header.rows_per_chunk()), words_a_row = header.row_words();
    std::vector<std::uint16_t> packed(base ? n_rows * words_a_row : 0);
    std::vector<double> nll(n_rows);
    model::mean_of all;
    evaluator e(*m, header, words);
    for (std::int32_t chunk = 0; chunk < header.n_chunks; ++chunk) {
        e.run(chunk, [&](std::size_t row, std::span<const float> logits, token_id next) {
            nll[row] = model::negative_log_likelihood(logits, next);
            if (base && std::isfinite(nll[row]))
                model::pack_log_probabilities(logits, std::span(packed).subspan(row * words_a_row, words_a_row));
        });
        for (const double v : nll) {
            if (!std::isfinite(v)) return not_finite();
            all.add(v);
        }
        if (base) TROUPE_TRYV(base->write(packed));
        print_chunk(chunk + 1, all);
    }
    if (base) TROUPE_TRYV(base->finish());
    print_estimate(all);
    return {};
}

result<void> compare(const perplexity_options& o, const model::tokenizer& words) {
    if (o.base.empty())
        return fail(errc::usage, "--kl-divergence needs --kl-divergence-base FILE", "kl-divergence-base");
    TROUPE_TRY(auto base, model::logits_reader::open(o.base));
    const auto& header = base.header();
    TROUPE_TRY(const auto m, load(o, header));
    if (header.n_vocab != m->info().n_vocab)
        return fail(errc::usage,
            fmt::format("'{}' is of a vocabulary of {}, the model's has {}", o.base, header.n_vocab, m->info().n_vocab),
            "kl-divergence-base");
    const auto n_rows = static_cast<std::size_t>(header.rows_per_chunk()), words_a_row = header.row_words();
    std::vector<std::uint16_t> packed(n_rows * words_a_row);
    std::vector<model::position_score> scores(n_rows);
    model::divergence all;
    evaluator e(*m, header, words);
    const auto n_chunks = o.chunks > 0 ? std::min<std::int64_t>(o.chunks, header.n_chunks) : header.n_chunks;
    print_comparison_head();
    for (std::int32_t chunk = 0; chunk < n_chunks; ++chunk) {
        TROUPE_TRYV(base.read(packed));
        e.run(chunk, [&](std::size_t row, std::span<const float> logits, token_id next) {
            const auto stored = std::span<const std::uint16_t>(packed).subspan(row * words_a_row, words_a_row);
            scores[row] = model::score_position(logits, model::packed_row(stored), next);
        });
        for (const auto& s : scores) {
            if (!std::isfinite(s.nll)) return not_finite();
            if (!std::isfinite(s.kld) || !std::isfinite(s.nll_base))
                return fail(
                    errc::usage, fmt::format("'{}' holds numbers that are not finite", o.base), "kl-divergence-base");
            all.add(s);
        }
        print_comparison(chunk + 1, all);
    }
    print_statistics(all);
    return {};
}

result<void> run(const perplexity_options& o) {
    TROUPE_TRY(const auto file, model::model_file::open(o.model));
    TROUPE_TRY(const auto words, model::tokenizer::load(*file));
    return o.compare ? compare(o, *words) : measure(o, *words);
}

}  // namespace

int perplexity(const perplexity_options& o) {
    const auto r = run(o);
    return r ? 0 : report(r.error());
}

}  // namespace troupe::cli
