// Attention's plan. Long prompts: a task is some rows of a sequence with one kv head, and goes through the pieces in
// order; it widens a piece once for all its rows and query heads. Few rows and a long context: a task is one piece with
// one kv head, whose results wait in scratch until they are merged in order. Either way a piece and a merge are the
// same functions over the same keys, so the plan never shows in the bits.
#include "kernels/cpu/attention.hpp"

#include <algorithm>
#include <limits>

#include "core/check.hpp"
#include "kernels/cpu/arena.hpp"
#include "kernels/kv_layout.hpp"

namespace troupe::kernels::cpu {
namespace {

constexpr int blocks_per_piece = attention_piece / kv_block_tokens;
/// Pairs (row, query head) of a task. More would amortize the widening of a piece further, fewer balance threads
/// better.
constexpr int task_pairs = 128;
/// From so many pairs on, widening a piece once is cheaper than in the inner loop of each tile of four.
constexpr int widen_pairs = 12;
/// Sequences of one row, or with at most so many pairs a kv head, may be cut along the context.
constexpr int split_pairs = 8;
/// Pieces of one row that wait in scratch for their merge; longer contexts go in waves.
constexpr int wave_pieces = 32;
/// With so many tasks a thread there is no need to cut the context.
constexpr int enough_tasks = 4;

int padded(int head_dim) { return (head_dim + 15) / 16 * 16; }
/// Of widened values: not a power of two, or a column of them would fall into few sets of the cache.
int widened_stride(int head_dim) { return padded(head_dim) + 16; }
int group_of(const attention_params& p) { return p.n_heads / p.kv.n_kv_heads; }
int chunk_rows(int group) { return std::max(1, task_pairs / group); }

/// Scratch of one thread: a widened piece and the running state of its pairs.
struct thread_memory {
    float* k = nullptr;  // [8][head_dim][16]
    float* v = nullptr;  // [8][16][widened_stride]
    softmax_state state;
};

thread_memory cut_thread(arena& a, int n_heads, int head_dim) {
    const auto pairs = static_cast<std::size_t>(std::max(task_pairs, n_heads));
    const auto width = static_cast<std::size_t>(attention_piece * widened_stride(head_dim));
    return {a.array<float>(width), a.array<float>(width), {a.array<float>(pairs), a.array<float>(pairs)}};
}

/// Piece results of one sequence: slot = (piece of the wave * kv heads + kv head) * pairs of a kv head + pair.
struct split_memory {
    softmax_state state;   // [kv heads * pairs]
    softmax_state pieces;  // [slots]
    float* o = nullptr;    // [slots][padded]
};

std::size_t n_slots(int n_heads) { return static_cast<std::size_t>(wave_pieces) * static_cast<std::size_t>(n_heads); }

split_memory cut_split(arena& a, int n_heads, int head_dim) {
    const std::size_t slots = n_slots(n_heads),
                      pairs = static_cast<std::size_t>(split_pairs) * static_cast<std::size_t>(n_heads);
    return {{a.array<float>(pairs), a.array<float>(pairs)}, {a.array<float>(slots), a.array<float>(slots)},
        a.array<float>(slots * static_cast<std::size_t>(padded(head_dim)))};
}

/// Rows [begin, end) of a sequence.
struct row_range {
    int begin, end;
};

/// Work on one sequence and one kv head.
struct head_job {
    const isa_kernels& isa;
    const attention_params& p;
    const attention_seq& seq;
    const float* q;
    float* out;
    int kv_head;

    /// Number of a row's first query head of this kv head, counted over all rows.
    std::int64_t first_head(int row) const {
        return static_cast<std::int64_t>(seq.first_row + row) * p.n_heads + kv_head * group_of(p);
    }
    const float* query(int row) const { return q + first_head(row) * p.kv.head_dim; }
    float* row_out(int row) const { return out + first_head(row) * p.kv.value_dim(); }
    float* pair_out(int pair) const {
        const int group = group_of(p);
        return row_out(pair / group) + static_cast<std::int64_t>(pair % group) * p.kv.value_dim();
    }

