"""generate, bench, perplexity and inspect from outside."""
import json
import os
import re
import subprocess
import tempfile
import unittest

from support import BINARY, SMOLLM2, SOURCE, TINY


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
        self.assertEqual(groups, [{"window": 0, "layers": 4, "latent": 224, "block_bytes": 4 * 16 * 224 * 2, "bytes_per_token": 4 * 224 * 2}])

    def test_inspect(self):
        facts = json.loads(run("inspect", TINY, "--json"))
        self.assertEqual(facts["model"]["architecture"], "llama")
        self.assertEqual(facts["model"]["n_layers"], 4)
        self.assertGreater(facts["plan"]["total_bytes"], 0)
        self.assertIn("blk.0.attn_q.weight", run("inspect", TINY, "--plan"))
        self.assertEqual(facts["plan"]["kv_bytes_per_token"], 4 * 2 * 2 * 64 * 2)  # layers, k and v, heads, values, f16
        self.assertEqual(facts["text"]["chat_template"]["origin"], "plain")
        self.assertEqual([t["text"] for t in facts["text"]["end_tokens"]], ["</s>"])

    def test_inspect_plan_of_a_window_model(self):
        model = os.path.join(os.path.dirname(SMOLLM2), "gemma3-270m.gguf")
        facts = json.loads(run("inspect", model, "--plan", "--json", "-c", "4096", "--max-seqs", "4"))
        plan, text = facts["plan"], facts["text"]
        self.assertEqual(plan["kv_bytes_per_token"], 18432)
        self.assertEqual(plan["kv_bytes_per_token_beyond_windows"], 18432 // 6)
        self.assertEqual(sorted((g["window"], g["layers"]) for g in plan["kv_groups"]), [(0, 3), (512, 15)])
        self.assertEqual(plan["total_bytes"], plan["packed_weight_bytes"] + plan["scratch_bytes"] + plan["kv_bytes"])
        fits = [(f["ctx_one"], f["ctx_all"]) for f in plan["fits"]]
        self.assertEqual(fits, sorted(fits))
        self.assertEqual(fits[-1], (32768, 32768))
        self.assertEqual((text["type"], text["bos"]["text"], text["add_bos"]), ("spm", "<bos>", True))
        self.assertIn(106, [t["id"] for t in text["end_tokens"]])
        printed = run("inspect", model, "--plan", "-c", "4096", "--max-seqs", "4")
        for part in ("plan for 4 sequences of 4096 tokens", "window of 512", "context that fits", "106 \"<end_of_turn>\"", "chat template: gemma"):
            self.assertIn(part, printed)

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

    def test_perplexity(self):
        text = os.path.join(SOURCE, "tests", "data", "real", "prose.txt")
        with tempfile.TemporaryDirectory() as folder:
            base = os.path.join(folder, "base.kld")
            tiny = ["perplexity", "-m", TINY]
            out = run(*tiny, "-t", "2", "-f", text, "-c", "64", "--chunks", "4", "--kl-divergence-base", base)
            self.assertRegex(out, r"^\[1\]\d+\.\d{4},\[2\]\d+\.\d{4},\[3\]\d+\.\d{4},\[4\]\d+\.\d{4},\n"
                                  r"Final estimate: PPL = \d+\.\d{4} \+/- \d+\.\d{5}\n$")
            self.assertEqual(out, run(*tiny, "-f", text, "-c", "64", "--chunks", "4", "-t", "1"))  # one thread = n threads
            out = run(*tiny, "--kl-divergence", "--kl-divergence-base", base)
            lines = dict(re.findall(r"^(.*?) *: *(-?\d+\.\d+)", out, re.M))
            self.assertAlmostEqual(float(lines["Mean    KLD"]), 0, delta=1e-5)
            self.assertEqual(float(lines["Same top p"]), 100)
            for name in ("Mean PPL(Q)", "Mean PPL(Q)/PPL(base)", "Mean PPL(Q)-PPL(base)", "Maximum KLD", "99.9%   KLD", "Median  KLD", "RMS Δp"):
                self.assertIn(name, lines)
            with open(base, "r+b") as f:
                f.truncate(5000)
            for words, part in ((["-f", text, "-c", "1000000"], "at least 2000000"), (["-f", text + ".none"], "cannot be read"), ([], "--file"),
                                (["--kl-divergence"], "needs --kl-divergence-base"), (["--kl-divergence", "--kl-divergence-base", base], "cut off"),
                                (["-f", text, "-c", "2"], "ctx-size")):
                r = subprocess.run([BINARY, *tiny, *words], capture_output=True, text=True, timeout=60)
                self.assertEqual(r.returncode, 2, r.stderr)
                self.assertIn(part, r.stderr)

    def test_version_and_help(self):
        self.assertRegex(run("--version"), r"^\d+\.\d+\.\d+")
        self.assertIn("--kv-type", run("serve", "--help"))
        self.assertIn("queue_limit = 64", run("serve", "--print-default-config"))


if __name__ == "__main__":
    unittest.main()
