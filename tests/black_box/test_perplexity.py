"""`troupe perplexity` of the real models beside llama-perplexity's figures (tests/data/real/perplexity.json).

TROUPE_PERPLEXITY_CHUNKS: how many of the 8 chunks (scripts/correctness takes all).
"""
import json
import math
import os
import re
import subprocess
import unittest

from support import BINARY, CACHE, SOURCE, record_figure

DATA = os.path.join(SOURCE, "tests", "data", "real")
CHUNKS = int(os.environ.get("TROUPE_PERPLEXITY_CHUNKS", "2"))


class Perplexity(unittest.TestCase):
    def check(self, name):
        """Within 1 % of llama-perplexity's after every chunk."""
        with open(os.path.join(DATA, "perplexity.json")) as f:
            expected = json.load(f)[name]
        r = subprocess.run([BINARY, "perplexity", "-m", os.path.join(CACHE, "models", name + ".gguf"), "-f", os.path.join(DATA, "prose.txt"),
                            "-c", "512", "--chunks", str(CHUNKS)], capture_output=True, text=True)
        self.assertEqual(r.returncode, 0, r.stderr)
        ours = [float(v) for v in re.findall(r"\[\d+\](\d+\.\d+),", r.stdout)]
        self.assertEqual(len(ours), CHUNKS)
        for value, theirs in zip(ours, expected["llama_cpp"]):
            self.assertLess(abs(math.log(value / theirs)), 0.01, (ours, expected))
        theirs = expected["llama_cpp"][CHUNKS - 1]
        record_figure("Perplexity", f"{name}, {CHUNKS} chunks of 512 tokens of prose.txt", f"PPL {ours[-1]:.4f}, llama-perplexity {theirs:.4f}",
                      "within 1 % after every chunk")

    def test_smollm2(self):
        self.check("smollm2")

    def test_gemma3(self):
        self.check("gemma3-270m")


if __name__ == "__main__":
    unittest.main()