    int first_piece(int row) const {
        return p.window > 0 ? std::max(0, seq.pos + row - p.window + 1) / attention_piece : 0;
    }
    int last_piece(int row) const { return (seq.pos + row) / attention_piece; }
    /// The rows of `rows` that see a key of the piece.
    row_range seeing(int piece, row_range rows) const {
        const int start = piece * attention_piece - seq.pos;
        rows.begin = std::max(rows.begin, start);
        if (p.window > 0) rows.end = std::min(rows.end, start + attention_piece + p.window - 1);
        return rows;
    }

    piece_args args(int piece, row_range rows) const;
    void widen(piece_args& a, const thread_memory& m) const;
    void prepare(piece_args& a, const thread_memory& m) const {
        const bool fused = p.kv.latent == 0 && padded(a.head_dim) == a.head_dim && a.type != dtype::q8_0 &&
                           (a.type == dtype::f32 || a.n_rows * a.group < widen_pairs);
        if (!fused) widen(a, m);
    }
    void start(row_range rows, softmax_state s) const;
    void finish(row_range rows, softmax_state s) const;
};

piece_args head_job::args(int piece, row_range rows) const {
    piece_args a;
    a.q = query(rows.begin);
    a.row_stride = static_cast<std::int64_t>(p.n_heads) * p.kv.head_dim;
    a.out_stride = static_cast<std::int64_t>(p.n_heads) * p.kv.value_dim();
    a.n_rows = rows.end - rows.begin;
    a.group = group_of(p);
    a.head_dim = p.kv.head_dim;
    a.value_dim = p.kv.value_dim();
    a.first = seq.pos + rows.begin - piece * attention_piece;
    a.window = p.window;
    a.scale = p.scale;
    a.softcap = p.softcap;
    a.type = p.kv.type;
    a.v_stride = a.value_dim;
    const int low = p.window > 0 ? std::max(0, a.first - p.window + 1) : 0;
    const int high = std::min(attention_piece, a.first + a.n_rows);
    const std::size_t head = static_cast<std::size_t>(kv_head) * kv_head_bytes(p.kv), values = kv_half_bytes(p.kv);
    for (int b = low / kv_block_tokens; b * kv_block_tokens < high; ++b) {
        const std::byte* start = seq.blocks[piece * blocks_per_piece + b];
        CHECK(start, "a visible block must be there");
        a.k[b] = start + p.layer_offset + head;
        a.v[b] = a.k[b] + values;
    }
    return a;
}

/// Replaces the blocks of `a` by float copies with padded values; exact, so it does not show in the bits. Values that
/// are part of the keys are turned out of them.
void head_job::widen(piece_args& a, const thread_memory& m) const {
    const std::size_t k_floats = static_cast<std::size_t>(a.head_dim) * kv_block_tokens;
    a.v_stride = widened_stride(a.value_dim);
    const std::size_t v_floats = static_cast<std::size_t>(a.v_stride) * kv_block_tokens;
    const bool rows_of_blocks = a.type == dtype::q8_0;
    for (std::size_t b = 0; b < blocks_per_piece; ++b) {
        if (!a.k[b]) continue;
        float *k = m.k + b * k_floats, *v = m.v + b * v_floats;
        if (rows_of_blocks)
            isa.widen_q8_keys(a.k[b], a.head_dim, k);
        else
            isa.widen(a.type, a.k[b], static_cast<std::int64_t>(k_floats), k);
        if (padded(a.value_dim) != a.value_dim) std::fill(v, v + v_floats, 0.0f);
        if (p.kv.latent > 0)
            isa.values_of_keys(k, a.value_dim, a.v_stride, v);
        else if (rows_of_blocks)
            isa.widen_q8_values(a.v[b], a.value_dim, a.v_stride, v);
        else
            for (int t = 0; t < kv_block_tokens; ++t)
                isa.widen(a.type, a.v[b] + static_cast<std::size_t>(t) * row_bytes(a.type, a.value_dim), a.value_dim,
                    v + t * a.v_stride);
        a.k[b] = reinterpret_cast<const std::byte*>(k);
        a.v[b] = reinterpret_cast<const std::byte*>(v);
    }
    a.type = dtype::f32;
}

void head_job::start(row_range rows, softmax_state s) const {
    const int group = group_of(p), pairs = (rows.end - rows.begin) * group;
    std::fill(s.max, s.max + pairs, -std::numeric_limits<float>::infinity());
    std::fill(s.sum, s.sum + pairs, 0.0f);
    for (int row = rows.begin; row < rows.end; ++row) std::fill_n(row_out(row), group * p.kv.value_dim(), 0.0f);
}

void head_job::finish(row_range rows, softmax_state s) const {
    const int group = group_of(p), pairs = (rows.end - rows.begin) * group;
    for (int pair = 0; pair < pairs; ++pair) {
        float* values = pair_out(rows.begin * group + pair);
        isa.scale_row(values, 1.0f / s.sum[pair], nullptr, p.kv.value_dim(), values);
    }
}

softmax_state operator+(softmax_state s, int pair) { return {s.max + pair, s.sum + pair}; }

/// Rows of one task, all pieces in order.
void run_rows(const head_job& j, row_range rows, const thread_memory& m) {
    j.start(rows, m.state);
    for (int piece = j.first_piece(rows.begin); piece <= j.last_piece(rows.end - 1); ++piece) {
        const row_range seeing = j.seeing(piece, rows);
        piece_args a = j.args(piece, seeing);
        j.prepare(a, m);
        j.isa.piece_merge(a, m.state + (seeing.begin - rows.begin) * a.group, j.row_out(seeing.begin));
    }
    j.finish(rows, m.state);
}

/// The call's memory, and everything its tasks share.
struct plan {
    const isa_kernels& isa;
    context& c;
    const attention_params& p;
    const float* q;
    float* out;
    thread_memory* threads = nullptr;  // [threads]
    split_memory split;

