// Real models against the float reference of tests/data/real/README.md, in two links, because that reference holds only
// the best log-probabilities of a position while a KL divergence needs the whole vocabulary:
//   1. the `ref` table with F32 KV gives the reference's logsumexp, NLL and top log-probabilities to 1e-3 (mainline
//      llama.cpp on the dequantized weights: up to 3e-4), so its full logits stand for the reference;
//   2. KL(ref || fast table) with F16 KV over the full vocabulary, its mean over the positions at most 1.05 times the
//   mean of
//      mainline llama.cpp's KL(reference || llama.cpp) over the same positions.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <map>

#include "tests/support/figures.hpp"
#include "tests/support/paged_runner.hpp"
#include "tests/support/test_models.hpp"

namespace troupe::testing {

struct real_reference {
    explicit real_reference(const std::string& stem, std::size_t top)
        : ids(read_array<std::int32_t>("real/" + stem + ".ids.i32")),
          target(read_array<std::int32_t>("real/" + stem + ".target.i32")),
          top_ids(read_array<std::int32_t>("real/" + stem + ".top_ids.i32")),
          top_logprobs(read_array<float>("real/" + stem + ".top_logprobs.f32")),
          logsumexp(read_array<float>("real/" + stem + ".logsumexp.f32")),
          nll(read_array<float>("real/" + stem + ".nll.f32")),
          llama_cpp_kld(read_array<float>("real/" + stem + ".llama_cpp_kld.f32")), n_top(top) {
        EXPECT_EQ(top_ids.size(), ids.size() * n_top);
    }
    std::vector<std::int32_t> ids, target, top_ids;
    std::vector<float> top_logprobs, logsumexp, nll, llama_cpp_kld;
    std::size_t n_top;
};

/// Largest deviation of one position's logits from what the reference knows of it.
inline double deviation(const real_reference& r, std::size_t position, std::span<const float> logits) {
    const double lse = log_sum_exp(logits);
    double worst = std::abs(lse - r.logsumexp[position]);
    worst = std::max(worst, std::abs(lse - logits[static_cast<std::size_t>(r.target[position])] - r.nll[position]));
    for (std::size_t i = position * r.n_top; i < (position + 1) * r.n_top; ++i)
        worst = std::max(worst, std::abs(logits[static_cast<std::size_t>(r.top_ids[i])] - lse - r.top_logprobs[i]));
    return worst;
}

struct running_model {
    running_model(const std::string& path, const kernels::ops& ops, kernels::dtype kv)
        : model(load_model(path, ops, kv)), runner(*model.m) {}
    loaded model;
    paged_runner runner;
    paged_sequence seq;
    double kld = 0, top1 = 0;
};

/// Positions first, first + stride, ... are compared (with TROUPE_ALL_POSITIONS set: all from first on); everything is
/// fed.
inline void check_divergence(
    const std::string& model_file, const real_reference& r, std::size_t first, std::size_t stride) {
    if (std::getenv("TROUPE_ALL_POSITIONS") != nullptr) stride = 1;
    const std::string path = cache_path("models/" + model_file);
    const auto tables = kernels::available_tables();
    running_model exact(path, *tables[0], kernels::dtype::f32);
    std::map<std::string_view, running_model> fast;
    for (const kernels::ops* ops : tables.subspan(1)) fast.try_emplace(ops->name, path, *ops, kernels::dtype::f16);
    const auto n_vocab = static_cast<std::size_t>(exact.model.m->info().n_vocab);
    constexpr std::size_t chunk = 64;
    double worst = 0, llama_cpp = 0, nll = 0;
    std::size_t count = 0;
    for (std::size_t begin = 0; begin < r.ids.size(); begin += chunk) {
        const auto tokens = std::span(r.ids).subspan(begin, std::min(chunk, r.ids.size() - begin));
        std::vector<std::int32_t> rows;
        for (std::size_t i = 0; i < tokens.size(); ++i)
            if (begin + i >= first && (begin + i - first) % stride == 0) rows.push_back(static_cast<std::int32_t>(i));
        const auto run = [&](running_model& m) {
            const paged_runner::feed f{&m.seq, tokens, want::rows, rows};
            return m.runner.step({&f, 1});
        };
        const auto expected = run(exact);
        for (std::size_t i = 0; i < rows.size(); ++i) {
            const std::size_t position = begin + static_cast<std::size_t>(rows[i]);
            const auto e = std::span(expected).subspan(i * n_vocab, n_vocab);
            worst = std::max(worst, deviation(r, position, e));
            nll += log_sum_exp(e) - e[static_cast<std::size_t>(r.target[position])];
            llama_cpp += r.llama_cpp_kld[position];
        }
        for (auto& [name, m] : fast) {
            const auto actual = run(m);
            for (std::size_t i = 0; i < rows.size(); ++i) {
                const auto e = std::span(expected).subspan(i * n_vocab, n_vocab),
                           a = std::span(actual).subspan(i * n_vocab, n_vocab);
                m.kld += kl_divergence(e, a);
                m.top1 += argmax(e) == argmax(a) ? 1 : 0;
            }
        }
        count += rows.size();
    }
    const auto n = static_cast<double>(count);
    std::printf(
        "%zu positions, ref: mean NLL %.6f, worst deviation from the reference %.2e; llama.cpp: mean KLD %.3e\n", count,
        nll / n, worst, llama_cpp / n);
    EXPECT_LT(worst, 1e-3);
    const auto what = fmt::format("{}, {} positions from {} on", model_file, count, first);
    record_figure("Real models",
        what + ": `ref`, KV f32, worst deviation of a log-probability from the float reference",
        fmt::format("{:.1e}", worst), "< 1e-3");
    for (const auto& [name, m] : fast) {
        std::printf("%s: mean KLD %.3e, %.3f of llama.cpp's, top-1 %.1f %%\n", std::string(name).c_str(), m.kld / n,
            m.kld / llama_cpp, 100 * m.top1 / n);
        record_figure("Real models", fmt::format("{}: {}, KV f16, mean KL divergence", what, name),
            fmt::format("{:.3e}, llama.cpp {:.3e} ({:.3f} x), top-1 {:.1f} %", m.kld / n, llama_cpp / n,
                m.kld / llama_cpp, 100 * m.top1 / n),
            "<= 1.05 x llama.cpp's");
        EXPECT_LE(m.kld, 1.05 * llama_cpp) << name;
    }
}

/// Fed the reference's own greedy text, every table must choose the same token wherever the reference's top-2 gap can
/// be resolved. KL is about half the variance of a logit's error under the distribution, so a mean KLD of `kld_bar`
/// means a standard error of sqrt(2 kld_bar) a logit and sqrt(4 kld_bar) for the difference of two; four of those count
/// as resolvable.
inline void check_greedy(const std::string& model_file, const std::string& stem, double kld_bar, std::size_t floor) {
    const double resolvable = 4 * std::sqrt(4 * kld_bar);
    for (const kernels::ops* ops : kernels::available_tables()) {
        const double tolerance = ops->name == "ref" ? 2e-3 : resolvable;
        running_model m(
            cache_path("models/" + model_file), *ops, ops->name == "ref" ? kernels::dtype::f32 : kernels::dtype::f16);
        const auto n_vocab = static_cast<std::size_t>(m.model.m->info().n_vocab);
        std::size_t compared = 0, steps = 0, agreed = 0;
        for (const greedy_run& run : read_greedy("real/" + stem + ".greedy.txt")) {
            std::vector<std::int32_t> tokens = run.prompt;
            tokens.insert(tokens.end(), run.tokens.begin(), run.tokens.end() - 1);
            std::vector<std::int32_t> rows;
            for (std::size_t i = run.prompt.size() - 1; i < tokens.size(); ++i)
                rows.push_back(static_cast<std::int32_t>(i));
            paged_sequence seq;
            std::vector<float> logits;
            for (std::size_t begin = 0; begin < tokens.size(); begin += 64) {
                const auto piece = std::span(tokens).subspan(begin, std::min<std::size_t>(64, tokens.size() - begin));
                std::vector<std::int32_t> here;
                for (const std::int32_t row : rows)
                    if (row >= static_cast<std::int32_t>(begin) &&
                        row < static_cast<std::int32_t>(begin + piece.size()))
                        here.push_back(row - static_cast<std::int32_t>(begin));
                const paged_runner::feed f{&seq, piece, want::rows, here};
                const auto part = m.runner.step({&f, 1});
                logits.insert(logits.end(), part.begin(), part.end());
            }
            for (std::size_t i = 0; i < run.tokens.size(); ++i, ++steps) {
                const bool same =
                    argmax(std::span(logits).subspan(i * n_vocab, n_vocab)) == static_cast<std::size_t>(run.tokens[i]);
                agreed += same ? 1 : 0;
                if (run.gaps[i] <= tolerance) continue;
                ++compared;
                EXPECT_TRUE(same) << ops->name << ", step " << i << ", gap " << run.gaps[i];
            }
        }
        std::printf("%s: %zu of %zu steps have a gap above %.3f and are compared; %zu agree in all\n",
            std::string(ops->name).c_str(), compared, steps, tolerance, agreed);
        EXPECT_GE(compared, floor) << ops->name;
    }
}

}  // namespace troupe::testing
