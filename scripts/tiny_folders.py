"""Hugging Face folders of the models of make_tiny_models.py: bf16 safetensors with the same weights, and AWQ 4-bit ones.

Checkpoints keep rotary pairs half-split and Gemma's norms as w - 1. config.json is in the older style of published
checkpoints. The checksums cover model.safetensors; those given are the ones of the goldens the logits come from.
"""
import hashlib
import json
import os
import struct

import numpy as np

AWQ_GROUP = 64
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # column 8c + AWQ_ORDER[i] is in bits 4i..4i+3 of word c

SHA256 = {
    "llama-bf16": "2214e8773599ecdd3dde9fd00133c1dd059d1c949712a14cbd70e740b7bc914a",
    "llama-awq": "84223814aeba8eda2b6c275b2c4b8cf61f25503469326d83aa614b9f8ed76958",
    "deepseek2-bf16": "1f1194f9173e5c1726bc63cae712179cee0d97a9d3d2d9e0d0526c86b4b311e2",
    "deepseek2-awq": "45b408cf6834d8ca0c1bb74c90cab75238c1e483517cea68452583df6de372a4",
}
AWQ_PLAIN = {"llama": [], "deepseek2": ["kv_a_proj_with_mqa"]}  # modules the quantizer left alone

OUTER = {"token_embd": "model.embed_tokens.weight", "output_norm": "model.norm.weight", "output": "lm_head.weight"}
LAYER = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_qkv": "self_attn.qkv_proj", "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_gate_up": "mlp.gate_up_proj", "ffn_down": "mlp.down_proj",
}
GEMMA = {"post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm",
         "post_ffw_norm": "post_feedforward_layernorm"}


def checkpoint(spec, model):
    """{Hugging Face name: float32 array}"""
    gemma = spec.get("gemma", False)

    def stored(name, x):
        return x - np.float32(1) if gemma and "norm" in name else x

    w = {hf: stored(name, model[name]) for name, hf in OUTER.items() if name in model}
    for i, layer in enumerate(model["layers"]):
        if spec.get("fused"):
            layer["attn_qkv"] = np.concatenate([layer.pop("attn_" + x) for x in "qkv"])
            layer["ffn_gate_up"] = np.concatenate([layer.pop("ffn_gate"), layer.pop("ffn_up")])
        for name, x in layer.items():
            base, _, suffix = name.partition(".")
            hf = GEMMA[base] if gemma and base in GEMMA else LAYER[base]
            w[f"model.layers.{i}.{hf}.{suffix or 'weight'}"] = stored(name, x)
    return w


DEEPSEEK2 = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa",
    "attn_kv_a_norm": "self_attn.kv_a_layernorm", "attn_kv_b": "self_attn.kv_b_proj", "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm", "ffn_gate_inp": "mlp.gate",
}


def deepseek2_checkpoint(weights):
    """{Hugging Face name: array} from GGUF names without ".weight"; experts one by one."""
    w = {}
    for name, x in weights.items():
        if name in OUTER:
            w[OUTER[name]] = x
            continue
        _, layer, rest = name.split(".")
        p = f"model.layers.{layer}."
        part = rest.removesuffix("_exps").removesuffix("_shexp").removeprefix("ffn_") + "_proj.weight"
        if rest in DEEPSEEK2:
            w[p + DEEPSEEK2[rest] + ".weight"] = x
        elif rest.endswith("_exps"):
            w.update({f"{p}mlp.experts.{e}.{part}": x[e] for e in range(len(x))})
        else:
            w[p + ("mlp.shared_experts." if rest.endswith("_shexp") else "mlp.") + part] = x
    return w


