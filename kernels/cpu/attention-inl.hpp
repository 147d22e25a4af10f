// One piece of attention: scores with lane = key, softmax, values, and the merge of pieces. The order of every sum
// depends on absolute positions only: dims ascend in a score, keys ascend in a value, pieces ascend in a merge.
// Included once by each kernels_<isa>.cpp after rows-inl.hpp.

// Loops over a tile's registers; left as loops they would live in memory.
#if defined(__clang__)
#define TROUPE_UNROLL _Pragma("unroll")
#else
#define TROUPE_UNROLL _Pragma("GCC unroll 16")
#endif

namespace troupe::kernels::TROUPE_ISA {
namespace {

constexpr int block = kv_block_tokens;
static_assert(block == lanes, "a key block is one vector of scores");

struct as_f32 {
    static constexpr int bytes = 4;
    static vf load16(const std::byte* p) { return load(reinterpret_cast<const float*>(p)); }
};
struct as_f16 {
    static constexpr int bytes = 2;
    static vf load16(const std::byte* p) { return widen_half(p); }
};
struct as_bf16 {
    static constexpr int bytes = 2;
    static vf load16(const std::byte* p) { return widen_bfloat(p); }
};

constexpr int micro = 6;       ///< pairs whose sums are in registers together
constexpr int max_pairs = 18;  ///< pairs that go over a piece together, so that its keys and values come from L1

/// Up to max_pairs pairs of one piece and what they have computed so far.
struct pair_tile {
    int size;
    const float* q[max_pairs];
    int low[max_pairs], high[max_pairs];                   // visible keys of the piece
    alignas(64) float weight[max_pairs][attention_piece];  // scores, then exponentials
    float max[max_pairs], sum[max_pairs];

