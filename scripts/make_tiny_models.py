#!/usr/bin/env python3
"""Write the tiny random-weight models of the golden tests: make_tiny_models.py OUTPUT_FOLDER [llama | gemma3 ...]

Weights come from numpy's PCG64 stream by a fixed seed and are rounded to values that float16 and bfloat16 both hold, so
that one set of numbers is the same model in either type. The expected logits in tests/data/logits were computed from
exactly these weights; the checksums below prove that the files are the same, byte for byte. Needs numpy only.
"""
import hashlib
import os
import sys

import numpy as np

from gguf_bytes import F16, F32, gguf_bytes

N_EMBD, N_FF, N_HEADS, N_KV_HEADS, N_VOCAB = 256, 512, 4, 2, 320

# seed: no top-2 gap of the greedy text is small; q_gain and the norm means: attention is neither flat nor one-hot
FAMILIES = {
    "llama": dict(seed=3, layers=4, head_dim=64, rope_base=1e4, eps=1e-5, q_gain=1.5, embd_gain=3.0,
                  sha256="76c436e65db31888b1ffe87b73b445fe7709d45c8df40f2c05fc4a9a9262f77f"),
    "gemma3": dict(seed=5, layers=6, head_dim=128, rope_base=1e6, eps=1e-6, q_gain=1.0, embd_gain=1.0, window=16, rope_factor=8.0,
                   sha256="c4294f1bac30329e619e84873b6f3711cdd9ccea23983ff93a5f33213d43144d"),
}


def to_both_halves(x):
    """Round to float16, then to bfloat16 (nearest even): what is left is exact in both."""
    half = np.asarray(x, np.float32).astype(np.float16).astype(np.float32)
    bits = half.view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)
    assert np.array_equal(rounded.astype(np.float16).astype(np.float32), rounded)
    return rounded


class Weights:
    """Draws tensors in a fixed order, which is part of the definition of the models."""

    def __init__(self, family, spec):
        self.rng = np.random.default_rng(spec["seed"])
        self.gemma = family == "gemma3"

    def matrix(self, rows, cols, gain=1.0):
        return to_both_halves(self.rng.standard_normal((rows, cols)) * gain / np.sqrt(float(cols)))

    def norm(self, n, mean=1.0):
        x = mean + 0.25 * self.rng.standard_normal(n)
        if not self.gemma:
            return to_both_halves(x)
        # Gemma checkpoints hold w - 1; on a grid of 1/64 adding the 1 for GGUF is exact
        return to_both_halves(np.round((x - 1) * 64) / 64) + np.float32(1)

    def mirrored_norm(self, n):
        """Gemma's output norm with random signs: else a tied head would repeat the last token."""
        x = np.round((3.5 + 0.25 * self.rng.standard_normal(n)) * self.rng.choice([-1, 1], n) * 64) / 64
        return to_both_halves(np.round((x - 1) * 16) / 16) + np.float32(1)


