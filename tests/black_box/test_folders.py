"""Hugging Face folders (bf16 and AWQ safetensors with tokenizer.json) served like any model file."""
import os
import shutil
import subprocess
import tempfile
import unittest

from support import BINARY, CACHE, SOURCE, Server, Socket

FOLDERS = os.path.join(CACHE, "tiny", "hf")


def greedy_run(name):
    """(prompt ids, the reference's greedy ids up to the first step whose two best logits are closer than 0.1): see
    tests/data/logits/README.md. A step that close may fall either way with KV in f16."""
    with open(os.path.join(SOURCE, "tests", "data", "logits", f"{name}.greedy.txt")) as f:
        prompt, ids, gaps = (line.split() for line in f.read().splitlines()[:3])
    sure = next((i for i, gap in enumerate(gaps) if float(gap) < 0.1), len(gaps))
    return [int(i) for i in prompt], [int(i) for i in ids[:sure]]


class Folders(unittest.TestCase):
    def complete(self, server, prompt, count):
        status, _, body = server.request("POST", "/completion", {"prompt": prompt, "n_predict": count, "temperature": 0,
                                                                 "return_tokens": True, "ignore_eos": True})
        self.assertEqual(status, 200, body)
        return body["tokens"]

    def test_bf16_folders_say_what_transformers_says(self):
        for name in ("llama", "qwen2", "gemma3"):
            prompt, expected = greedy_run(name)
            self.assertGreater(len(expected), 5, name)
            with Server(model=os.path.join(FOLDERS, f"{name}-bf16")) as server:
                self.assertEqual(self.complete(server, prompt, len(expected)), expected, name)
                _, _, models = server.request("GET", "/v1/models")
                self.assertEqual(models["data"][0]["id"], f"{name}-bf16")
                _, _, pieces = server.request("POST", "/tokenize", {"content": "Hello, w\u00f6rld 12"})
                _, _, text = server.request("POST", "/detokenize", {"tokens": pieces["tokens"]})
                self.assertEqual(text["content"].strip(), "Hello, w\u00f6rld 12")
                self.assertEqual(server.stop(), 0)

    def test_an_awq_folder_chats_and_survives_its_executor(self):
        with Server(model="quantized=" + os.path.join(FOLDERS, "llama-awq")) as server:
            undisturbed, body = server.chat("Tell me.", temperature=0, max_tokens=200, ignore_eos=True)
            self.assertEqual((body["model"], body["usage"]["completion_tokens"]), ("quantized", 200))
            s = Socket(server)
            session = s.create(system="", temperature=0)
            s.subscribe(session)
            message = s.message(session, "Tell me.", max_tokens=200, ignore_eos=True)
            s.wait(lambda f: f["type"] == "delta")
            server.kill_executor()
            self.assertEqual(s.finished(message)["type"], "generation.done")
            _, _, view = server.request("GET", f"/v1/sessions/{session}")
            self.assertEqual(view["messages"][-1]["content"], undisturbed)
            s.close()

    def test_broken_folders_are_refused_by_name(self):
        with tempfile.TemporaryDirectory() as folder:
            broken = os.path.join(folder, "model")
            shutil.copytree(os.path.join(FOLDERS, "llama-bf16"), broken)
            for missing in ("tokenizer.json", "model.safetensors", "config.json"):
                os.rename(os.path.join(broken, missing), os.path.join(folder, missing))
                done = subprocess.run([BINARY, "serve", "--port", "0", "--data-dir", folder, "-m", broken], text=True,
                                      capture_output=True, timeout=60)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(missing.split(".")[-1], done.stderr)
                os.rename(os.path.join(folder, missing), os.path.join(broken, missing))


if __name__ == "__main__":
    unittest.main()