    head_job job(const attention_seq& seq, int kv_head) const { return {isa, p, seq, q, out, kv_head}; }
    void run_split(const attention_seq& seq) const;
    void run_wave(const attention_seq& seq, int first_piece, int n_pieces) const;
};

void plan::run_wave(const attention_seq& seq, int first_piece, int n_pieces) const {
    const int heads = p.kv.n_kv_heads, group = group_of(p), pairs = seq.n_rows * group,
              width = padded(p.kv.value_dim());
    const auto slot = [=](int piece, int head, int pair) {
        return ((piece - first_piece) * heads + head) * pairs + pair;
    };
    c.threads.run(static_cast<std::int64_t>(n_pieces) * heads, [&](std::int64_t task, int thread) {
        const int piece = first_piece + static_cast<int>(task) / heads, head = static_cast<int>(task) % heads;
        const head_job j = job(seq, head);
        const row_range rows = j.seeing(piece, {0, seq.n_rows});
        if (rows.begin >= rows.end) return;
        piece_args a = j.args(piece, rows);
        j.prepare(a, threads[thread]);
        const int at = slot(piece, head, rows.begin * group);
        isa.piece_store(a, split.pieces + at, split.o + static_cast<std::int64_t>(at) * width, width);
    });
    c.threads.run(static_cast<std::int64_t>(heads) * pairs, [&](std::int64_t task, int) {
        const int head = static_cast<int>(task) / pairs, pair = static_cast<int>(task) % pairs;
        const head_job j = job(seq, head);
        const softmax_state state = split.state + static_cast<int>(task);
        for (int piece = first_piece; piece < first_piece + n_pieces; ++piece) {
            const row_range rows = j.seeing(piece, {0, seq.n_rows});
            if (pair < rows.begin * group || pair >= rows.end * group) continue;
            const int s = slot(piece, head, pair);
            isa.merge(split.pieces.max[s], split.pieces.sum[s], split.o + static_cast<std::int64_t>(s) * width,
                p.kv.value_dim(), state.max, state.sum, j.pair_out(pair));
        }
    });
}

void plan::run_split(const attention_seq& seq) const {
    const int pairs = seq.n_rows * group_of(p), wave = static_cast<int>(n_slots(p.n_heads)) / (pairs * p.kv.n_kv_heads);
    const row_range rows{0, seq.n_rows};
    for (int head = 0; head < p.kv.n_kv_heads; ++head) job(seq, head).start(rows, split.state + head * pairs);
    const int last = job(seq, 0).last_piece(seq.n_rows - 1);
    for (int piece = job(seq, 0).first_piece(0); piece <= last; piece += wave)
        run_wave(seq, piece, std::min(wave, last + 1 - piece));
    for (int head = 0; head < p.kv.n_kv_heads; ++head) job(seq, head).finish(rows, split.state + head * pairs);
}

/// Task numbers of every sequence: those of sequence s are [first[s], first[s + 1]).
struct task_list {
    std::int64_t* first;  // [n_seqs + 1]
    int n_seqs;

