"""openai's own Python client against the server: chat, stream, completions, models, typed errors."""
import unittest

import openai

from support import ServerCase


class OpenAIClient(ServerCase):
    def setUp(self):
        self.client = openai.OpenAI(base_url=f"http://{self.server.host}:{self.server.port}/v1", api_key="none", max_retries=0)
        self.model = self.client.models.list().data[0].id

    def test_models(self):
        models = self.client.models.list().data
        self.assertEqual(len(models), 1)
        self.assertEqual(self.client.models.retrieve(self.model).id, self.model)

    def ask(self, **params):
        return self.client.chat.completions.create(
            model=self.model, temperature=0, max_tokens=24, messages=[
                {"role": "system", "content": "You are a helpful assistant."},
                {"role": "user", "content": "What is the capital of Germany?"}], **params)

    def test_chat(self):
        answer = self.ask()
        self.assertIn("Berlin", answer.choices[0].message.content)
        self.assertEqual(answer.choices[0].message.role, "assistant")
        self.assertIn(answer.choices[0].finish_reason, ("stop", "length"))
        self.assertGreater(answer.usage.prompt_tokens, 10)
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)

    def test_stream_is_the_same_text(self):
        whole = self.ask().choices[0].message.content
        pieces, usage, reasons = [], None, []
        for chunk in self.ask(stream=True, stream_options={"include_usage": True}):
            if chunk.choices:
                pieces.append(chunk.choices[0].delta.content or "")
                reasons.append(chunk.choices[0].finish_reason)
            else:
                usage = chunk.usage
        self.assertEqual("".join(pieces), whole)
        self.assertEqual([r for r in reasons if r], [reasons[-1]])
        self.assertGreater(usage.completion_tokens, 0)

    def test_logprobs(self):
        answer = self.ask(logprobs=True, top_logprobs=3)
        content = answer.choices[0].logprobs.content
        self.assertEqual(len(content), answer.usage.completion_tokens)
        self.assertEqual("".join(bytes(t.bytes).decode() for t in content), answer.choices[0].message.content)
        for token in content:
            self.assertEqual(len(token.top_logprobs), 3)
            self.assertLessEqual(token.logprob, 0)
            self.assertAlmostEqual(token.logprob, token.top_logprobs[0].logprob, places=5)  # greedy takes the best

    def test_completions(self):
        answer = self.client.completions.create(model=self.model, prompt="Once upon a time", max_tokens=8, temperature=0)
        self.assertEqual(answer.object, "text_completion")
        self.assertEqual(answer.usage.completion_tokens, 8)
        self.assertEqual(answer.choices[0].finish_reason, "length")
        again = self.client.completions.create(model=self.model, prompt="Once upon a time", max_tokens=8, temperature=0, echo=True)
        self.assertEqual(again.choices[0].text, "Once upon a time" + answer.choices[0].text)

    def test_stop_string(self):
        full = self.client.completions.create(model=self.model, prompt="1 2 3 4 5 6 7", max_tokens=24, temperature=0).choices[0].text
        mark = full[len(full) // 2:][:3]
        cut = self.client.completions.create(model=self.model, prompt="1 2 3 4 5 6 7", max_tokens=24, temperature=0, stop=[mark])
        self.assertEqual(cut.choices[0].text, full[:full.index(mark)])
        self.assertEqual(cut.choices[0].finish_reason, "stop")

    def test_seed_repeats(self):
        def once(seed):
            return self.client.chat.completions.create(model=self.model, temperature=1.2, seed=seed, max_tokens=24,
                                                       messages=[{"role": "user", "content": "Tell me a story."}]).choices[0].message.content
        self.assertEqual(once(7), once(7))
        self.assertNotEqual(once(7), once(8))

    def test_errors(self):
        with self.assertRaises(openai.NotFoundError) as e:
            self.client.chat.completions.create(model="no-such-model", messages=[{"role": "user", "content": "x"}])
        self.assertEqual(e.exception.code, "model_not_found")
        with self.assertRaises(openai.BadRequestError) as e:
            self.ask(n=17)
        self.assertEqual(e.exception.param, "n")
        with self.assertRaises(openai.BadRequestError) as e:
            self.client.chat.completions.create(model=self.model, messages=[{"role": "user", "content": "word " * 9000}])
        self.assertEqual(e.exception.code, "context_length_exceeded")
        self.assertGreater(e.exception.body["n_prompt_tokens"], e.exception.body["n_ctx"])


if __name__ == "__main__":
    unittest.main()
