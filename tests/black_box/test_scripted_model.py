"""A model file whose text is scripted (scripts/make_chain_model): split characters, invalid bytes, end tokens, stop strings."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

from support import Server, Socket

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SCRIPT = {
    "cycle": ["x"],
    "after": {
        "E": ["so ", 0xF0, 0x9F, 0x98, 0x80, " yes", {"end": "<|eot|>"}],
        "B": ["bad", 0xED, 0xA0, 0x81, " end", 0xC3, {"end": True}],
        "S": ["one ", "two", " thr", "ee fo", "ur five", {"end": "<|eom_id|>"}],
    },
    "end_tokens": ["<|eot|>", "<|eom_id|>"],
}


class ScriptedModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="troupe-chain-")
        script, model = os.path.join(cls.folder, "script.json"), os.path.join(cls.folder, "chain.gguf")
        with open(script, "w") as f:
            json.dump(SCRIPT, f)
        subprocess.run([os.path.join(ROOT, "scripts", "make_chain_model"), script, model], check=True, env={**os.environ, "TROUPE_PYTHON": sys.executable})
        cls.server = Server(model=model)

    @classmethod
    def tearDownClass(cls):
        cls.server.close()

    def complete(self, prompt, **params):
        status, _, body = self.server.request("POST", "/v1/completions", {"prompt": prompt, "max_tokens": 40, "temperature": 0, **params})
        self.assertEqual(status, 200, body)
        return body["choices"][0]["text"], body["choices"][0]["finish_reason"]

    def test_split_and_broken_characters(self):
        self.assertEqual(self.complete("E"), ("so \U0001F600 yes", "stop"))
        self.assertEqual(self.complete("B"), ("bad\ufffd\ufffd\ufffd end\ufffd", "stop"))
        s = Socket(self.server)
        session = s.create(system="", temperature=0)
        s.subscribe(session)
        _, _, body = self.server.request("POST", "/v1/completions", {"prompt": "E", "max_tokens": 40, "temperature": 0, "stream": True})
        pieces = [json.loads(line[6:])["choices"][0]["text"] for line in body.splitlines() if line.startswith("data: {")]
        self.assertEqual("".join(pieces), "so \U0001F600 yes")
        self.assertIn("\U0001F600", "|".join(pieces))
        s.close()

    def test_end_tokens(self):
        for prompt in "EBS":
            text, reason = self.complete(prompt)
            self.assertEqual(reason, "stop")
            for mark in ("<|eot|>", "<|eom_id|>", "</s>"):
                self.assertNotIn(mark, text)

    def test_stop_strings_over_token_borders(self):
        whole = "one two three four five"
        self.assertEqual(self.complete("S"), (whole, "stop"))
        for stop in ("two", "o th", "three four", "ur fi", "five", "e f"):
            self.assertEqual(self.complete("S", stop=[stop]), (whole[:whole.index(stop)], "stop"), stop)
        self.assertEqual(self.complete("S", stop=["fives", "threat", "x"]), (whole, "stop"))
        self.assertEqual(self.complete("S", stop=["four", "two"])[0], "one ")

    def test_limits_and_ignore_eos(self):
        self.assertEqual(self.complete("S", max_tokens=2), ("one two", "length"))
        text, reason = self.complete("S", ignore_eos=True, max_tokens=12)
        self.assertEqual(reason, "length")
        self.assertTrue(text.startswith("one two three four five"))
        self.assertEqual(self.complete("y", max_tokens=5), ("xxxxx", "length"))


if __name__ == "__main__":
    unittest.main()
