// One piece of attention: scores with lane = key, softmax, values, and the merge of pieces. The order of every sum depends
// on absolute positions only: dims ascend in a score, keys ascend in a value, pieces ascend in a merge.
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

constexpr int max_pairs = 4;  ///< pairs that share the loads of keys and values

/// Up to max_pairs pairs of one piece and what they have computed so far.
struct pair_tile {
    const float* q[max_pairs];
    int low[max_pairs], high[max_pairs];        // visible keys of the piece
    alignas(64) float weight[max_pairs][attention_piece];  // scores, then exponentials
    float max[max_pairs], sum[max_pairs];
};

/// Scores of R pairs with B consecutive blocks from block b.
template <int R, int B, class Type>
inline void score_blocks(const piece_args& a, int b, pair_tile& t) {
    vf sum[R][B];
    TROUPE_UNROLL
    for (int r = 0; r < R; ++r)
        TROUPE_UNROLL
        for (int i = 0; i < B; ++i) sum[r][i] = zero();
    for (int d = 0; d < a.head_dim; ++d) {
        vf key[B];
        TROUPE_UNROLL
        for (int i = 0; i < B; ++i) key[i] = Type::load16(a.k[b + i] + d * block * Type::bytes);
        TROUPE_UNROLL
        for (int r = 0; r < R; ++r) {
            const vf q = set1(t.q[r][d]);
            TROUPE_UNROLL
            for (int i = 0; i < B; ++i) sum[r][i] = fma(q, key[i], sum[r][i]);
        }
    }
    TROUPE_UNROLL
    for (int r = 0; r < R; ++r)
        TROUPE_UNROLL
        for (int i = 0; i < B; ++i) store(t.weight[r] + (b + i) * block, sum[r][i]);
}

template <int R, class Type>
inline void scores(const piece_args& a, int first_block, int end_block, pair_tile& t) {
    constexpr int at_once = tile / R > 1 ? tile / R : 1;
    int b = first_block;
    for (; b + at_once <= end_block; b += at_once) score_blocks<R, at_once, Type>(a, b, t);
    for (; b < end_block; ++b) score_blocks<R, 1, Type>(a, b, t);
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

/// o[r] += weight[r][key] * v[key] for keys [from, to), T vectors of values from dim d of R pairs starting with pair r0.
template <int R, int T, class Type>
inline void value_vectors(const piece_args& a, const pair_tile& t, int r0, int from, int to, int d, float* o, std::int64_t o_stride) {
    vf sum[R][T];
    TROUPE_UNROLL
    for (int r = 0; r < R; ++r)
        TROUPE_UNROLL
        for (int i = 0; i < T; ++i) sum[r][i] = load(o + r * o_stride + d + i * lanes);
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
    for (int r = 0; r < R; ++r)
        TROUPE_UNROLL
        for (int i = 0; i < T; ++i) store(o + r * o_stride + d + i * lanes, sum[r][i]);
}

template <int R, class Type>
inline void values_of_keys(const piece_args& a, const pair_tile& t, int r0, int from, int to, float* o, std::int64_t o_stride) {
    if (from >= to) return;
    constexpr int at_once = tile / R > 1 ? tile / R : 1;
    int d = 0;
    for (; d + at_once * lanes <= a.v_stride; d += at_once * lanes)
        value_vectors<R, at_once, Type>(a, t, r0, from, to, d, o, o_stride);
    for (; d < a.v_stride; d += lanes) value_vectors<R, 1, Type>(a, t, r0, from, to, d, o, o_stride);
}

/// Values of R pairs. Keys that all pairs see are taken together; at the edges each pair goes alone, so that a key it does
/// not see adds nothing to it, not even 0 * v. o [R][o_stride] is overwritten, o_stride >= v_stride.
template <int R, class Type>
inline void values(const piece_args& a, const pair_tile& t, float* o, std::int64_t o_stride) {
    int from = t.low[0], to = t.high[0];
    for (int r = 1; r < R; ++r) {
        from = t.low[r] > from ? t.low[r] : from;
        to = t.high[r] < to ? t.high[r] : to;
    }
    if (to < from) to = from;
    for (int r = 0; r < R; ++r) {
        float* row = o + r * o_stride;
        for (int d = 0; d < a.v_stride; d += lanes) store(row + d, zero());
        values_of_keys<1, Type>(a, t, r, t.low[r], from < t.high[r] ? from : t.high[r], row, o_stride);
    }
    values_of_keys<R, Type>(a, t, 0, from, to, o, o_stride);
    for (int r = 0; r < R; ++r) {
        const int rest = to > t.low[r] ? to : t.low[r];
        values_of_keys<1, Type>(a, t, r, rest, t.high[r], o + r * o_stride, o_stride);
    }
}

template <int R, class Type>
inline void tile_of(const piece_args& a, pair_tile& t, float* o, std::int64_t o_stride) {
    int low = t.low[0], high = t.high[0];
    for (int r = 1; r < R; ++r) {
        low = t.low[r] < low ? t.low[r] : low;
        high = t.high[r] > high ? t.high[r] : high;
    }
    const int first_block = low / block, end_block = (high + block - 1) / block;
    scores<R, Type>(a, first_block, end_block, t);
    for (int r = 0; r < R; ++r) softmax(a, first_block, end_block, t, r);
    values<R, Type>(a, t, o, o_stride);
}

template <class Type>
inline void tile_of_size(const piece_args& a, int size, pair_tile& t, float* o, std::int64_t o_stride) {
    switch (size) {
        case 1: return tile_of<1, Type>(a, t, o, o_stride);
        case 2: return tile_of<2, Type>(a, t, o, o_stride);
        case 3: return tile_of<3, Type>(a, t, o, o_stride);
        default: return tile_of<4, Type>(a, t, o, o_stride);
    }
}

inline const float* query(const piece_args& a, int pair) {
    return a.q + pair / a.group * a.row_stride + pair % a.group * static_cast<std::int64_t>(a.head_dim);
}

/// Computes pairs [pair, pair + size) into t and o.
inline void run_tile(const piece_args& a, int pair, int size, pair_tile& t, float* o, std::int64_t o_stride) {
    for (int r = 0; r < size; ++r) {
        const int position = a.first + (pair + r) / a.group;
        t.q[r] = query(a, pair + r);
        t.low[r] = a.window > 0 && position - a.window + 1 > 0 ? position - a.window + 1 : 0;
        t.high[r] = position + 1 < attention_piece ? position + 1 : attention_piece;
    }
    switch (a.type) {
        case dtype::f16: return tile_of_size<as_f16>(a, size, t, o, o_stride);
        case dtype::bf16: return tile_of_size<as_bf16>(a, size, t, o, o_stride);
        default: return tile_of_size<as_f32>(a, size, t, o, o_stride);
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

constexpr int max_head_dim = attention_max_head_dim;

void piece_merge(const piece_args& a, softmax_state s, float* out) {
    pair_tile t;
    alignas(64) float o[max_pairs * max_head_dim];
    const int pairs = a.n_rows * a.group;
    for (int pair = 0; pair < pairs; pair += max_pairs) {
        const int size = pairs - pair < max_pairs ? pairs - pair : max_pairs;
        run_tile(a, pair, size, t, o, max_head_dim);
        for (int r = 0; r < size; ++r) {
            float* to = out + (query(a, pair + r) - a.q);
            merge(t.max[r], t.sum[r], o + r * max_head_dim, a.head_dim, s.max + pair + r, s.sum + pair + r, to);
        }
    }
}

}  // namespace
}  // namespace troupe::kernels::TROUPE_ISA