    /// Keys of the piece that some of n pairs from r0 see.
    int lowest(int r0, int n) const {
        int key = low[r0];
        for (int r = r0 + 1; r < r0 + n; ++r) key = low[r] < key ? low[r] : key;
        return key;
    }
    int highest(int r0, int n) const {
        int key = high[r0];
        for (int r = r0 + 1; r < r0 + n; ++r) key = high[r] > key ? high[r] : key;
        return key;
    }
};

/// Scores of R pairs from r0 with B consecutive blocks from block b.
template <int R, int B, class Type> inline void score_blocks(const piece_args& a, int r0, int b, pair_tile& t) {
    vf sum[R][B];
    TROUPE_UNROLL
    for (int r = 0; r < R; ++r) {
        TROUPE_UNROLL
        for (int i = 0; i < B; ++i) sum[r][i] = zero();
    }
    for (int d = 0; d < a.head_dim; ++d) {
        vf key[B];
        TROUPE_UNROLL
        for (int i = 0; i < B; ++i) key[i] = Type::load16(a.k[b + i] + d * block * Type::bytes);
        TROUPE_UNROLL
        for (int r = 0; r < R; ++r) {
            const vf q = set1(t.q[r0 + r][d]);
            TROUPE_UNROLL
            for (int i = 0; i < B; ++i) sum[r][i] = fma(q, key[i], sum[r][i]);
        }
    }
    TROUPE_UNROLL
    for (int r = 0; r < R; ++r) {
        TROUPE_UNROLL
        for (int i = 0; i < B; ++i) store(t.weight[r0 + r] + (b + i) * block, sum[r][i]);
    }
}

/// Vectors that R pairs take at once: 1, 2 or 4.
template <int R> constexpr int at_once = tile / R >= 4 ? 4 : tile / R >= 2 ? 2 : 1;

/// Scores of R pairs with blocks [b, end), which are few enough to stay in L1 for the next pairs.
template <int R, class Type> inline void scores(const piece_args& a, int r0, int b, int end, pair_tile& t) {
    for (; b + at_once<R> <= end; b += at_once<R>) score_blocks<R, at_once<R>, Type>(a, r0, b, t);
    for (; b < end; ++b) score_blocks<R, 1, Type>(a, r0, b, t);
}

/// Scale, cap, mask and exponentials of one pair; lanes outside its keys become exact zeros by select.
inline void softmax(const piece_args& a, int first_block, int end_block, pair_tile& t, int r) {
    const vf scale = set1(a.scale), cap = set1(a.softcap), inverse = set1(a.softcap > 0 ? 1.0f / a.softcap : 0.0f);
    const vf lowest = set1(-__builtin_inff());
    vf highest = lowest;
    float* row = t.weight[r];
    for (int b = first_block; b < end_block; ++b) {
        vf s = mul(load(row + b * block), scale);
        if (a.softcap > 0) s = cap_values(s, cap, inverse);
        s = select(range(t.low[r] - b * block, t.high[r] - b * block), s, lowest);
        highest = max(highest, s);
        store(row + b * block, s);
    }
    t.max[r] = reduce_max(highest);
    const vf peak = set1(t.max[r]);
    vf total = zero();
    for (int b = first_block; b < end_block; ++b) {
        const vf e = exp(sub(load(row + b * block), peak));
        total = add(total, e);
        store(row + b * block, e);
    }
    t.sum[r] = reduce_add(total);
}

/// o[r] += weight[r][key] * v[key] for keys [from, to), T vectors of values from dim d of R pairs from r0.
template <int R, int T, class Type>
inline void value_vectors(
    const piece_args& a, const pair_tile& t, int r0, int from, int to, int d, float* o, std::int64_t o_stride) {
    if (from >= to) return;
    vf sum[R][T];
    TROUPE_UNROLL
    for (int r = 0; r < R; ++r) {
        TROUPE_UNROLL
        for (int i = 0; i < T; ++i) sum[r][i] = load(o + (r0 + r) * o_stride + d + i * lanes);
    }
    for (int b = from / block; b * block < to; ++b) {
        const int key_from = b * block < from ? from : b * block, key_to = (b + 1) * block < to ? (b + 1) * block : to;
        const std::byte* v = a.v[b] + ((key_from - b * block) * a.v_stride + d) * Type::bytes;
        for (int key = key_from; key < key_to; ++key, v += a.v_stride * Type::bytes) {
            vf value[T];
            TROUPE_UNROLL
            for (int i = 0; i < T; ++i) value[i] = Type::load16(v + i * lanes * Type::bytes);
            TROUPE_UNROLL
            for (int r = 0; r < R; ++r) {
                const vf w = set1(t.weight[r0 + r][key]);
                TROUPE_UNROLL
                for (int i = 0; i < T; ++i) sum[r][i] = fma(w, value[i], sum[r][i]);
            }
        }
    }
    TROUPE_UNROLL
    for (int r = 0; r < R; ++r) {
        TROUPE_UNROLL
        for (int i = 0; i < T; ++i) store(o + (r0 + r) * o_stride + d + i * lanes, sum[r][i]);
    }
}

/// T vectors of values from dim d of R pairs. Keys that all pairs see are taken together; at the edges each pair goes
/// alone, so that a key it does not see adds nothing to it, not even 0 * v.
template <int R, int T, class Type>
inline void value_chunk(const piece_args& a, const pair_tile& t, int r0, int d, float* o, std::int64_t o_stride) {
    int from = t.low[r0], to = t.high[r0];
    for (int r = r0 + 1; r < r0 + R; ++r) {
        from = t.low[r] > from ? t.low[r] : from;
        to = t.high[r] < to ? t.high[r] : to;
    }
    if (to < from) to = from;
    for (int r = r0; r < r0 + R; ++r) {
        for (int i = 0; i < T; ++i) store(o + r * o_stride + d + i * lanes, zero());
        value_vectors<1, T, Type>(a, t, r, t.low[r], from < t.high[r] ? from : t.high[r], d, o, o_stride);
    }
    value_vectors<R, T, Type>(a, t, r0, from, to, d, o, o_stride);
    for (int r = r0; r < r0 + R; ++r)
        value_vectors<1, T, Type>(a, t, r, to > t.low[r] ? to : t.low[r], t.high[r], d, o, o_stride);
}

/// Values of R pairs, dims [d, end).
template <int R, class Type>
inline void values(const piece_args& a, const pair_tile& t, int r0, int d, int end, float* o, std::int64_t o_stride) {
    constexpr int width = at_once<R> * lanes;
    for (; d + width <= end; d += width) value_chunk<R, at_once<R>, Type>(a, t, r0, d, o, o_stride);
    for (; d < end; d += lanes) value_chunk<R, 1, Type>(a, t, r0, d, o, o_stride);
}

/// call(pairs<R>, r0) for every R <= micro pairs of the tile.
template <int R> struct pairs { static constexpr int count = R; };
template <class Call> inline void each_micro(const pair_tile& t, Call call) {
    int r0 = 0;
    for (; r0 + micro <= t.size; r0 += micro) call(pairs<micro>{}, r0);
    switch (t.size - r0) {
    case 1:
        return call(pairs<1>{}, r0);
    case 2:
        return call(pairs<2>{}, r0);
    case 3:
        return call(pairs<3>{}, r0);
    case 4:
        return call(pairs<4>{}, r0);
    case 5:
        return call(pairs<5>{}, r0);
    default:
        return;
    }
}

/// Everything of a tile; o [size][o_stride] is overwritten up to the padded value_dim.
template <class Type> inline void tile_of(const piece_args& a, pair_tile& t, float* o, std::int64_t o_stride) {
    const int first_block = t.lowest(0, t.size) / block, end_block = (t.highest(0, t.size) + block - 1) / block;
    // Many pairs: what one register tile reads of the piece is still in L1 for the next one. Few pairs: all of it at
    // once.
    const bool many = t.size > micro;
    const int step = many ? at_once<micro> : end_block - first_block;
    for (int b = first_block; b < end_block; b += step)
        each_micro(t, [&](auto p, int r0) {
            constexpr int R = decltype(p)::count;
            const int end = (t.highest(r0, R) + block - 1) / block, from = t.lowest(r0, R) / block;
            scores<R, Type>(a, r0, b < from ? from : b, b + step < end ? b + step : end, t);
        });
    for (int r = 0; r < t.size; ++r) softmax(a, t.low[r] / block, (t.high[r] + block - 1) / block, t, r);
    const int width = (a.value_dim + lanes - 1) / lanes * lanes, chunk = many ? at_once<micro> * lanes : width;
    for (int d = 0; d < width; d += chunk)
        each_micro(t, [&](auto p, int r0) {
            constexpr int R = decltype(p)::count;
            values<R, Type>(a, t, r0, d, d + chunk < width ? d + chunk : width, o, o_stride);
        });
}

inline const float* query(const piece_args& a, int pair) {
    return a.q + pair / a.group * a.row_stride + pair % a.group * static_cast<std::int64_t>(a.head_dim);
}

/// Computes pairs [pair, pair + size) into t and o.
inline void run_tile(const piece_args& a, int pair, int size, pair_tile& t, float* o, std::int64_t o_stride) {
    t.size = size;
    for (int r = 0; r < size; ++r) {
        const int position = a.first + (pair + r) / a.group;
        t.q[r] = query(a, pair + r);
        t.low[r] = a.window > 0 && position - a.window + 1 > 0 ? position - a.window + 1 : 0;
        t.high[r] = position + 1 < attention_piece ? position + 1 : attention_piece;
    }
    switch (a.type) {
    case dtype::f16:
        return tile_of<as_f16>(a, t, o, o_stride);
    case dtype::bf16:
        return tile_of<as_bf16>(a, t, o, o_stride);
    default:
        return tile_of<as_f32>(a, t, o, o_stride);
    }
}

void merge(float max_piece, float sum_piece, const float* o, int dim, float* state_max, float* state_sum, float* out) {
    const float highest = max_piece > *state_max ? max_piece : *state_max;
    alignas(64) float shift[lanes] = {*state_max - highest, max_piece - highest};
    store(shift, exp(load(shift)));
    *state_max = highest;
    *state_sum = *state_sum * shift[0] + sum_piece * shift[1];
    const vf old_share = set1(shift[0]), new_share = set1(shift[1]);
    each_vector(dim, [&](std::int64_t d, int count) {
        const vf old = mul(load_some(out + d, count), old_share);
        store_some(out + d, fma(load_some(o + d, count), new_share, old), count);
    });
}

void piece_store(const piece_args& a, softmax_state s, float* o, std::int64_t o_stride) {
    pair_tile t;
    const int pairs = a.n_rows * a.group;
    for (int pair = 0; pair < pairs; pair += max_pairs) {
        const int size = pairs - pair < max_pairs ? pairs - pair : max_pairs;
        run_tile(a, pair, size, t, o + pair * o_stride, o_stride);
        for (int r = 0; r < size; ++r) {
            s.max[pair + r] = t.max[r];
            s.sum[pair + r] = t.sum[r];
        }
    }
}

void piece_merge(const piece_args& a, softmax_state s, float* out) {
    pair_tile t;
    alignas(64) float o[max_pairs * (attention_max_head_dim + lanes)];
    const std::int64_t o_stride =
        (a.value_dim + lanes - 1) / lanes * lanes + lanes;  // rows in different sets of the cache
    const int pairs = a.n_rows * a.group;
    for (int pair = 0; pair < pairs; pair += max_pairs) {
        const int size = pairs - pair < max_pairs ? pairs - pair : max_pairs;
        run_tile(a, pair, size, t, o, o_stride);
        for (int r = 0; r < size; ++r) {
            const int row = (pair + r) / a.group, head = (pair + r) % a.group;
            float* to = out + row * a.out_stride + head * static_cast<std::int64_t>(a.value_dim);
            merge(t.max[r], t.sum[r], o + r * o_stride, a.value_dim, s.max + pair + r, s.sum + pair + r, to);
        }
    }
}

}  // namespace
}  // namespace troupe::kernels::TROUPE_ISA
