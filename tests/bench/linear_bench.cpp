// Speed of `linear` by table, weight type and number of rows of x: GMAC/s a call, and GB/s of packed weights read.
//
//   linear_bench [--table avx2] [--threads 2] [--seconds 0.3] [--only q4_1] [--n 1,8,64,512]
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/linear.hpp"

namespace {

using namespace troupe::kernels;

struct matrix_case {
    const char* what;
    dtype type;
    std::int64_t rows, cols;
};

// The matrices of the two models of the first issue, with the types their files have, and one of each other type.
constexpr matrix_case cases[] = {
    {"SmolLM2 q, o", dtype::q4_1, 576, 576},
    {"SmolLM2 gate, up", dtype::q4_1, 1536, 576},
    {"SmolLM2 down", dtype::q4_1, 576, 1536},
    {"SmolLM2 head", dtype::q8_0, 49152, 576},
    {"Gemma 3 gate, up", dtype::q5_0, 2048, 640},
    {"Gemma 3 q", dtype::q5_0, 1024, 640},
    {"Gemma 3 down", dtype::q4_k, 640, 2048},
    {"Gemma 3 down", dtype::q6_k, 640, 2048},
    {"Gemma 3 head", dtype::q8_0, 262144, 640},
    {"any", dtype::q4_0, 2048, 2048},
    {"any", dtype::q5_k, 2048, 2048},
    {"any", dtype::q8_0, 2048, 2048},
    {"any", dtype::f16, 2048, 2048},
    {"any", dtype::bf16, 2048, 2048},
    {"any", dtype::f32, 2048, 2048},
};

struct arguments {
    std::string table = "avx2", only;
    int threads = 2;
    double seconds = 0.3;
    std::vector<std::int64_t> n{1, 8, 64, 512};
};

arguments parse(int argc, char** argv) {
    arguments a;
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string name = argv[i];
        if (name == "--table") a.table = argv[i + 1];
        if (name == "--only") a.only = argv[i + 1];
        if (name == "--threads") a.threads = std::atoi(argv[i + 1]);
        if (name == "--seconds") a.seconds = std::atof(argv[i + 1]);
        if (name == "--n") {
            a.n.clear();
            for (const char* p = argv[i + 1]; p; p = std::strchr(p, ',') ? std::strchr(p, ',') + 1 : nullptr)
                a.n.push_back(std::atoll(p));
        }
    }
    return a;
}

/// 64-byte aligned and filled with a pattern that is finite in every type.
struct buffer {
    explicit buffer(std::size_t size)
        : bytes(size), data(static_cast<std::byte*>(std::aligned_alloc(64, (size + 63) / 64 * 64))) {
        for (std::size_t i = 0; i < size; ++i) data[i] = static_cast<std::byte>(i % 2 ? 0x2c : i * 37);
    }
    ~buffer() { std::free(data); }
    buffer(const buffer&) = delete;
    buffer& operator=(const buffer&) = delete;
    std::size_t bytes;
    std::byte* data;
};

clockid_t timer = CLOCK_MONOTONIC;  ///< of one thread its processor time: neighbours on the machine do not count

