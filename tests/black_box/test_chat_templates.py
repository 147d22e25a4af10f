"""What /apply-template prints is what chat completions count, for models with and without a template of their own."""
import os
import unittest

from support import CACHE, SMOLLM2, TINY, Server

CONVERSATIONS = [
    [{"role": "user", "content": "Hi"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 7 x 8?"}, {"role": "assistant", "content": "56."},
     {"role": "user", "content": "  And\n\n9 x 9? \u00e9\U0001f600"}],
    [{"role": "user", "content": "one"}, {"role": "user", "content": "two"}],
]


class ChatTemplates(unittest.TestCase):
    def check(self, model, origin, begin):
        with Server(model=model) as server:
            props = server.request("GET", "/props")[2]
            self.assertEqual(props["chat_template_origin"], origin)
            self.assertTrue(props["pre_tokenizer"])
            for messages in CONVERSATIONS:
                _, _, rendered = server.request("POST", "/apply-template", {"messages": messages})
                _, _, tokens = server.request("POST", "/tokenize", {"content": rendered["prompt"], "add_special": False, "parse_special": True})
                _, _, answer = server.request("POST", "/v1/chat/completions", {"messages": messages, "max_tokens": 1})
                self.assertEqual(answer["usage"]["prompt_tokens"], len(tokens["tokens"]), rendered)
                self.assertEqual(rendered["prompt"].count(begin) if begin else 0, 1 if begin else 0)
                self.assertTrue(rendered["prompt"].startswith(begin))

    def test_own_template_without_bos(self):
        self.check(SMOLLM2, "model", "")

    def test_built_in_gemma(self):
        self.check(os.path.join(CACHE, "models", "gemma3-270m.gguf"), "gemma", "<bos>")

    def test_built_in_plain(self):
        self.check(TINY, "plain", "<s>")


if __name__ == "__main__":
    unittest.main()