    template <class Count> void fill(Count count) {
        first[0] = 0;
        for (int s = 0; s < n_seqs; ++s) first[s + 1] = first[s] + count(s);
    }
    std::int64_t total() const { return first[n_seqs]; }
    int seq_of(std::int64_t task) const {
        return static_cast<int>(std::upper_bound(first, first + n_seqs + 1, task) - first) - 1;
    }
};

task_list cut_tasks(arena& a, std::int64_t n_seqs) {
    return {a.array<std::int64_t>(static_cast<std::size_t>(n_seqs) + 1), static_cast<int>(n_seqs)};
}

/// One token's k or v of all heads in the KV type's file layout, values in order.
void narrow_row(const isa_kernels& isa, dtype type, const float* x, int n, std::uint16_t* y) {
    if (type == dtype::f16) return isa.narrow_half(x, n, y);
    for (int i = 0; i < n; ++i) y[i] = float_to_bfloat(x[i]);
}

/// Tokens [from, to) of one block, 16-bit types: keys are turned to [head_dim][16] through a copy of one head.
void write_block_16(
    const isa_kernels& isa, const kv_geometry& g, std::byte* layer, int from, int to, const float* k, const float* v) {
    const int own = g.own_dim();
    const std::int64_t k_width = static_cast<std::int64_t>(g.n_kv_heads) * own,
                       v_width = static_cast<std::int64_t>(g.n_kv_heads) * g.value_dim();
    std::uint16_t row[kv_block_tokens][attention_max_head_dim];
    for (int h = 0; h < g.n_kv_heads; ++h) {
        auto* keys = reinterpret_cast<std::uint16_t*>(layer + static_cast<std::size_t>(h) * kv_head_bytes(g));
        auto* values = reinterpret_cast<std::uint16_t*>(reinterpret_cast<std::byte*>(keys) + kv_half_bytes(g));
        for (int t = from; t < to; ++t) {
            narrow_row(isa, g.type, k + (t - from) * k_width + h * own, own, row[t] + g.latent);
            narrow_row(isa, g.type, v + (t - from) * v_width + h * g.value_dim(), g.value_dim(),
                g.latent > 0 ? row[t] : values + t * g.head_dim);
        }
        for (int d = 0; d < g.head_dim; ++d)
            for (int t = from; t < to; ++t) keys[d * kv_block_tokens + t] = row[t][d];
    }
}

void check_geometry(const attention_params& p) {
    kv_check(p.kv);
    CHECK(p.kv.head_dim <= attention_max_head_dim);
    CHECK(p.n_heads > 0 && p.n_heads % p.kv.n_kv_heads == 0);
}

}  // namespace

std::size_t attention_scratch_bytes(std::int64_t max_rows, int n_heads, int head_dim, int n_threads) {
    arena a;
    cut_tasks(a, max_rows);
    a.array<thread_memory>(static_cast<std::size_t>(n_threads));
    for (int t = 0; t < n_threads; ++t) cut_thread(a, n_heads, head_dim);
    cut_split(a, n_heads, head_dim);
    return a.used();
}

void attention(const isa_kernels& isa, context& c, const attention_params& p, const attention_seq* seqs, int n_seqs,
    const float* q, float* out) {
    check_geometry(p);
    arena a(c.scratch);
    task_list tasks = cut_tasks(a, n_seqs);
    plan work{isa, c, p, q, out};
    work.threads = a.array<thread_memory>(static_cast<std::size_t>(c.threads.size()));
    for (int t = 0; t < c.threads.size(); ++t) work.threads[t] = cut_thread(a, p.n_heads, p.kv.head_dim);
    work.split = cut_split(a, p.n_heads, p.kv.head_dim);

    const int heads = p.kv.n_kv_heads, group = group_of(p), chunk = chunk_rows(group);
    const auto whole_tasks = [&](int s) {
        return static_cast<std::int64_t>((seqs[s].n_rows + chunk - 1) / chunk) * heads;
    };
    tasks.fill(whole_tasks);
    const bool few = c.threads.size() > 1 && tasks.total() < static_cast<std::int64_t>(enough_tasks) * c.threads.size();
    const auto is_split = [&](int s) {
        const head_job j = work.job(seqs[s], 0);
        const bool narrow = seqs[s].n_rows == 1 || seqs[s].n_rows * group <= split_pairs;
        return few && narrow && j.last_piece(seqs[s].n_rows - 1) > j.first_piece(0);
    };
    if (few) tasks.fill([&](int s) { return is_split(s) ? 0 : whole_tasks(s); });

    c.threads.run(tasks.total(), [&](std::int64_t task, int thread) {
        const int s = tasks.seq_of(task);
        const int index = static_cast<int>(task - tasks.first[s]), begin = index / heads * chunk;
        run_rows(
            work.job(seqs[s], index % heads), {begin, std::min(begin + chunk, seqs[s].n_rows)}, work.threads[thread]);
    });
    for (int s = 0; few && s < n_seqs; ++s)
        if (is_split(s)) work.run_split(seqs[s]);
}

void kv_store(const isa_kernels& isa, context& c, const kv_geometry& kv, std::size_t layer_offset,
    const attention_seq* seqs, int n_seqs, const float* k, const float* v) {
    kv_check(kv);
    CHECK(kv.head_dim <= attention_max_head_dim);
    arena a(c.scratch);
    task_list tasks = cut_tasks(a, n_seqs);
    // A task is a block: two threads in one block would write to the same cache lines.
    tasks.fill([&](int s) {
        return (seqs[s].pos + seqs[s].n_rows - 1) / kv_block_tokens - seqs[s].pos / kv_block_tokens + 1;
    });
    const std::int64_t k_width = static_cast<std::int64_t>(kv.n_kv_heads) * kv.own_dim(),
                       v_width = static_cast<std::int64_t>(kv.n_kv_heads) * kv.value_dim();
    c.threads.run(tasks.total(), [&](std::int64_t task, int) {
        const int s = tasks.seq_of(task);
        const attention_seq& seq = seqs[s];
        const int block = seq.pos / kv_block_tokens + static_cast<int>(task - tasks.first[s]);
        const int from = std::max(seq.pos, block * kv_block_tokens);
        const int to = std::min(seq.pos + seq.n_rows, (block + 1) * kv_block_tokens);
        std::byte* layer = seq.blocks[block] + layer_offset;
        const std::int64_t row = seq.first_row + from - seq.pos;
        if (kv.type == dtype::f16 || kv.type == dtype::bf16)
            return write_block_16(isa, kv, layer, from - block * kv_block_tokens, to - block * kv_block_tokens,
                k + row * k_width, v + row * v_width);
        for (int position = from; position < to; ++position)
            kv_write_token(kv, layer, position - block * kv_block_tokens, k + (row + position - from) * k_width,
                v + (row + position - from) * v_width);
    });
}

}  // namespace troupe::kernels::cpu
