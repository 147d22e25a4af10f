// Speed of attention (and of the row ops) by table: time a call, GMAC/s of scores and values, GB/s of KV memory read.
//
//   attention_bench [--table avx2] [--threads 2] [--seconds 0.2] [--only SmolLM2]
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "kernels/ops.hpp"

namespace {

using namespace troupe::kernels;

struct attention_case {
    const char* what;
    int n_heads, n_kv_heads, head_dim, window;
    dtype type;
    int n_seqs, pos, n_rows;
    int latent = 0;
};

constexpr attention_case cases[] = {
    {"SmolLM2 prompt 512", 9, 3, 64, 0, dtype::f16, 1, 0, 512},
    {"SmolLM2 prompt at 4096", 9, 3, 64, 0, dtype::f16, 1, 4096, 256},
    {"SmolLM2 decode at 256", 9, 3, 64, 0, dtype::f16, 1, 256, 1},
    {"SmolLM2 decode at 600", 9, 3, 64, 0, dtype::f16, 1, 600, 1},
    {"SmolLM2 decode at 4096", 9, 3, 64, 0, dtype::f16, 1, 4096, 1},
    {"SmolLM2 decode 8 at 512", 9, 3, 64, 0, dtype::f16, 8, 512, 1},
    {"SmolLM2 decode q8_0 at 4096", 9, 3, 64, 0, dtype::q8_0, 1, 4096, 1},
    {"Gemma 3 prompt 512", 4, 1, 256, 512, dtype::f16, 1, 0, 512},
    {"Gemma 3 decode at 600", 4, 1, 256, 512, dtype::f16, 1, 600, 1},
    {"Llama 8B decode at 4096", 32, 8, 128, 0, dtype::f16, 1, 4096, 1},
    {"Llama 8B prompt 512", 32, 8, 128, 0, dtype::f16, 1, 0, 512},
    {"Gemma 2 decode q8_0 at 4096", 8, 4, 256, 0, dtype::q8_0, 1, 4096, 1},
    {"V2-Lite decode at 600", 16, 1, 576, 0, dtype::f16, 1, 600, 1, 512},
    {"V2-Lite decode at 4096", 16, 1, 576, 0, dtype::f16, 1, 4096, 1, 512},
    {"V2-Lite prompt 512", 16, 1, 576, 0, dtype::f16, 1, 0, 512, 512},
};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// This thread's processor time: on a shared machine it says more than the wall clock, but only of one thread.
double cpu_now() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

std::vector<float> random_floats(std::size_t n) {
    static std::mt19937 random(1);
    std::uniform_real_distribution<float> value(-1, 1);
    std::vector<float> x(n);
    for (float& v : x) v = value(random);
    return x;
}

struct setup {
    const ops& table;
    pool& threads;
    double seconds;

