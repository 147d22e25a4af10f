// Where a forward pass spends its time: prompt and decode speed of one model on one op table, with each op's share.
// With one thread CPU time is measured, so that neighbours on the machine do not count; with more it is wall time.
// forward_bench MODEL.gguf [TABLE=auto] [THREADS=2] [PROMPT=512] [DECODE=128] [REPEATS=1]
#include <time.h>

#include <cstdio>
#include <map>
#include <string>

#include "tests/support/paged_runner.hpp"

namespace {

using namespace troupe;

const kernels::ops* table = nullptr;
std::map<std::string, double> seconds;  // by op; filled by the wrappers below

clockid_t timer = CLOCK_MONOTONIC;

double now() {
    timespec t;
    clock_gettime(timer, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct timed {
    explicit timed(const char* op) : op_(op), begin_(now()) {}
    ~timed() { seconds[op_] += now() - begin_; }
    const char* op_;
    double begin_;
};

/// The table with a clock around every op of a step.
kernels::ops instrumented() {
    using namespace kernels;
    ops t = *table;
    t.embed = [](context& c, dtype type, std::int64_t cols, const std::byte* rows, const std::int32_t* ids,
                  std::int64_t n, float scale, float* y) {
        timed clock("embed");
        table->embed(c, type, cols, rows, ids, n, scale, y);
    };
    t.rms_norm = [](context& c, const float* x, const float* w, std::int64_t n, std::int64_t dim, float eps, float* y) {
        timed clock("rms_norm");
        table->rms_norm(c, x, w, n, dim, eps, y);
    };
    t.add = [](context& c, float* x, const float* y, std::int64_t n, std::int64_t dim) {
        timed clock("add");
        table->add(c, x, y, n, dim);
    };
    t.gated = [](context& c, gate kind, const float* g, const float* u, std::int64_t n, std::int64_t dim, float* y) {
        timed clock("gated");
        table->gated(c, kind, g, u, n, dim, y);
    };
    t.rope_angles = [](context& c, const double* f, int half, double magnitude, const std::int32_t* pos, std::int64_t n,
                        float* angles) {
        timed clock("rope_angles");
        table->rope_angles(c, f, half, magnitude, pos, n, angles);
    };
    t.rope = [](context& c, float* x, std::int64_t n, int heads, int dim, int half, rope_pairs pairs,
                 const float* angles) {
        timed clock("rope");
        table->rope(c, x, n, heads, dim, half, pairs, angles);
    };
    t.linear = [](context& c, const float* x, std::int64_t n, std::int64_t cols, const linear_job* jobs, int n_jobs) {
        const bool vocabulary = jobs[0].w->rows > 32768;
        const std::string name =
            vocabulary ? "linear head"
                       : "linear " + std::string(info(jobs[0].w->type).name) + " x" + std::to_string(n_jobs);
        timed clock(seconds.try_emplace(name).first->first.c_str());
        table->linear(c, x, n, cols, jobs, n_jobs);
    };
    t.linear_heads = [](context& c, const float* x, std::int64_t ldx, std::int64_t n, const weight_stack& w, float* y,
                         std::int64_t ldy) {
        timed clock("linear_heads");
        table->linear_heads(c, x, ldx, n, w, y, ldy);
    };
    t.linear_experts = [](context& c, const float* x, expert_input input, const routing& r, const expert_job* jobs,
                           int n_jobs) {
        timed clock("linear_experts");
        table->linear_experts(c, x, input, r, jobs, n_jobs);
    };
    t.route = [](context& c, const router_params& p, const float* logits, std::int64_t n, const routing& r) {
        timed clock("route");
        table->route(c, p, logits, n, r);
    };
    t.combine = [](context& c, const routing& r, const float* parts, std::int64_t n, std::int64_t dim, float* y) {
        timed clock("combine");
        table->combine(c, r, parts, n, dim, y);
    };
    t.kv_store = [](context& c, const kv_geometry& kv, std::size_t offset, const attention_seq* seqs, int n,
                     const float* k, const float* v) {
        timed clock("kv_store");
        table->kv_store(c, kv, offset, seqs, n, k, v);
    };
    t.attention = [](context& c, const attention_params& p, const attention_seq* seqs, int n, const float* q,
                      float* out) {
        timed clock("attention");
        table->attention(c, p, seqs, n, q, out);
    };
    return t;
}

void report(const char* what, int tokens, double total) {
    std::printf("%s: %d tokens, %.3f s, %.1f tokens/s\n", what, tokens, total, tokens / total);
    double sum = 0;
    for (const auto& [op, s] : seconds) {
        std::printf("  %-16s %9.3f ms  %5.1f %%\n", op.c_str(), 1e3 * s, 100 * s / total);
        sum += s;
    }
    std::printf("  %-16s %9.3f ms  %5.1f %%\n", "(between ops)", 1e3 * (total - sum), 100 * (total - sum) / total);
    seconds.clear();
}

template <class F> double measure(F&& f) {
    const double begin = now();
    f();
    return now() - begin;
}

}  // namespace

int main(int argc, char** argv) {
    const auto number = [&](int i, int fallback) { return argc > i ? std::atoi(argv[i]) : fallback; };
    const int n_threads = number(3, 2), n_prompt = number(4, 512), n_decode = number(5, 128), repeats = number(6, 1);
    auto found = kernels::table(argc > 2 ? argv[2] : "auto");
    auto file = argc > 1 ? model::model_file::open(argv[1])
                         : fail(errc::usage, "forward_bench MODEL.gguf [TABLE] [THREADS] [PROMPT] [DECODE]");
    if (!found || !file) return std::fprintf(stderr, "%s\n", (!file ? file.error() : found.error()).message.c_str()), 2;
    table = *found;
    if (n_threads == 1) timer = CLOCK_THREAD_CPUTIME_ID;
    const kernels::ops ops = instrumented();
    kernels::pool threads(n_threads);
    auto loaded = model::model::load(*file, {.ops = &ops, .threads = &threads, .max_rows = std::max(n_prompt, 1)});
    if (!loaded) return std::fprintf(stderr, "%s\n", loaded.error().message.c_str()), 2;
    std::printf("%s %s, table %s, %d threads\n", (*loaded)->info().name.c_str(), (*loaded)->info().quantization.c_str(),
        std::string(table->name).c_str(), n_threads);
    testing::paged_runner runner(**loaded);
    for (int r = 0; r < repeats; ++r) {
        testing::paged_sequence seq;
        std::vector<std::int32_t> prompt(static_cast<std::size_t>(n_prompt));
        for (std::size_t i = 0; i < prompt.size(); ++i)
            prompt[i] =
                static_cast<std::int32_t>(i * 7919 % 30000 % static_cast<std::size_t>((*loaded)->info().n_vocab));
        seconds.clear();
        report("prompt", n_prompt, measure([&] { runner.feed_all(seq, prompt, prompt.size(), testing::want::last); }));
        testing::paged_sequence fresh;
        report("decode", n_decode, measure([&] {
            for (int i = 0; i < n_decode; ++i)
                runner.feed_all(
                    fresh, std::span(&prompt[static_cast<std::size_t>(i) % prompt.size()], 1), 1, testing::want::last);
        }));
    }
    return 0;
}
