// troupe bench: speed of prompt reading and generation by llama-bench's method (random tokens, no tokenizer, no
// sampler), beside the limits of the machine measured by the same process.
#include "cli/bench.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <numeric>
#include <random>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/local_model.hpp"

namespace troupe::cli {
namespace {

using clock = std::chrono::steady_clock;

double seconds_since(clock::time_point start) { return std::chrono::duration<double>(clock::now() - start).count(); }

struct aligned_delete {
    void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{64}); }
};
using aligned_bytes = std::unique_ptr<std::byte[], aligned_delete>;
aligned_bytes make_bytes(std::size_t n) {
    return aligned_bytes(static_cast<std::byte*>(::operator new[](n, std::align_val_t{64})));
}

/// Best of five passes over a buffer far larger than the caches.
double measure_bandwidth(kernels::pool& pool) {
    constexpr std::size_t bytes = 256u << 20, piece = 4u << 20;
    const auto memory = make_bytes(bytes);
    std::memset(memory.get(), 1, bytes);
    std::vector<std::uint64_t> sums(bytes / piece);
    double best = 1e9;
    pool.begin_step();
    for (int pass = 0; pass < 5; ++pass) {
        const auto start = clock::now();
        pool.run(static_cast<std::int64_t>(sums.size()), [&](std::int64_t i, int) {
            const auto* p = reinterpret_cast<const std::uint64_t*>(memory.get() + static_cast<std::size_t>(i) * piece);
            std::uint64_t s[4] = {};
            for (std::size_t k = 0; k < piece / 8;
                 k += 32)  // four sums, and one load a cache line is enough to fetch it
                for (int j = 0; j < 4; ++j) s[j] += p[k + 8 * j];
            sums[static_cast<std::size_t>(i)] = s[0] + s[1] + s[2] + s[3];
        });
        best = std::min(best, seconds_since(start));
    }
    pool.end_step();
    return std::accumulate(sums.begin(), sums.end(), std::uint64_t{}) ? static_cast<double>(bytes) / best : 0;
}

/// The product of the model's most frequent type with 64 rows of activations, weights and activations in cache.
double measure_products(local_model& m, kernels::dtype type) {
    constexpr std::int64_t rows = 256, cols = 1024, n = 64, times = 50;
    const auto& ops = m.ops();
    std::vector<std::byte> source(kernels::row_bytes(type, cols) * rows);  // zeros are values of every type
    const auto packed = make_bytes(ops.packed_bytes(type, rows, cols));
    ops.pack(m.threads(), type, rows, cols, source.data(), packed.get());
    const auto scratch_bytes = ops.scratch_bytes({n, cols, 1, 64, m.n_threads()});
    const auto scratch = make_bytes(scratch_bytes);
    kernels::context c{m.threads(), {scratch.get(), scratch_bytes}};
    std::vector<float> x(n * cols, 0.5f), y(n * rows);
    const kernels::weight w{type, rows, cols, packed.get()};
    const kernels::linear_job job{&w, nullptr, y.data(), rows};
    double best = 1e9;
    m.threads().begin_step();
    for (int pass = 0; pass < 5; ++pass) {
        const auto start = clock::now();
        for (int i = 0; i < times; ++i) ops.linear(c, x.data(), n, cols, &job, 1);
        best = std::min(best, seconds_since(start) / times);
    }
    m.threads().end_step();
    return static_cast<double>(rows * cols * n) / best;
}

/// What one generated token reads: every matrix once; of an embedding that is not the head as well, one row.
struct model_cost {
    double bytes = 0, macs = 0;
    kernels::dtype main_type = kernels::dtype::f16;
};

model_cost cost_of(const model::model_file& file) {
    model_cost cost;
    const bool own_head = file.tensor("output.weight") != nullptr;
    std::vector<std::int64_t> values(static_cast<std::size_t>(kernels::dtype::count_));
    for (const auto& t : file.tensors()) {
        if (t.name == "token_embd.weight" && own_head) continue;
        cost.bytes += static_cast<double>(t.bytes());
        if (t.shape.size() < 2) continue;
        cost.macs += static_cast<double>(t.rows()) * static_cast<double>(t.cols());
        values[static_cast<std::size_t>(t.type)] += t.rows() * t.cols();
    }
    cost.main_type = static_cast<kernels::dtype>(std::max_element(values.begin(), values.end()) - values.begin());
    return cost;
}

class bencher {
 public:
    bencher(local_model& m, std::int64_t vocabulary) : m_(m), pick_(0, static_cast<std::int32_t>(vocabulary) - 1) {}

    double run(const bench_row& r) {
        if (r.n_depth > 0) m_.run(random_tokens(r.n_depth), 0);
        const auto start = clock::now();
        auto pos = static_cast<std::int32_t>(r.n_depth);
        if (r.n_prompt > 0) m_.run(random_tokens(r.n_prompt), pos);
        pos += static_cast<std::int32_t>(r.n_prompt);
        for (std::int64_t i = 0; i < r.n_gen; ++i) m_.run(random_tokens(1), pos++);
        return seconds_since(start);
    }

