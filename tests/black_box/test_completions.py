"""Several answers to one request, lists of prompts, /completion of llama-server, embeddings, and the requests of
lm-evaluation-harness against what transformers says about the same weights."""
import base64
import json
import math
import os
import struct
import threading
import unittest

import openai

from support import SMOLLM2, TINY, Server, ServerCase, wait_until

with open(os.path.join(os.path.dirname(__file__), "..", "data", "lm_eval", "tiny_llama.json")) as f:
    ORACLE = json.load(f)


def record(what, figure, tolerance):
    """A row of docs/correctness.md."""
    if path := os.environ.get("TROUPE_FIGURES"):
        with open(path, "a") as f:
            f.write(f"Evaluation and embeddings\t{what}\t{figure}\t{tolerance}\n")


def frames(server, path, body):
    c = server.connection()
    c.request("POST", path, json.dumps({**body, "stream": True}), {"Content-Type": "application/json"})
    r = c.getresponse()
    assert r.status == 200, r.read()
    lines = [line[6:] for line in r.read().decode().split("\n") if line.startswith("data: ")]
    c.close()
    return [json.loads(line) for line in lines if line != "[DONE]"]


class Choices(ServerCase):
    model = SMOLLM2

    def setUp(self):
        self.client = openai.OpenAI(base_url=f"http://{self.server.host}:{self.server.port}/v1", api_key="none", max_retries=0)
        self.name = self.client.models.list().data[0].id

    def post(self, path, **body):
        status, _, answer = self.server.request("POST", path, body)
        self.assertEqual(status, 200, answer)
        return answer

    def chat(self, **params):
        return self.client.chat.completions.create(model=self.name, messages=[{"role": "user", "content": "Tell me a story."}],
                                                   max_tokens=12, temperature=1.2, seed=11, **params)

    def test_choices_differ_repeat_and_count_the_prompt_once(self):
        one, three = self.chat(), self.chat(n=3)
        texts = [c.message.content for c in three.choices]
        self.assertEqual([c.index for c in three.choices], [0, 1, 2])
        self.assertEqual(texts[0], one.choices[0].message.content)
        self.assertEqual(len(set(texts)), 3)
        self.assertEqual(three.usage.prompt_tokens, one.usage.prompt_tokens)
        self.assertEqual(three.usage.completion_tokens, 36)
        streamed = ["", "", ""]
        reasons, usage = {}, None
        for chunk in self.chat(n=3, stream=True, stream_options={"include_usage": True}):
            usage = chunk.usage or usage
            for c in chunk.choices:
                streamed[c.index] += c.delta.content or ""
                if c.finish_reason:
                    self.assertNotIn(c.index, reasons)
                    reasons[c.index] = c.finish_reason
        self.assertEqual(streamed, texts)
        self.assertEqual(reasons, {0: "length", 1: "length", 2: "length"})
        self.assertEqual(usage.completion_tokens, 36)

    def test_choices_share_the_prefill(self):
        prompt = "The quick brown fox jumps over the lazy dog. " * 30
        hits = lambda: self.server.metric('troupe_prefix_cache_tokens_total{result="hit"}')
        before = hits()
        answer = self.post("/v1/completions", prompt=prompt, n=6, max_tokens=4, seed=5, temperature=1)
        self.assertEqual(len(answer["choices"]), 6)
        self.assertGreaterEqual(hits() - before, 5 * (answer["usage"]["prompt_tokens"] - 17))

    def test_prompt_lists(self):
        texts = ["Once upon a time", "1 2 3 4 5", "The capital of France"]
        alone = [self.post("/v1/completions", prompt=t, max_tokens=6, temperature=0)["choices"][0]["text"] for t in texts]
        ids = [self.post("/tokenize", content=t, add_special=True)["tokens"] for t in texts]
        for prompts in (texts, ids):
            many = self.client.completions.create(model=self.name, prompt=prompts, max_tokens=6, temperature=0)
            self.assertEqual([c.text for c in many.choices], alone)
            self.assertEqual(many.usage.prompt_tokens, sum(map(len, ids)))
        twice = self.post("/v1/completions", prompt=texts, n=2, max_tokens=6, temperature=0)
        self.assertEqual([c["text"] for c in twice["choices"]], [a for a in alone for _ in (0, 1)])
        many = self.post("/v1/completions", prompt=[f"Number {i} is" for i in range(100)], max_tokens=1, temperature=0)
        self.assertEqual([c["index"] for c in many["choices"]], list(range(100)))

    def test_a_client_that_goes_cancels_every_choice(self):
        c = self.server.connection()
        body = {"messages": [{"role": "user", "content": "x"}], "n": 4, "max_tokens": 4000, "ignore_eos": True}
        c.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        wait_until(lambda: self.server.metric("troupe_running") == 4, 20, what="four running")
        c.close()
        wait_until(lambda: self.server.metric("troupe_running") == 0, 5, what="cancelled")

    def test_llama_completion(self):
        whole = self.post("/completion", prompt="1 2 3 4 5", n_predict=8, temperature=0, n_probs=2, return_tokens=True)
        self.assertEqual((whole["stop"], whole["stop_type"], whole["truncated"], whole["tokens_predicted"]), (True, "limit", False, 8))
        self.assertEqual(len(whole["tokens"]), 8)
        self.assertEqual(self.post("/detokenize", tokens=whole["tokens"])["content"], whole["content"])
        self.assertEqual(whole["prompt"], "1 2 3 4 5")
        self.assertEqual(whole["generation_settings"]["n_predict"], 8)
        self.assertGreater(whole["timings"]["predicted_n"], 0)
        for p, token in zip(whole["completion_probabilities"], whole["tokens"], strict=True):
            self.assertEqual((p["id"], len(p["top_logprobs"])), (token, 2))
        streamed = frames(self.server, "/completion", {"prompt": "1 2 3 4 5", "n_predict": 8, "temperature": 0})
        self.assertEqual("".join(f["content"] for f in streamed), whole["content"])
        for f in streamed[:-1]:
            self.assertEqual((set(f), f["stop"]), ({"content", "tokens", "stop"}, False))
        self.assertEqual([t for f in streamed[:-1] for t in f["tokens"]], whole["tokens"])
        self.assertEqual((streamed[-1]["stop"], streamed[-1]["tokens_evaluated"]), (True, whole["tokens_evaluated"]))
        mark = whole["content"].strip()[:1]
        word = self.post("/completion", prompt="1 2 3 4 5", n_predict=8, temperature=0, stop=["zzz", mark])
        self.assertEqual((word["stop_type"], word["stopping_word"]), ("word", mark))
        ids = self.post("/tokenize", content="1 2 3 4 5", add_special=True)["tokens"]
        for prompt in (ids, [ids[0], self.post("/detokenize", tokens=ids[1:])["content"]]):
            self.assertEqual(self.post("/completion", prompt=prompt, n_predict=8, temperature=0)["content"], whole["content"])
        both = self.post("/completions", prompt=["1 2 3 4 5", ids], n_predict=8, temperature=0, response_fields=["content", "timings/predicted_n", "no/such"])
        self.assertEqual(both, [{"content": whole["content"], "predicted_n": both[0]["predicted_n"]}] * 2)
        self.assertEqual(self.post("/completion", prompt="x", n_predict=0)["content"], "")
        after = self.post("/completion", prompt="1 2 3", n_predict=3, n_probs=3, post_sampling_probs=True, top_k=2, seed=1)
        for p in after["completion_probabilities"]:
            self.assertAlmostEqual(sum(t["prob"] for t in p["top_probs"]), 1, places=5)
            self.assertLessEqual(len(p["top_probs"]), 2)
        banned = self.post("/completion", prompt="1 2 3 4 5", n_predict=8, temperature=0, logit_bias=[[whole["tokens"][0], False]])
        self.assertNotEqual(banned["content"], whole["content"])

    def test_a_repeated_message_gets_the_stored_answer(self):
        session = self.server.request("POST", "/v1/sessions", {})[2]["id"]
        path, body = f"/v1/sessions/{session}/messages?wait=true", {"id": "m1", "content": "Hi", "params": {"max_tokens": 40, "ignore_eos": True}}
        answers = [None] * 3
        def ask(i):
            answers[i] = self.server.request("POST", path, body)
        threads = [threading.Thread(target=ask, args=(i,)) for i in (0, 1)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        ask(2)
        for status, _, answer in answers:
            self.assertEqual(status, 200, answer)
            self.assertEqual(answer["message"], answers[0][2]["message"])
            self.assertEqual(answer["usage"]["completion_tokens"], 40)
            self.assertEqual(answer["finish_reason"], "length")

    def test_embeddings(self):
        texts = ["A cat sat on the mat.", "A kitten sits on a rug.", "Interest rates rose sharply."]
        made = self.client.embeddings.create(model=self.name, input=texts, encoding_format="float")
        vectors = [e.embedding for e in made.data]
        self.assertEqual([e.index for e in made.data], [0, 1, 2])
        for v in vectors:
            self.assertAlmostEqual(sum(x * x for x in v), 1, places=5)
        dot = lambda a, b: sum(x * y for x, y in zip(a, b))
        self.assertGreater(dot(vectors[0], vectors[1]), dot(vectors[0], vectors[2]))
        packed = self.post("/v1/embeddings", input=texts[0], encoding_format="base64")
        raw = base64.b64decode(packed["data"][0]["embedding"])
        self.assertEqual(list(struct.unpack(f"<{len(raw) // 4}f", raw)), [struct.unpack("f", struct.pack("f", x))[0] for x in vectors[0]])
        default = self.client.embeddings.create(model=self.name, input=texts[0])  # the client asks for base64 and decodes it
        self.assertEqual(len(default.data[0].embedding), len(vectors[0]))
        ids = self.post("/tokenize", content=texts[0], add_special=True)["tokens"]
        self.assertEqual(self.post("/v1/embeddings", input=ids)["data"][0]["embedding"], vectors[0])
        self.assertNotEqual(self.post("/v1/embeddings", input=ids, pooling="last")["data"][0]["embedding"], vectors[0])

    def test_embeddings_do_not_disturb_a_stream_nor_it_them(self):
        long = "All work and no play makes Jack a dull boy. " * 60
        text, vector = self.server.chat("Tell me about rivers.", temperature=0, max_tokens=80)[0], self.post("/v1/embeddings", input=long)["data"][0]
        got = []
        beside = threading.Thread(target=lambda: got.append(self.server.chat("Tell me about rivers.", temperature=0, max_tokens=80)[0]))
        beside.start()
        while beside.is_alive():
            self.assertEqual(self.post("/v1/embeddings", input=long)["data"][0], vector)
        beside.join()
        self.assertEqual(got, [text])


class Evaluation(ServerCase):
    """Exact weights (F16) and float arithmetic: what differs from transformers in float64 is float32's rounding."""
    model = TINY
    options = ("--kv-type", "f32")

    def test_loglikelihoods_as_lm_evaluation_harness_asks_for_them(self):
        cases = ORACLE["loglikelihoods"]
        worst = 0
        for batch in [cases] + [[c] for c in cases]:
            body = {"model": "", "prompt": [c["context"] + c["continuation"] for c in batch], "temperature": 0, "max_tokens": 1,
                    "logprobs": 1, "seed": 1234, "echo": True}
            status, _, answer = self.server.request("POST", "/v1/completions", body)
            self.assertEqual(status, 200, answer)
            for choice, c in zip(sorted(answer["choices"], key=lambda c: c["index"]), batch, strict=True):
                logprobs = choice["logprobs"]
                for values in logprobs.values():
                    self.assertEqual(len(values), len(c["context"]) + len(c["continuation"]) + 1)
                scored = slice(len(c["context"]), -1)
                total = sum(logprobs["token_logprobs"][scored])
                greedy = all(x == max(top.values()) for x, top in zip(logprobs["token_logprobs"][scored], logprobs["top_logprobs"][scored]))
                worst = max(worst, abs(total - c["loglikelihood"]))
                self.assertEqual(greedy, c["is_greedy"])
                self.assertIsNone(logprobs["token_logprobs"][0])
                self.assertIsNone(logprobs["top_logprobs"][0])
        self.assertLess(worst, 2e-3)
        record("log-likelihoods of 6 continuations, tiny llama F16 against transformers in float64", f"largest difference {worst:.1e}",
               "2e-3: 16 tokens of logits within 1e-4")

    def test_prompt_scores_with_top_k_and_offsets(self):
        tokens = ORACLE["loglikelihoods"][3]["context"]
        body = {"prompt": tokens, "echo": True, "logprobs": 5, "max_tokens": 0}
        answer = self.server.request("POST", "/v1/completions", body)[2]["choices"][0]
        logprobs = answer["logprobs"]
        self.assertEqual(answer["finish_reason"], "length")
        for values in logprobs.values():
            self.assertEqual(len(values), len(tokens))
        for value, top in list(zip(logprobs["token_logprobs"], logprobs["top_logprobs"]))[1:]:
            self.assertIn(len(top), (4, 5, 6))  # two tokens may have one name
            self.assertLessEqual(value, max(top.values()))
        self.assertEqual(logprobs["text_offset"], sorted(logprobs["text_offset"]))
        self.assertLessEqual(logprobs["text_offset"][-1], len(answer["text"]))

    def test_embeddings_are_those_of_transformers(self):
        worst = 0
        for c in ORACLE["embeddings"]:
            for pooling in ("mean", "last"):
                status, _, answer = self.server.request("POST", "/v1/embeddings", {"input": c["tokens"], "pooling": pooling})
                self.assertEqual(status, 200, answer)
                difference = math.dist(answer["data"][0]["embedding"], c[pooling])
                worst = max(worst, difference)
                self.assertEqual(answer["usage"], {"prompt_tokens": len(c["tokens"]), "total_tokens": len(c["tokens"])})
        self.assertLess(worst, 2e-5)
        record("embeddings (mean, last), tiny llama F16 against transformers in float64", f"largest distance {worst:.1e}",
               "2e-5: 256 values of 6 digits and float32's rounding")


class KillWithChoices(unittest.TestCase):
    def test_mirostat_and_choices_say_the_same_after_kills(self):
        body = {"messages": [{"role": "user", "content": "Write a poem about the sea."}], "n": 3, "max_tokens": 60, "seed": 3,
                "temperature": 1.0, "mirostat": 2, "mirostat_tau": 4, "ignore_eos": True}
        with Server() as server:
            def texts():
                status, _, answer = server.request("POST", "/v1/chat/completions", body)
                assert status == 200, answer
                return [c["message"]["content"] for c in answer["choices"]]
            expected, got = texts(), []
            for _ in range(3):
                asking = threading.Thread(target=lambda: got.append(texts()))
                asking.start()
                wait_until(lambda: server.metric("troupe_running") == 3, what="three running")
                server.kill_executor()
                asking.join()
            self.assertEqual(got, [expected] * 3)
            self.assertEqual(server.health()[1]["executor"]["restarts"], 3)


if __name__ == "__main__":
    unittest.main()