def deepseek2_config(m):
    """`m`: the module tiny_deepseek2."""
    return {"model_type": "deepseek_v2", "vocab_size": m.N_VOCAB, "hidden_size": m.N_EMBD, "intermediate_size": m.N_FF,
            "num_hidden_layers": m.N_LAYERS, "num_attention_heads": m.N_HEADS, "num_key_value_heads": m.N_HEADS, "hidden_act": "silu",
            "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "rope_theta": 1e4, "tie_word_embeddings": False,
            "rope_scaling": {"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 0.707, "mscale_all_dim": 0.707,
                             "original_max_position_embeddings": 1024},
            "q_lora_rank": None, "kv_lora_rank": m.LATENT, "qk_nope_head_dim": m.NOPE, "qk_rope_head_dim": m.ROPE,
            "v_head_dim": m.VALUE, "n_routed_experts": m.EXPERTS, "num_experts_per_tok": 3, "n_shared_experts": m.SHARED,
            "moe_intermediate_size": m.N_FF_EXPERT, "moe_layer_freq": 1, "first_k_dense_replace": 1, "routed_scaling_factor": 1.5,
            "norm_topk_prob": False, "scoring_func": "softmax", "topk_method": "greedy", "n_group": 1, "topk_group": 1,
            "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "bfloat16"}


def safetensors_bytes(tensors):
    """tensors: {name: (type, array)}. Larger alignment first, then by name, as the reference implementation writes them."""
    rank = {"I32": 0, "BF16": 1, "F16": 2}
    header, data, offset = {"__metadata__": {"format": "pt"}}, [], 0
    for name, (kind, x) in sorted(tensors.items(), key=lambda item: (rank[item[1][0]], item[0])):
        raw = np.ascontiguousarray(x).tobytes()
        header[name] = {"dtype": kind, "shape": list(x.shape), "data_offsets": [offset, offset + len(raw)]}
        data.append(raw)
        offset += len(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data)


def as_bf16(x):
    return "BF16", (np.ascontiguousarray(x, np.float32).view(np.uint32) >> 16).astype("<u2")


def as_f16(x):
    return "F16", x.astype("<f2")


def awq_quantize(w):
    """w [out, in] -> codes [in, out], zeros and float16 scales [in / group, out]; scales keep 7 bits, so that (q - z) * s is exact."""
    x = w.T.reshape(-1, AWQ_GROUP, w.shape[0]).astype(np.float64)
    low, high = np.minimum(x.min(1), 0), np.maximum(x.max(1), 0)
    fraction, exponent = np.frexp(np.maximum((high - low) / 15, 1e-4))
    s = np.ldexp(np.ceil(fraction * 128) / 128, exponent)
    z = np.clip(np.round(-low / s), 0, 15)
    q = np.clip(np.round(x / s[:, None]) + z[:, None], 0, 15)
    return q.reshape(w.shape[1], w.shape[0]), z, s


def awq_pack(codes):
    words = np.zeros((codes.shape[0], codes.shape[1] // 8), np.uint32)
    for i, column in enumerate(AWQ_ORDER):
        words |= codes[:, column::8].astype(np.uint32) << np.uint32(4 * i)
    return "I32", words


def awq_tensors(weights, plain):
    """`plain`: parts of the names of matrices that stay float16, beside everything outside the layers."""
    out = {}
    for name, x in weights.items():
        if not name.startswith("model.layers.") or x.ndim == 1 or any(part in name for part in plain):
            out[name] = as_f16(x)
            continue
        q, z, s = awq_quantize(x)
        stem = name[:-len("weight")]
        out[stem + "qweight"], out[stem + "qzeros"], out[stem + "scales"] = awq_pack(q), awq_pack(z), as_f16(s)
    return out


def rope_config(spec):
    if "llama3" in spec:
        s = spec["llama3"]
        return {"rope_type": "llama3", "factor": s["factor"], "low_freq_factor": s["low"], "high_freq_factor": s["high"],
                "original_max_position_embeddings": s["original"]}
    if "yarn" in spec:
        return {"type": "yarn", "factor": spec["yarn"]["factor"], "original_max_position_embeddings": spec["yarn"]["original"]}
    if "linear" in spec:
        return {"rope_type": "linear", "factor": spec["linear"]}
    return None


MODEL_TYPES = {"gemma3": "gemma3_text"}


def config(name, spec, sizes):
    gemma = spec.get("gemma", False)
    c = {"model_type": MODEL_TYPES.get(name, name), "vocab_size": sizes["vocab"], "hidden_size": sizes["embd"],
         "intermediate_size": sizes["ff"], "num_hidden_layers": spec["layers"], "num_attention_heads": sizes["heads"],
         "num_key_value_heads": sizes["kv_heads"], "head_dim": spec["head_dim"], "max_position_embeddings": sizes["ctx"],
         "rms_norm_eps": spec["eps"], "rope_theta": spec["rope_base"], "rope_scaling": rope_config(spec),
         "tie_word_embeddings": spec.get("tied", False), "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "bfloat16"}
    c["hidden_activation" if gemma else "hidden_act"] = "gelu_pytorch_tanh" if gemma else "silu"
    if "window" in spec:
        c["sliding_window"] = spec["window"]
    if gemma:
        c["query_pre_attn_scalar"] = spec["head_dim"]
    if "attn_cap" in spec:
        c.update(attn_logit_softcapping=spec["attn_cap"], final_logit_softcapping=spec["final_cap"])
    if name == "gemma3":
        c.update(rope_local_base_freq=1e4, sliding_window_pattern=6)
    if spec.get("rotary", spec["head_dim"]) != spec["head_dim"]:
        c["partial_rotary_factor"] = spec["rotary"] / spec["head_dim"]
    return c


def write_folder(path, tensors, settings, tokenizer, quantization=None):
    data = safetensors_bytes(tensors)
    found, wanted = hashlib.sha256(data).hexdigest(), SHA256.get(os.path.basename(path))
    if wanted and found != wanted:
        raise SystemExit(f"make_tiny_models: {path} came out as {found}, not {wanted}")
    os.makedirs(path, exist_ok=True)
    if quantization:
        settings = dict(settings, torch_dtype="float16", quantization_config=quantization)
    files = {"model.safetensors": data, "config.json": json.dumps(settings, indent=1).encode(), "tokenizer.json": tokenizer,
             "generation_config.json": b'{"bos_token_id": 1, "eos_token_id": 2}',
             "tokenizer_config.json": json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>",
                                                  "eos_token": "</s>", "unk_token": "<unk>", "add_bos_token": False}).encode()}
    for name, content in files.items():
        with open(os.path.join(path, name + ".part"), "wb") as f:
            f.write(content)
        os.replace(os.path.join(path, name + ".part"), os.path.join(path, name))
    print(f"{path}: {len(data)} bytes" + (", checksum as expected" if wanted else ""))


def awq_config(plain):
    return {"quant_method": "awq", "bits": 4, "group_size": AWQ_GROUP, "version": "gemm", "zero_point": True,
            "modules_to_not_convert": plain or None}
