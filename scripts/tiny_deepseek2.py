"""The tiny deepseek2 model of make_tiny_models.py: latent attention, a dense layer, then experts.

"deepseek2" and "deepseek2-legacy" are the same weights with attn_k_b + attn_v_b and with attn_kv_b. "deepseek2-mixed" is the legacy
form with quantized matrices (Q4_K where rows are multiples of 256, else Q8_0, by the plainest rounding there is) and
"deepseek2-mixed-f32" what these mean, as floats in the other form: an oracle for what loading makes of quantized files.
"""
import numpy as np

from gguf_bytes import F16, F32, gguf_bytes

N_EMBD, N_FF, N_HEADS, N_VOCAB, N_LAYERS = 256, 512, 4, 320, 4
LATENT, NOPE, ROPE, VALUE = 192, 64, 32, 128
EXPERTS, N_FF_EXPERT, SHARED = 8, 64, 2
SEED = 9  # no top-2 gap of the greedy text is small, no router comes close to a tie
Q8_0, Q4_K = 8, 12  # tensor types

SHA256 = {
    "deepseek2": "6509950d6401360f26fd553b4f329e5634d2a1a5bc546b194b3d5b3638f9a4c8",
    "deepseek2-legacy": "c76210d1f109e9d54dd6a859894c0c8f315e3350c23c8f4e20b2092c136a64f5",
    "deepseek2-mixed": "008b068095c326b4101c0759926e9d7a186451f11982197051ec6462f33848a4",
    "deepseek2-mixed-f32": "b26c8878dccc7db7b2390fda3213ef3be13dc10b6cbb418d7fd75314412e986c",
}


def draw(exact):
    """(name, array) in the order of the random stream; names without "blk.N." belong to no layer."""
    rng = np.random.default_rng(SEED)

    def matrix(rows, cols, gain):
        return exact(rng.standard_normal((rows, cols)) * gain / np.sqrt(float(cols)))

    def norm(n):
        return exact(1.0 + 0.25 * rng.standard_normal(n))

    def ffn(width):
        return matrix(width, N_EMBD, 1.3), matrix(width, N_EMBD, 1.3), matrix(N_EMBD, width, 1.5)

    yield "token_embd", matrix(N_VOCAB, N_EMBD, 3.0)
    for i in range(N_LAYERS):
        b = f"blk.{i}."
        yield b + "attn_norm", norm(N_EMBD)
        yield b + "attn_q", matrix(N_HEADS * (NOPE + ROPE), N_EMBD, 1.3)
        yield b + "attn_kv_a_mqa", matrix(LATENT + ROPE, N_EMBD, 1.3)
        yield b + "attn_kv_a_norm", norm(LATENT)
        yield b + "attn_kv_b", matrix(N_HEADS * (NOPE + VALUE), LATENT, 1.3)
        yield b + "attn_output", matrix(N_EMBD, N_HEADS * VALUE, 2.0)
        yield b + "ffn_norm", norm(N_EMBD)
        parts = ("ffn_gate", "ffn_up", "ffn_down")
        if i == 0:
            yield from zip((b + p for p in parts), ffn(N_FF))
            continue
        yield b + "ffn_gate_inp", matrix(EXPERTS, N_EMBD, 1.5)
        experts = [ffn(N_FF_EXPERT) for _ in range(EXPERTS)]
        yield from ((b + p + "_exps", np.stack(x)) for p, x in zip(parts, zip(*experts)))
        yield from ((b + p + "_shexp", x) for p, x in zip(parts, ffn(SHARED * N_FF_EXPERT)))
    yield "output_norm", norm(N_EMBD)
    yield "output", matrix(N_VOCAB, N_EMBD, 3.0)


FILE_ORDER = ("attn_norm attn_q attn_kv_a_mqa attn_kv_a_norm attn_kv_b attn_k_b attn_v_b attn_output ffn_norm ffn_gate ffn_up ffn_down "
              "ffn_gate_inp ffn_gate_exps ffn_gate_shexp ffn_up_exps ffn_up_shexp ffn_down_exps ffn_down_shexp").split()


def in_file_order(weights, legacy):
    """(GGUF name, array); attn_kv_b is cut into a head's keys, turned to act on queries, and its values unless `legacy`."""
    for name in ("token_embd", "output_norm", "output"):
        yield name + ".weight", weights[name]
    for i in range(N_LAYERS):
        layer = {name: weights[f"blk.{i}.{name}"] for name in FILE_ORDER if f"blk.{i}.{name}" in weights}
        if not legacy:
            heads = layer.pop("attn_kv_b").reshape(N_HEADS, NOPE + VALUE, LATENT)
            layer["attn_k_b"] = np.ascontiguousarray(heads[:, :NOPE].transpose(0, 2, 1))
            layer["attn_v_b"] = np.ascontiguousarray(heads[:, NOPE:])
        for name in FILE_ORDER:
            if name in layer:
                yield f"blk.{i}.{name}.weight", layer[name]