double now() {
    timespec t;
    clock_gettime(timer, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Seconds of one call: the best of those that fit into the time, so that a busy machine disturbs little.
double best_time(double budget, auto&& call) {
    double best = 1e9, total = 0;
    for (int i = 0; i < 3 || total < budget; ++i) {
        const double start = now();
        call();
        const double s = now() - start;
        best = std::min(best, s);
        total += s;
    }
    return best;
}

void measure(const arguments& a, const linear_ops& ops, pool& threads, const matrix_case& m) {
    buffer packed(ops.packed_bytes(m.type, m.rows, m.cols));
    {
        const buffer file(static_cast<std::size_t>(m.rows) * row_bytes(m.type, m.cols));
        ops.pack(threads, m.type, m.rows, m.cols, file.data, packed.data);
    }
    const weight w{m.type, m.rows, m.cols, packed.data};
    for (const std::int64_t n : a.n) {
        if (n * m.rows > 64 << 20) continue;
        std::vector<float> x(static_cast<std::size_t>(n * m.cols)), y(static_cast<std::size_t>(n * m.rows));
        std::mt19937 random(1);
        for (float& v : x) v = std::uniform_real_distribution<float>(-1, 1)(random);
        const buffer scratch(ops.scratch_bytes(n, m.cols));
        context c{threads, {scratch.data, scratch.bytes}};
        const linear_job job{&w, nullptr, y.data(), m.rows};
        threads.begin_step();
        const double s = best_time(a.seconds, [&] { ops.linear(c, x.data(), n, m.cols, &job, 1); });
        threads.end_step();
        std::printf("%-18s %-5.*s %7lld x %-5lld n %4lld  %9.1f us  %8.1f GMAC/s  %7.1f GB/s\n", m.what,
            static_cast<int>(info(m.type).name.size()), info(m.type).name.data(), static_cast<long long>(m.rows),
            static_cast<long long>(m.cols), static_cast<long long>(n), s * 1e6,
            static_cast<double>(n * m.rows * m.cols) / s * 1e-9, static_cast<double>(packed.bytes) / s * 1e-9);
        std::fflush(stdout);
    }
}

/// Gate matrices of one DeepSeek-V2-Lite layer: n rows choose 6 of 64 experts of 1408 x 2048. GB/s of the matrices that
/// were chosen.
void measure_experts(const arguments& a, const linear_ops& ops, pool& threads, dtype type) {
    constexpr std::int64_t count = 64, used = 6, rows = 1408, cols = 2048;
    const std::size_t matrix = ops.packed_bytes(type, rows, cols);
    buffer packed(matrix * count);
    const buffer file(static_cast<std::size_t>(rows) * row_bytes(type, cols));
    for (std::size_t m = 0; m < count; ++m) ops.pack(threads, type, rows, cols, file.data, packed.data + m * matrix);
    const weight_stack w{type, count, rows, cols, packed.data};
    for (const std::int64_t n : a.n) {
        const auto slots = static_cast<std::size_t>(n * used);
        std::vector<float> logits(static_cast<std::size_t>(n * count)), weight(slots);
        std::vector<float> x(static_cast<std::size_t>(n * cols)), y(slots * rows);
        std::vector<std::int32_t> slot(slots), row(slots), first(count + 1);
        std::mt19937 random(1);
        for (auto* values : {&logits, &x})
            for (float& v : *values) v = std::uniform_real_distribution<float>(-1, 1)(random);
        const buffer scratch(ops.stack_scratch_bytes(n * used * cols, count));
        context c{threads, {scratch.data, scratch.bytes}};
        const routing r{count, used, weight.data(), slot.data(), row.data(), first.data()};
        route(c, {count, used}, logits.data(), n, r);
        const auto met =
            std::count_if(first.begin() + 1, first.end(), [&](const std::int32_t& f) { return f > *(&f - 1); });
        const stack_job job{&w, y.data(), rows};
        threads.begin_step();
        const double s = best_time(
            a.seconds, [&] { ops.stack(c, x.data(), cols, slot_map::experts(r, expert_input::rows), &job, 1); });
        threads.end_step();
        std::printf("V2-Lite experts    %-5.*s n %4lld, %2lld of 64 met  %9.1f us  %8.1f GMAC/s  %7.1f GB/s\n",
            static_cast<int>(info(type).name.size()), info(type).name.data(), static_cast<long long>(n),
            static_cast<long long>(met), s * 1e6, static_cast<double>(n * used * rows * cols) / s * 1e-9,
            static_cast<double>(met) * static_cast<double>(matrix) / s * 1e-9);
    }
}

}  // namespace

int main(int argc, char** argv) {
    const arguments a = parse(argc, argv);
    pool threads(a.threads);
    if (a.threads == 1) timer = CLOCK_THREAD_CPUTIME_ID;
    const linear_ops& ops = a.table == "avx512" ? avx512::linear : avx2::linear;
    for (const matrix_case& m : cases)
        if (a.only.empty() || a.only == info(m.type).name) measure(a, ops, threads, m);
    for (const dtype type : {dtype::q4_0, dtype::q4_k})
        if (a.only.empty() || a.only == info(type).name) measure_experts(a, ops, threads, type);
    return 0;
}