 private:
    std::vector<model::token_id> random_tokens(std::int64_t n) {
        std::vector<model::token_id> tokens(static_cast<std::size_t>(n));
        for (auto& t : tokens) t = pick_(random_);
        return tokens;
    }
    local_model& m_;
    std::mt19937 random_{42};
    std::uniform_int_distribution<std::int32_t> pick_;
};

std::vector<bench_row> tests_of(const bench_options& o) {
    std::vector<bench_row> tests;
    const auto add = [&](std::int64_t prompt, std::int64_t gen, std::int64_t depth) {
        if (prompt + gen == 0) return;
        bench_row r;
        r.n_prompt = prompt;
        r.n_gen = gen;
        r.n_depth = depth;
        tests.push_back(std::move(r));
    };
    for (const auto depth : o.depths) {
        for (const auto n : o.n_prompt) add(n, 0, depth);
        for (const auto n : o.n_gen) add(0, n, depth);
        for (const auto& [p, g] : o.prompt_gen) add(p, g, depth);
    }
    return tests;
}

std::string utc_now() {
    const auto now = std::time(nullptr);
    char text[32];
    std::tm parts{};
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &parts));
    return text;
}

result<void> bench_model(const bench_options& o, const std::string& path, const std::string& kv_type,
    std::int64_t n_threads, std::vector<bench_row>& rows) {
    auto tests = tests_of(o);
    std::int64_t positions = 1;
    for (const auto& t : tests) positions = std::max(positions, t.n_depth + t.n_prompt + t.n_gen);
    local_options local;
    local.path = path;
    local.kernels = o.kernels;
    local.kv_type = kv_type;
    local.threads = n_threads;
    local.positions = positions;
    TROUPE_TRY(const auto m, local_model::load(local));
    if (m->n_ctx() < positions)
        return fail(errc::usage, fmt::format("the tests need {} positions, the model has {}", positions, m->n_ctx()),
            "n-prompt");
    const auto cost = cost_of(*m->file());
    const machine_peak peak{measure_bandwidth(m->threads()), measure_products(*m, cost.main_type)};
    bencher b(*m, m->info().n_vocab);
    for (auto& r : tests) {
        const auto& info = m->info();
        r.model_file = path;
        r.model_type = fmt::format("{} {}", info.name, info.quantization);
        r.kernels = m->ops().name;
        r.kv_type = kv_type;
        r.model_size = static_cast<std::uint64_t>(info.weight_bytes);
        r.model_n_params = static_cast<std::uint64_t>(info.n_params);
        r.n_threads = m->n_threads();
        r.test_time = utc_now();
        r.peak = peak;
        r.bytes_per_token = cost.bytes;
        r.macs_per_token = cost.macs;
        b.run(r);  // warm-up
        for (std::int64_t i = 0; i < o.repetitions; ++i) r.seconds.push_back(b.run(r));
        if (o.output == "jsonl") {
            std::fputs(print_rows({r}, "jsonl", version_text()).c_str(), stdout);
            std::fflush(stdout);
        }
        rows.push_back(std::move(r));
    }
    return {};
}

result<std::int64_t> number(std::string_view text, const std::string& whole) {
    std::int64_t n = 0;
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (ec != std::errc{} || end != text.data() + text.size() || n < 0 || n > (1 << 24))
        return fail(errc::usage, fmt::format("'{}' is not a list (1,2) or range (16-64+16, 1-8*2) of numbers", whole));
    return n;
}

}  // namespace

result<std::vector<std::int64_t>> parse_range_list(const std::string& text) {
    std::vector<std::int64_t> values;
    for (std::size_t at = 0; at <= text.size();) {
        const auto comma = std::min(text.find(',', at), text.size());
        const auto item = std::string_view(text).substr(at, comma - at);
        at = comma + 1;
        const auto dash = item.find('-');
        if (dash == std::string_view::npos) {
            TROUPE_TRY(values.emplace_back(), number(item, text));
            continue;
        }
        const auto step_at = std::min(item.find_first_of("+*", dash), item.size());
        TROUPE_TRY(std::int64_t n, number(item.substr(0, dash), text));
        TROUPE_TRY(const std::int64_t last, number(item.substr(dash + 1, step_at - dash - 1), text));
        std::int64_t step = 1;
        const bool times = step_at < item.size() && item[step_at] == '*';
        if (step_at < item.size()) {
            TROUPE_TRY(step, number(item.substr(step_at + 1), text));
        }
        if (step < (times ? 2 : 1) || (times && n == 0)) return fail(errc::usage, fmt::format("'{}' never ends", text));
        for (; n <= last && values.size() < 10000; n = times ? n * step : n + step) values.push_back(n);
    }
    return values;
}

int bench(const bench_options& o) {
    std::vector<bench_row> rows;
    for (const auto& path : o.models)
        for (const auto& kv_type : o.kv_types)
            for (const auto n_threads : o.threads)
                if (auto r = bench_model(o, path, kv_type, n_threads, rows); !r) return report(r.error());
    if (o.output != "jsonl") std::fputs(print_rows(rows, o.output, version_text()).c_str(), stdout);
    return 0;
}

}  // namespace troupe::cli