def metadata(legacy, tokenizer):
    """(key, GGUF type, value) in file order. What real files lack is absent here too."""
    f = "deepseek2."
    yield "general.architecture", "string", "deepseek2"
    yield "general.name", "string", "tiny random deepseek2"
    yield "general.file_type", "u32", 1
    yield f + "context_length", "u32", 40960
    yield f + "embedding_length", "u32", N_EMBD
    yield f + "block_count", "u32", N_LAYERS
    yield f + "feed_forward_length", "u32", N_FF
    yield f + "attention.head_count", "u32", N_HEADS
    yield f + "attention.layer_norm_rms_epsilon", "f32", 1e-6
    yield f + "rope.freq_base", "f32", 1e4
    yield f + "vocab_size", "u32", N_VOCAB
    yield f + "leading_dense_block_count", "u32", 1
    yield f + "attention.kv_lora_rank", "u32", LATENT
    if legacy:
        yield f + "attention.head_count_kv", "u32", N_HEADS
        yield f + "attention.key_length", "u32", NOPE + ROPE
        yield f + "attention.value_length", "u32", VALUE
    else:
        yield f + "attention.q_lora_rank", "u32", 0
        yield f + "attention.head_count_kv", "u32", 1
        yield f + "attention.key_length", "u32", LATENT + ROPE
        yield f + "attention.value_length", "u32", LATENT
        yield f + "attention.key_length_mla", "u32", NOPE + ROPE
        yield f + "attention.value_length_mla", "u32", VALUE
        yield f + "expert_gating_func", "u32", 1
        yield f + "expert_weights_norm", "bool", False
    yield f + "rope.dimension_count", "u32", ROPE
    yield f + "expert_count", "u32", EXPERTS
    yield f + "expert_used_count", "u32", 3
    yield f + "expert_shared_count", "u32", SHARED
    yield f + "expert_feed_forward_length", "u32", N_FF_EXPERT
    yield f + "expert_weights_scale", "f32", 1.5
    yield f + "rope.scaling.type", "string", "yarn"
    yield f + "rope.scaling.factor", "f32", 40.0
    yield f + "rope.scaling.original_context_length", "u32", 1024
    yield f + "rope.scaling.yarn_log_multiplier", "f32", 0.1 * 0.707
    yield from tokenizer


def as_q8_0(x):
    """(bytes, values they mean)."""
    blocks = x.reshape(-1, 32)
    d = (np.abs(blocks).max(1, keepdims=True) / 127).astype(np.float16)
    scale = d.astype(np.float32)
    q = np.clip(np.round(np.divide(blocks, scale, out=np.zeros_like(blocks), where=scale != 0)), -127, 127).astype(np.int8)
    return np.hstack([d.view(np.uint8), q.view(np.uint8)]).tobytes(), (q * scale).reshape(x.shape)


def as_q4_k(x):
    """The same: 8 x 32 values share d and dmin; a 32 has a 6-bit scale and a 6-bit minimum (never above zero)."""
    sub = x.reshape(-1, 8, 32)
    low = np.minimum(sub.min(2), 0)
    step = (sub.max(2) - low) / 15
    d = (step.max(1, keepdims=True) / 63).astype(np.float16)
    dmin = (-low.min(1, keepdims=True) / 63).astype(np.float16)
    divide = lambda a, b: np.divide(a, b, out=np.zeros_like(a), where=b != 0)
    scale = np.clip(np.round(divide(step, d.astype(np.float32))), 0, 63).astype(np.uint8)
    minimum = np.clip(np.round(divide(-low, dmin.astype(np.float32))), 0, 63).astype(np.uint8)
    a = (d.astype(np.float32) * scale)[:, :, None]
    b = (dmin.astype(np.float32) * minimum)[:, :, None]
    q = np.clip(np.round(divide(sub + b, np.broadcast_to(a, sub.shape))), 0, 15).astype(np.uint8)
    packed = np.zeros((len(sub), 12), np.uint8)
    for j in range(4):  # sub-blocks 0-3 whole in the low six bits; 4-7 as nibbles, their upper bits above those six
        packed[:, j] = scale[:, j] | scale[:, j + 4] >> 4 << 6
        packed[:, j + 4] = minimum[:, j] | minimum[:, j + 4] >> 4 << 6
        packed[:, j + 8] = scale[:, j + 4] & 15 | (minimum[:, j + 4] & 15) << 4
    nibbles = q[:, 0::2] | q[:, 1::2] << 4
    raw = np.hstack([d.view(np.uint8), dmin.view(np.uint8), packed, nibbles.reshape(len(sub), 128)])
    return raw.tobytes(), (a * q - b).reshape(x.shape)


def quantized(name, x):
    """(type, bytes, values) of a matrix; norms and routers stay F32, the embedding F16."""
    if x.ndim == 1 or "ffn_gate_inp" in name:
        return F32, x.astype("<f4").tobytes(), x
    if name == "token_embd":
        return F16, x.astype("<f2").tobytes(), x
    kind, encode = (Q4_K, as_q4_k) if x.shape[-1] % 256 == 0 else (Q8_0, as_q8_0)
    return (kind, *encode(x))


def build(name, exact, tokenizer):
    """The bytes of the GGUF file. `exact` rounds to values that both 16-bit formats hold; `tokenizer` are its keys."""
    legacy = name in ("deepseek2-legacy", "deepseek2-mixed")
    weights = dict(draw(exact))
    if "mixed" in name:
        encoded = {key: quantized(key, x) for key, x in weights.items()}
        weights = {key: values for key, (_, _, values) in encoded.items()}
    tensors = []
    for key, x in in_file_order(weights, legacy):
        kind, raw = F16, None
        if name == "deepseek2-mixed":
            kind, raw, _ = encoded[key.removesuffix(".weight")]
        elif x.ndim == 1 or "ffn_gate_inp" in key or name == "deepseek2-mixed-f32":
            kind = F32
        tensors.append((key, x.shape, kind, raw or x.astype("<f2" if kind == F16 else "<f4").tobytes()))
    return gguf_bytes(metadata(legacy, tokenizer), tensors)
