#!/usr/bin/env python3
"""Expected logits and greedy texts of tiny models that are ours alone: make_tiny_logits.py OUTPUT_FOLDER [--search] [mistral ...]

Not run by the tests: it needs transformers and torch (5.24 and 2.15 made what is in tests/data/logits). The weights of
scripts/make_tiny_models.py go into Hugging Face's model of the family, in double, without a cache; what transformers keeps
in float32 (norms, softmax, rotary tables) leaves about 1e-5 of noise in a logit. With --search: the first seed that leaves
a gap between the two best tokens at every step of the greedy text.
"""
import os
import sys

import numpy as np
import torch
import transformers as hf

import make_tiny_models as tiny

N_PROMPT, N_GREEDY = 8, 32
torch.set_num_threads(1)
TOKENS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "data", "logits", "tokens.i32")


def base(spec):
    return dict(vocab_size=tiny.N_VOCAB, hidden_size=tiny.N_EMBD, intermediate_size=tiny.N_FF, num_hidden_layers=spec["layers"],
                num_attention_heads=tiny.N_HEADS, num_key_value_heads=tiny.N_KV_HEADS, rms_norm_eps=spec["eps"],
                tie_word_embeddings=spec.get("tied", False), max_position_embeddings=tiny.N_CTX, bos_token_id=1, eos_token_id=2,
                pad_token_id=None, attn_implementation="eager", use_cache=False)


def mistral(spec):
    s = spec["llama3"]
    rope = dict(rope_type="llama3", rope_theta=spec["rope_base"], factor=s["factor"], low_freq_factor=s["low"],
                high_freq_factor=s["high"], original_max_position_embeddings=s["original"])
    config = hf.MistralConfig(**base(spec), head_dim=spec["head_dim"], sliding_window=spec["window"], rope_parameters=rope)
    return hf.MistralForCausalLM(config)


def smollm3(spec):
    s = spec["yarn"]
    rope = dict(rope_type="yarn", rope_theta=spec["rope_base"], factor=s["factor"], original_max_position_embeddings=s["original"])
    return hf.SmolLM3ForCausalLM(hf.SmolLM3Config(**base(spec), rope_parameters=rope, use_sliding_window=False))


def phi3(spec, original):
    """`original` decides between short and long factors, by the length of the text: we choose it so that one list holds."""
    short, long = (x.tolist() for x in tiny.longrope_factors(spec))
    rope = dict(rope_type="longrope", rope_theta=spec["rope_base"], short_factor=short, long_factor=long,
                factor=tiny.N_CTX / spec["longrope"]["original"], attention_factor=tiny.longrope_magnitude(spec),
                original_max_position_embeddings=original, partial_rotary_factor=spec["rotary"] / spec["head_dim"])
    config = hf.Phi3Config(**base(spec), sliding_window=spec["window"], rope_parameters=rope, original_max_position_embeddings=original)
    return hf.Phi3ForCausalLM(config)


VARIANTS = {
    "mistral": ("mistral", mistral),
    "smollm3": ("smollm3", smollm3),
    "phi3": ("phi3", lambda spec: phi3(spec, 4)),
    "phi3-short": ("phi3", lambda spec: phi3(spec, 2048)),
}


def state(spec):
    """The drawn tensors under Hugging Face's names."""
    model = tiny.draw(spec)
    names = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
             "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
             "ffn_down": "mlp.down_proj"}
    out = {"model.embed_tokens.weight": model["token_embd"], "model.norm.weight": model["output_norm"],
           "lm_head.weight": model.get("output", model["token_embd"])}
    for i, layer in enumerate(model["layers"]):
        named = {names[k]: x for k, x in layer.items()}
        if spec.get("fused"):
            named["self_attn.qkv_proj"] = np.concatenate([named.pop(f"self_attn.{x}_proj") for x in "qkv"])
            named["mlp.gate_up_proj"] = np.concatenate([named.pop("mlp.gate_proj"), named.pop("mlp.up_proj")])
        out.update({f"model.layers.{i}.{k}.weight": x for k, x in named.items()})
    return {k: torch.from_numpy(np.array(x)) for k, x in out.items()}


@torch.no_grad()
def logits(model, ids):
    return model(torch.tensor([ids]), use_cache=False).logits[0].double().numpy()


def greedy(model, ids):
    ids, gaps = list(ids), []
    for _ in range(N_GREEDY):
        z = logits(model, ids)[-1]
        second, first = np.argsort(z)[-2:]
        gaps.append(float(z[first] - z[second]))
        ids.append(int(first))
    return ids[N_PROMPT:], gaps


def run(name, seed=None):
    family, make = VARIANTS[name]
    spec = dict(tiny.FAMILIES[family])
    spec["seed"] = spec["seed"] if seed is None else seed
    model = make(spec)
    model.load_state_dict(state(spec), strict=True)
    model = model.double().eval()
    ids = [int(x) for x in np.fromfile(TOKENS, "<i4")]
    return ids, logits(model, ids), *greedy(model, ids[:N_PROMPT])


def main():
    args = [a for a in sys.argv[1:] if a != "--search"]
    if not args or any(name not in VARIANTS for name in args[1:]):
        sys.exit(__doc__)
    os.makedirs(args[0], exist_ok=True)
    for name in args[1:] or VARIANTS:
        if "--search" in sys.argv:
            for seed in range(1, 9):
                _, z, text, gaps = run(name, seed)
                print(name, "seed", seed, "smallest gap", min(gaps), "different tokens", len(set(text)), "std", z.std(), flush=True)
                if min(gaps) > 0.05 and len(set(text)) >= 10:
                    break
            continue
        ids, z, text, gaps = run(name)
        short = name == "phi3-short"  # holds as long as the context is not above the original one
        z[:tiny.FAMILIES["phi3"]["longrope"]["original"] if short else None].astype("<f4").tofile(os.path.join(args[0], name + ".f32"))
        if not short:
            with open(os.path.join(args[0], name + ".greedy.txt"), "w") as f:
                for row in (ids[:N_PROMPT], text, [round(x, 5) for x in gaps]):
                    f.write(" ".join(map(str, row)) + "\n")
        print(name, "logits", z.shape, "std", z.std(), "smallest gap", min(gaps))


if __name__ == "__main__":
    main()