    double clock() const { return threads.size() == 1 ? cpu_now() : now(); }
    /// Best time of a call in some `seconds` of calls: others on the machine only make it slower.
    template <class Call> double best_time(Call call, double share = 1) const {
        double best = 1e9;
        const double end = now() + seconds * share;
        do {
            const double start = clock();
            call();
            best = std::min(best, clock() - start);
        } while (now() < end);
        return best;
    }
};

void run(const setup& s, const attention_case& a) {
    attention_params p;
    p.kv = {a.type, a.n_kv_heads, a.head_dim, a.latent};
    p.n_heads = a.n_heads;
    p.scale = 0.1f;
    p.window = a.window;
    const int n_rows = a.n_seqs * a.n_rows, length = a.pos + a.n_rows,
              n_blocks = (length + kv_block_tokens - 1) / kv_block_tokens;
    const std::size_t block = kv_layer_block_bytes(p.kv);
    std::vector<float> memory(block / 4 * static_cast<std::size_t>(n_blocks) * static_cast<std::size_t>(a.n_seqs));
    auto* bytes = reinterpret_cast<std::byte*>(memory.data());
    std::vector<std::vector<std::byte*>> blocks(static_cast<std::size_t>(a.n_seqs));
    std::vector<std::byte> scratch(
        s.table.scratch_bytes({std::max(n_rows, length), 64, a.n_heads, a.head_dim, s.threads.size()}) + 64);
    const std::size_t skip = (64 - reinterpret_cast<std::uintptr_t>(scratch.data()) % 64) % 64;
    context c{s.threads, {scratch.data() + skip, scratch.size() - 64}};

    const auto kv = random_floats(static_cast<std::size_t>(length * a.n_kv_heads * a.head_dim));
    const auto q = random_floats(static_cast<std::size_t>(n_rows * a.n_heads * a.head_dim));
    std::vector<float> out(q.size());
    std::vector<attention_seq> seqs;
    for (int i = 0; i < a.n_seqs; ++i) {
        auto& list = blocks[static_cast<std::size_t>(i)];
        for (int b = 0; b < n_blocks; ++b) list.push_back(bytes + block * static_cast<std::size_t>(i * n_blocks + b));
        const attention_seq all{0, length, 0, list.data()};
        s.table.kv_store(c, p.kv, 0, &all, 1, kv.data(), kv.data());
        seqs.push_back({i * a.n_rows, a.n_rows, a.pos, list.data()});
    }
    s.threads.begin_step();
    const double t = s.best_time([&] { s.table.attention(c, p, seqs.data(), a.n_seqs, q.data(), out.data()); });
    s.threads.end_step();

    double keys = 0, read = 0;  // (row, key) combinations; keys that some row sees
    for (int row = 0; row < a.n_rows; ++row) {
        const int visible = a.pos + row + 1;
        keys += a.window > 0 ? std::min(visible, a.window) : visible;
    }
    read = a.window > 0 ? std::min(length, a.window + a.n_rows) : length;
    const double macs = keys * a.n_seqs * a.n_heads * (a.head_dim + p.kv.value_dim());
    const double bytes_read = read * a.n_seqs * static_cast<double>(block) / kv_block_tokens;
    std::printf("%-28s %10.1f us %8.2f GMAC/s %8.2f GB/s\n", a.what, 1e6 * t, macs / t * 1e-9, bytes_read / t * 1e-9);
}

void run_rows(const setup& s, std::int64_t n, std::int64_t dim) {
    auto x = random_floats(static_cast<std::size_t>(n * dim)), y = x, w = random_floats(static_cast<std::size_t>(dim));
    std::vector<double> frequencies(32, 0.01);
    std::vector<std::int32_t> positions(static_cast<std::size_t>(n), 100);
    std::vector<float> angles(static_cast<std::size_t>(n) * 64);
    context c{s.threads, {}};
    const auto print = [&](const char* what, double t) {
        std::printf("%-12s %5ld x %-6ld %10.2f us %8.2f ns a value\n", what, static_cast<long>(n),
            static_cast<long>(dim), 1e6 * t, 1e9 * t / static_cast<double>(n * dim));
    };
    s.threads.begin_step();
    const auto measure = [&](const char* what, auto call) { print(what, s.best_time(call, 0.25)); };
    measure("rms_norm", [&] { s.table.rms_norm(c, x.data(), w.data(), n, dim, 1e-5f, y.data()); });
    measure("silu", [&] { s.table.gated(c, gate::silu, x.data(), x.data(), n, dim, y.data()); });
    measure("gelu", [&] { s.table.gated(c, gate::gelu_tanh, x.data(), x.data(), n, dim, y.data()); });
    measure("softcap", [&] { s.table.softcap(c, y.data(), n, dim, 30.0f); });
    s.table.rope_angles(c, frequencies.data(), 32, 1.0, positions.data(), n, angles.data());
    const int heads = static_cast<int>(dim / 64);
    measure("rope pairs", [&] { s.table.rope(c, y.data(), n, heads, 64, 32, rope_pairs::adjacent, angles.data()); });
    measure("rope halves", [&] { s.table.rope(c, y.data(), n, heads, 64, 32, rope_pairs::halves, angles.data()); });
    s.threads.end_step();
}

}  // namespace

int main(int argc, char** argv) {
    std::string name = "auto", only;
    int n_threads = 2;
    double seconds = 0.2;
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string option = argv[i];
        if (option == "--table") name = argv[i + 1];
        if (option == "--only") only = argv[i + 1];
        if (option == "--threads") n_threads = std::atoi(argv[i + 1]);
        if (option == "--seconds") seconds = std::atof(argv[i + 1]);
    }
    const auto found = table(name);
    if (!found) {
        std::fprintf(stderr, "%s\n", found.error().message.c_str());
        return 2;
    }
    pool threads(n_threads);
    const setup s{**found, threads, seconds};
    std::printf("table %s, %d threads\n", std::string(s.table.name).c_str(), n_threads);
    for (const attention_case& a : cases)
        if (std::string(a.what).find(only) != std::string::npos) run(s, a);
    if (!only.empty()) return 0;
    for (const std::int64_t n : {1, 128}) run_rows(s, n, 1536);
}
