"""generate, bench and inspect from outside."""
import json
import os
import subprocess
import tempfile
import unittest

from support import BINARY, SMOLLM2, TINY


def run(*words):
    r = subprocess.run([BINARY, *words], capture_output=True, text=True, timeout=100)
    assert r.returncode == 0, r.stderr[-2000:]
    return r.stdout


class CommandLine(unittest.TestCase):
    def test_generate(self):
        prompt = "<|im_start|>user\nWhat is the capital of Germany?<|im_end|>\n<|im_start|>assistant\n"
        text = run("generate", "-m", SMOLLM2, "-p", prompt, "-n", "16", "--temperature", "0")
        self.assertIn("Berlin", text)
        self.assertEqual(text, run("generate", "-m", SMOLLM2, "-p", prompt, "-n", "16", "--temperature", "0", "-t", "1"))
        seeded = ["generate", "-m", SMOLLM2, "-p", "Once", "-n", "12", "--temperature", "1.5", "--seed"]
        self.assertEqual(run(*seeded, "5"), run(*seeded, "5"))

    def test_deepseek2(self):
        """Both forms of latent attention through the whole executor; the plan names the latents."""
        forms = [TINY.replace("llama.gguf", name) for name in ("deepseek2.gguf", "deepseek2-legacy.gguf")]
        texts = [run("generate", "-m", form, "-p", "the", "-n", "24", "--temperature", "1", "--seed", "3") for form in forms]
        self.assertGreater(len(texts[0]), 10)
        self.assertEqual(texts[0], texts[1])
        groups = json.loads(run("inspect", forms[1], "--plan", "-c", "1000", "--json"))["plan"]["kv_groups"]
        self.assertEqual(groups, [{"window": 0, "layers": 4, "latent": 224, "block_bytes": 4 * 16 * 224 * 2}])

    def test_inspect(self):
        facts = json.loads(run("inspect", TINY, "--json"))
        self.assertEqual(facts["model"]["architecture"], "llama")
        self.assertEqual(facts["model"]["n_layers"], 4)
        self.assertGreater(facts["plan"]["total_bytes"], 0)
        self.assertIn("blk.0.attn_q.weight", run("inspect", TINY, "--plan"))

    def test_bench(self):
        table = run("bench", "-m", TINY, "-p", "32,64", "-n", "8", "-r", "2", "-t", "1")
        for name in ("pp32", "pp64", "tg8"):
            self.assertIn(f"| {name} |", table)
        rows = json.loads(run("bench", "-m", TINY, "-p", "16", "-n", "4", "-pg", "16,4", "-r", "2", "-o", "json"))
        self.assertEqual([(r["n_prompt"], r["n_gen"]) for r in rows], [(16, 0), (0, 4), (16, 4)])
        for r in rows:
            self.assertEqual(len(r["samples_ns"]), 2)
            self.assertGreater(r["avg_ts"], 0)

    def test_quantize(self):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "out.gguf")
            text = run("quantize", TINY, out, "q4_k_m", "2")
            self.assertIn("converting to q6_k", text)
            self.assertRegex(text, r"quant size  = +\d+\.\d+ MiB \(\d\.\d\d BPW\)")
            self.assertIn("general.file_type = 15", run("inspect", out))
            run("generate", "-m", out, "-p", "abc", "-n", "2", "--temperature", "0")
            run("quantize", "--tensor-type", "attn_q=q8_0", "--pure", TINY, out, "Q4_0")
            self.assertRegex(run("inspect", out), r"blk\.0\.attn_q\.weight +q8_0")
            run("quantize", out, os.path.join(folder, "copy.gguf"), "COPY")
            os.remove(out)
            for words, code in ((["nothing.gguf", out, "Q4_0"], 4), ([TINY, out, "Q9_X"], 2), ([TINY, out, "Q4_0", "-1"], 2),
                                ([TINY, os.path.join(folder, "no", "out.gguf"), "Q4_0"], 1),
                                ([os.path.join(folder, "copy.gguf"), out, "Q8_0"], 4),
                                (["--imatrix", TINY, TINY, out, "Q4_0"], 4), ([TINY], 2)):
                r = subprocess.run([BINARY, "quantize", *words], capture_output=True, text=True, timeout=60)
                self.assertEqual(r.returncode, code, (words, r.stderr))
                self.assertTrue(r.stderr.startswith("troupe: "), r.stderr)
            self.assertEqual(os.listdir(folder), ["copy.gguf"])

    def test_version_and_help(self):
        self.assertRegex(run("--version"), r"^\d+\.\d+\.\d+")
        self.assertIn("--kv-type", run("serve", "--help"))
        self.assertIn("queue_limit = 64", run("serve", "--print-default-config"))


if __name__ == "__main__":
    unittest.main()
