#!/usr/bin/env python3
"""Write the tiny random-weight models of the golden tests: make_tiny_models.py OUTPUT_FOLDER [llama | gemma3 ...]

Each family is written as a GGUF file and as a Hugging Face folder (tiny_folders.py) of the same weights.

Weights come from numpy's PCG64 stream by a fixed seed and are rounded to values that float16 and bfloat16 both hold, so
that one set of numbers is the same model in either type. The expected logits in tests/data/logits were computed from
exactly these weights; the checksums below prove that the files are the same, byte for byte. Needs numpy only.
"""
import hashlib
import math
import os
import sys

import numpy as np

import tiny_deepseek2
import tiny_folders
from gguf_bytes import F16, F32, gguf_bytes

N_EMBD, N_FF, N_HEADS, N_KV_HEADS, N_VOCAB, N_CTX = 256, 512, 4, 2, 320, 4096

# seed: no top-2 gap of the greedy text is small; q_gain and the norm means: attention is neither flat nor one-hot.
# "mistral" is a llama with a window and Llama 3.1's frequencies, "smollm3" has YaRN, "phi3" rotates 48 of 64 values and
# has factors for contexts up to 32 and beyond.
FAMILIES = {
    "llama": dict(arch="llama", seed=3, layers=4, head_dim=64, rope_base=1e4, eps=1e-5, q_gain=1.5, rotary=64, adjacent=True,
                  sha256="76c436e65db31888b1ffe87b73b445fe7709d45c8df40f2c05fc4a9a9262f77f"),
    "mistral": dict(arch="llama", seed=4, layers=4, head_dim=64, rope_base=1e4, eps=1e-5, q_gain=1.5, rotary=64, adjacent=True,
                    window=16, llama3=dict(factor=8.0, low=1.0, high=4.0, original=64),
                    sha256="d4955c91581c863f0db701d54388836ede0d30bbe0c0d9e8f2d3afbeb6bc2a1a"),
    "smollm3": dict(arch="smollm3", seed=7, layers=4, head_dim=64, rope_base=1e4, eps=1e-6, q_gain=1.5, rotary=64, adjacent=True,
                    tied=True, yarn=dict(factor=8.0, original=64),
                    sha256="18c4edc89bd3e513bd979f3ff188ce77e95cd061b94d554bacfa22297a62c037"),
    "qwen2": dict(arch="qwen2", seed=8, layers=4, head_dim=64, rope_base=1e6, eps=1e-6, q_gain=1.4, tied=True, biases=True,
                  sha256="159ce4359064e1da69a93eaf4752344bc6003eabbe8afaa9bd4db765e034d70e"),
    "qwen3": dict(arch="qwen3", seed=8, layers=4, head_dim=128, rope_base=1e6, eps=1e-6, q_gain=1.0, key_length=True, head_norms=True,
                  sha256="5dfaef4ddc9b11bd484686e8c98ff9c6a34d9eb1fea5f7ccffcac67fd9b48dd8"),
    "gemma2": dict(arch="gemma2", seed=5, layers=4, head_dim=128, rope_base=1e4, eps=1e-6, q_gain=1.8, key_length=True, tied=True,
                   gemma=True, window=16, attn_cap=6.0, final_cap=12.0,
                   sha256="0883c827b06b4e0a512f9442ea9fa22c184ec5369f26c95a10b4dca2fdce0149"),
    "gemma3": dict(arch="gemma3", seed=5, layers=6, head_dim=128, rope_base=1e6, eps=1e-6, q_gain=1.0, key_length=True, tied=True,
                   gemma=True, head_norms=True, window=16, linear=8.0,
                   sha256="c4294f1bac30329e619e84873b6f3711cdd9ccea23983ff93a5f33213d43144d"),
    "phi3": dict(arch="phi3", seed=1, layers=4, head_dim=64, rope_base=1e4, eps=1e-5, q_gain=1.0, rotary=48, fused=True,
                 window=16, longrope=dict(original=32),
                 sha256="fc29affe98fda74122704b04fe112a5e0d00a10a6d667dcbac6117493d6202eb"),
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

    def __init__(self, spec):
        self.rng = np.random.default_rng(spec["seed"])
        self.gemma = spec.get("gemma", False)

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


def draw_layer(w, spec):
    """Tensors of one layer, rotary pairs half-split, in the order of the random stream."""
    gemma, d = w.gemma, spec["head_dim"]
    t = {"attn_norm": w.norm(N_EMBD)}
    t["attn_q"] = w.matrix(N_HEADS * d, N_EMBD, spec["q_gain"])
    t["attn_k"] = w.matrix(N_KV_HEADS * d, N_EMBD, spec["q_gain"])
    t["attn_v"] = w.matrix(N_KV_HEADS * d, N_EMBD)
    t["attn_output"] = w.matrix(N_EMBD, N_HEADS * d, 2.0)
    if spec.get("biases"):
        for name in ("attn_q", "attn_k", "attn_v"):
            t[name + ".bias"] = to_both_halves(0.5 * w.rng.standard_normal(t[name].shape[0]))
    if spec.get("head_norms"):
        t["attn_q_norm"] = w.norm(d, 1.4)
        t["attn_k_norm"] = w.norm(d, 1.4)
    if gemma:
        t["post_attention_norm"] = w.norm(N_EMBD, 2.5)
    t["ffn_norm"] = w.norm(N_EMBD)
    if gemma:
        t["post_ffw_norm"] = w.norm(N_EMBD, 2.5)
    t["ffn_gate"] = w.matrix(N_FF, N_EMBD, 1.3)
    t["ffn_up"] = w.matrix(N_FF, N_EMBD, 1.3)
    t["ffn_down"] = w.matrix(N_EMBD, N_FF, 1.5)
    return t


def draw(spec):
    """The whole model: {"token_embd", "output_norm", "output" unless tied, "layers": [layer]}."""
    w = Weights(spec)
    model = {"token_embd": w.matrix(N_VOCAB, N_EMBD, 1.0 if w.gemma else 3.0)}
    model["layers"] = [draw_layer(w, spec) for _ in range(spec["layers"])]
    model["output_norm"] = w.mirrored_norm(N_EMBD) if w.gemma else w.norm(N_EMBD)
    if not spec.get("tied"):
        model["output"] = w.matrix(N_VOCAB, N_EMBD, 3.0)
    return model


def llama3_divisors(spec):
    """By what each rotary frequency is divided: 1 for short waves, the factor for long ones, mixed in between."""
    scaling, d = spec["llama3"], spec["rotary"]
    turns = scaling["original"] / (2 * math.pi * spec["rope_base"] ** (np.arange(0, d, 2) / d))
    kept = np.clip((turns - scaling["low"]) / (scaling["high"] - scaling["low"]), 0, 1)
    return (1 / ((1 - kept) / scaling["factor"] + kept)).astype(np.float32)


def longrope_factors(spec):
    """Short and long factors, one a rotary frequency."""
    i = np.arange(spec["rotary"] // 2, dtype=np.float32)
    return 1 + i / 64, 1 + i * i / 4


def longrope_magnitude(spec):
    original = spec["longrope"]["original"]
    return math.sqrt(1 + math.log(N_CTX / original) / math.log(original))


FILE_ORDER = ("attn_norm attn_qkv attn_q attn_q.bias attn_k attn_k.bias attn_v attn_v.bias attn_q_norm attn_k_norm attn_output "
              "post_attention_norm ffn_norm post_ffw_norm ffn_gate ffn_up ffn_down").split()


def tensors(spec):
    """(name, float32 array) in file order."""
    model = draw(spec)
    if "llama3" in spec:
        yield "rope_freqs.weight", llama3_divisors(spec)
    if "longrope" in spec:
        short, long = longrope_factors(spec)
        yield "rope_factors_long.weight", long
        yield "rope_factors_short.weight", short
    for name in ("token_embd", "output_norm", "output"):
        if name in model:
            yield name + ".weight", model[name]
    for i, layer in enumerate(model["layers"]):
        if spec.get("adjacent"):
            layer["attn_q"] = adjacent_pairs(layer["attn_q"], N_HEADS)
            layer["attn_k"] = adjacent_pairs(layer["attn_k"], N_KV_HEADS)
        if spec.get("fused"):
            layer["attn_qkv"] = np.concatenate([layer.pop("attn_" + x) for x in "qkv"])
            layer["ffn_up"] = np.concatenate([layer.pop("ffn_gate"), layer["ffn_up"]])
        for name in FILE_ORDER:
            if name in layer:
                yield f"blk.{i}.{name}" + ("" if "." in name else ".weight"), layer[name]


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


def metadata(name, spec):
    """(key, GGUF type, value) in file order."""
    f = spec["arch"] + "."
    yield "general.architecture", "string", spec["arch"]
    yield "general.name", "string", f"tiny random {name}"
    yield "general.file_type", "u32", 1
    yield f + "context_length", "u32", N_CTX
    yield f + "embedding_length", "u32", N_EMBD
    yield f + "block_count", "u32", spec["layers"]
    yield f + "feed_forward_length", "u32", N_FF
    yield f + "attention.head_count", "u32", N_HEADS
    yield f + "attention.layer_norm_rms_epsilon", "f32", spec["eps"]
    yield f + "rope.freq_base", "f32", spec["rope_base"]
    yield f + "vocab_size", "u32", N_VOCAB
    yield f + "attention.head_count_kv", "u32", N_KV_HEADS
    if spec.get("key_length"):
        yield f + "attention.key_length", "u32", spec["head_dim"]
        yield f + "attention.value_length", "u32", spec["head_dim"]
    if "rotary" in spec:
        yield f + "rope.dimension_count", "u32", spec["rotary"]
    if "window" in spec:
        yield f + "attention.sliding_window", "u32", spec["window"]
    if "attn_cap" in spec:
        yield f + "attn_logit_softcapping", "f32", spec["attn_cap"]
        yield f + "final_logit_softcapping", "f32", spec["final_cap"]
    if "linear" in spec:
        yield f + "rope.scaling.type", "string", "linear"
        yield f + "rope.scaling.factor", "f32", spec["linear"]
    if "yarn" in spec:
        yield f + "rope.scaling.type", "string", "yarn"
        yield f + "rope.scaling.factor", "f32", spec["yarn"]["factor"]
        yield f + "rope.scaling.original_context_length", "u32", spec["yarn"]["original"]
    if "longrope" in spec:  # real files have no rope.scaling.type: the tensors say it
        yield f + "rope.scaling.original_context_length", "u32", spec["longrope"]["original"]
        yield f + "rope.scaling.attn_factor", "f32", longrope_magnitude(spec)
    yield from tokenizer_metadata()


def tokenizer_metadata():
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


def build(name):
    """The bytes of the GGUF file: norms, biases and factors as F32, matrices as F16."""
    spec = FAMILIES[name]

    def stored(tensor, x):
        if x.ndim == 1:
            return tensor, x.shape, F32, x.astype("<f4").tobytes()
        return tensor, x.shape, F16, x.astype("<f2").tobytes()

    return gguf_bytes(metadata(name, spec), [stored(tensor, x) for tensor, x in tensors(spec)])


def build_folders(name, folder):
    with open(os.path.join(os.path.dirname(__file__), "..", "tests", "data", "tokenizers", "tiny-tokenizer.json"), "rb") as f:
        tokenizer = f.read()
    if name == "deepseek2":
        weights = tiny_folders.deepseek2_checkpoint(dict(tiny_deepseek2.draw(to_both_halves)))
        settings = tiny_folders.deepseek2_config(tiny_deepseek2)
    else:
        spec = FAMILIES[name]
        sizes = dict(vocab=N_VOCAB, embd=N_EMBD, ff=N_FF, heads=N_HEADS, kv_heads=N_KV_HEADS, ctx=N_CTX)
        settings = tiny_folders.config(name, spec, sizes)
        if "longrope" in spec:
            short, long = longrope_factors(spec)
            settings["original_max_position_embeddings"] = spec["longrope"]["original"]
            settings["rope_scaling"] = {"type": "longrope", "short_factor": short.tolist(), "long_factor": long.tolist()}
        weights = tiny_folders.checkpoint(spec, draw(spec))
    bf16 = {key: tiny_folders.as_bf16(x) for key, x in weights.items()}
    tiny_folders.write_folder(os.path.join(folder, name + "-bf16"), bf16, settings, tokenizer)
    if name in tiny_folders.AWQ_PLAIN:
        plain = tiny_folders.AWQ_PLAIN[name]
        packed = tiny_folders.awq_tensors(weights, [*plain, ".mlp.gate."])
        tiny_folders.write_folder(os.path.join(folder, name + "-awq"), packed, settings, tokenizer, tiny_folders.awq_config(plain))


def main():
    expected = {name: spec["sha256"] for name, spec in FAMILIES.items()} | tiny_deepseek2.SHA256
    if len(sys.argv) < 2 or any(name not in expected for name in sys.argv[2:]):
        sys.exit(__doc__)
    os.makedirs(sys.argv[1], exist_ok=True)
    for family in sys.argv[2:] or expected:
        data = build(family) if family in FAMILIES else tiny_deepseek2.build(family, to_both_halves, tokenizer_metadata())
        found = hashlib.sha256(data).hexdigest()
        if found != expected[family]:
            sys.exit(f"make_tiny_models: {family} came out as {found}, not {expected[family]}: numpy draws another stream?")
        path = os.path.join(sys.argv[1], family + ".gguf")
        with open(path + ".part", "wb") as f:
            f.write(data)
        os.replace(path + ".part", path)
        print(f"{path}: {len(data)} bytes, checksum as expected")
        if family in FAMILIES or family == "deepseek2":
            build_folders(family, os.path.join(sys.argv[1], "hf"))


if __name__ == "__main__":
    main()