def adjacent_pairs(w, n_heads):
    """Rows of a head from (i, i + d/2) rotary pairs to (2i, 2i + 1), as llama GGUFs store q and k."""
    d = w.shape[0] // n_heads
    return np.ascontiguousarray(w.reshape(n_heads, 2, d // 2, -1).transpose(0, 2, 1, 3).reshape(w.shape))


def draw_layer(w, family, spec):
    """Tensors of one layer in the order of the random stream."""
    gemma, d = w.gemma, spec["head_dim"]
    t = {"attn_norm": w.norm(N_EMBD)}
    t["attn_q"] = w.matrix(N_HEADS * d, N_EMBD, spec["q_gain"])
    t["attn_k"] = w.matrix(N_KV_HEADS * d, N_EMBD, spec["q_gain"])
    t["attn_v"] = w.matrix(N_KV_HEADS * d, N_EMBD)
    t["attn_output"] = w.matrix(N_EMBD, N_HEADS * d, 2.0)
    if gemma:
        t["attn_q_norm"] = w.norm(d, 1.4)
        t["attn_k_norm"] = w.norm(d, 1.4)
        t["post_attention_norm"] = w.norm(N_EMBD, 2.5)
        t["ffn_norm"] = w.norm(N_EMBD)
        t["post_ffw_norm"] = w.norm(N_EMBD, 2.5)
    else:
        t["ffn_norm"] = w.norm(N_EMBD)
        t["attn_q"] = adjacent_pairs(t["attn_q"], N_HEADS)
        t["attn_k"] = adjacent_pairs(t["attn_k"], N_KV_HEADS)
    t["ffn_gate"] = w.matrix(N_FF, N_EMBD, 1.3)
    t["ffn_up"] = w.matrix(N_FF, N_EMBD, 1.3)
    t["ffn_down"] = w.matrix(N_EMBD, N_FF, 1.5)
    return t


FILE_ORDER = {
    "llama": "attn_norm attn_q attn_k attn_v attn_output ffn_norm ffn_gate ffn_up ffn_down",
    "gemma3": "attn_norm attn_q attn_k attn_v attn_q_norm attn_k_norm attn_output post_attention_norm ffn_norm post_ffw_norm "
              "ffn_gate ffn_up ffn_down",
}


def tensors(family, spec):
    """(name, float32 array) in file order."""
    w = Weights(family, spec)
    embedding = w.matrix(N_VOCAB, N_EMBD, spec["embd_gain"])
    layers = [draw_layer(w, family, spec) for _ in range(spec["layers"])]
    output_norm = w.mirrored_norm(N_EMBD) if w.gemma else w.norm(N_EMBD)
    yield "token_embd.weight", embedding
    yield "output_norm.weight", output_norm
    if not w.gemma:
        yield "output.weight", w.matrix(N_VOCAB, N_EMBD, 3.0)
    for i, layer in enumerate(layers):
        for name in FILE_ORDER[family].split():
            yield f"blk.{i}.{name}.weight", layer[name]


def vocabulary():
    """A byte-complete SentencePiece-style vocabulary: pieces, scores, token types."""
    longer = "_t he _a in _the er an on _s re nd _w at ou is or en _to it _c es _b ed _and ing ll _m _f _p _of".split()
    words = ["_"] + [chr(c) for c in range(ord("a"), ord("z") + 1)] + longer + [".", ",", "A", "\u4e2d"]
    words = [x.replace("_", "\u2581") for x in words]
    assert len(words) == N_VOCAB - 259
    # scores rank the merges: longer pieces first, single characters last
    ranked = sorted(words, key=lambda x: len(x) == 1)
    pieces = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + words
    scores = [0.0] * 259 + [-1.0 - ranked.index(x) for x in words]
    return pieces, scores, [2, 3, 3] + [6] * 256 + [1] * len(words)


def metadata(family, spec):
    """(key, GGUF type, value) in file order."""
    f = family + "."
    yield "general.architecture", "string", family
    yield "general.name", "string", f"tiny random {family}"
    yield "general.file_type", "u32", 1
    yield f + "context_length", "u32", 4096
    yield f + "embedding_length", "u32", N_EMBD
    yield f + "block_count", "u32", spec["layers"]
    yield f + "feed_forward_length", "u32", N_FF
    yield f + "attention.head_count", "u32", N_HEADS
    yield f + "attention.layer_norm_rms_epsilon", "f32", spec["eps"]
    yield f + "rope.freq_base", "f32", spec["rope_base"]
    yield f + "vocab_size", "u32", N_VOCAB
    yield f + "attention.head_count_kv", "u32", N_KV_HEADS
    if family == "gemma3":
        yield f + "attention.key_length", "u32", spec["head_dim"]
        yield f + "attention.value_length", "u32", spec["head_dim"]
        yield f + "attention.sliding_window", "u32", spec["window"]
        yield f + "rope.scaling.type", "string", "linear"
        yield f + "rope.scaling.factor", "f32", spec["rope_factor"]
    else:
        yield f + "rope.dimension_count", "u32", spec["head_dim"]
    pieces, scores, kinds = vocabulary()
    t = "tokenizer.ggml."
    yield t + "model", "string", "llama"
    yield t + "pre", "string", "default"
    yield t + "tokens", "strings", pieces
    yield t + "scores", "f32s", scores
    yield t + "token_type", "i32s", kinds
    yield t + "bos_token_id", "u32", 1
    yield t + "eos_token_id", "u32", 2
    yield t + "unknown_token_id", "u32", 0
    yield t + "add_bos_token", "bool", True
    yield t + "add_eos_token", "bool", False
    yield t + "add_space_prefix", "bool", True


def build(family):
    """The bytes of the GGUF file: norms as F32, matrices as F16."""
    spec = FAMILIES[family]

    def stored(name, x):
        if x.ndim == 1:
            return name, x.shape, F32, x.astype("<f4").tobytes()
        return name, x.shape, F16, x.astype("<f2").tobytes()

    return gguf_bytes(metadata(family, spec), [stored(name, x) for name, x in tensors(family, spec)])


def main():
    if len(sys.argv) < 2 or any(name not in FAMILIES for name in sys.argv[2:]):
        sys.exit(__doc__)
    os.makedirs(sys.argv[1], exist_ok=True)
    for family in sys.argv[2:] or FAMILIES:
        data = build(family)
        found = hashlib.sha256(data).hexdigest()
        if found != FAMILIES[family]["sha256"]:
            sys.exit(f"make_tiny_models: {family} came out as {found}, not {FAMILIES[family]['sha256']}: numpy draws another stream?")
        path = os.path.join(sys.argv[1], family + ".gguf")
        with open(path + ".part", "wb") as f:
            f.write(data)
        os.replace(path + ".part", path)
        print(f"{path}: {len(data)} bytes, checksum as expected")


if __name__ == "__main__":
    main()
