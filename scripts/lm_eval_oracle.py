#!/usr/bin/env python3
"""Write what transformers says about the tiny llama: lm_eval_oracle.py MODEL_FOLDER > tests/data/lm_eval/tiny_llama.json

Log-likelihoods of continuations as lm-evaluation-harness asks for them (sum of log-probabilities, and whether greedy
decoding would give them), and embeddings (mean and last row of the final norm's output, length 1). MODEL_FOLDER: the
weights of scripts/make_tiny_models.py's llama as a Hugging Face folder. Needs torch and transformers; computes in
float64.
"""
import json
import sys

import torch
from transformers import AutoModelForCausalLM


def main():
    model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float64, attn_implementation="eager").eval()
    generator = torch.Generator().manual_seed(4)
    ids = lambda n: torch.randint(3, 320, (n,), generator=generator).tolist()
    result = {"loglikelihoods": [], "embeddings": []}
    with torch.no_grad():
        for n_context, n_continuation in ((1, 1), (5, 3), (17, 1), (40, 12), (33, 16), (90, 7)):
            context, continuation = [1] + ids(n_context - 1), ids(n_continuation)
            if n_continuation == 3:  # one that greedy decoding would give
                continuation = model.generate(torch.tensor([context]), max_new_tokens=3, do_sample=False, eos_token_id=None, pad_token_id=0)[0, len(context):].tolist()
            row = torch.log_softmax(model(torch.tensor([context + continuation])).logits[0], -1)
            scored = row[len(context) - 1:-1]
            chosen = torch.tensor(continuation)
            result["loglikelihoods"].append({
                "context": context, "continuation": continuation,
                "loglikelihood": scored.gather(1, chosen[:, None]).sum().item(), "is_greedy": bool((scored.argmax(-1) == chosen).all())})
        for n in (1, 9, 70):
            tokens = [1] + ids(n - 1)
            hidden = model.model(torch.tensor([tokens])).last_hidden_state[0]
            entry = {"tokens": tokens}
            for name, row in (("mean", hidden.mean(0)), ("last", hidden[-1])):
                entry[name] = [float(f"{x:.6g}") for x in (row / row.norm()).tolist()]
            result["embeddings"].append(entry)
    for value in result.values():
        for i, entry in enumerate(value):
            value[i] = json.dumps(entry, separators=(",", ":"))
    print("{" + ",\n".join(f'"{k}":[\n' + ",\n".join(v) + "\n]" for k, v in result.items()) + "}")


if __name__ == "__main__":
    main()
