"""The prompt is never changed silently, long prompts do not freeze others, and prefixes are found again."""
import os
import threading
import time
import unittest

from support import CACHE, Server, ServerCase, Socket, wait_until

GEMMA_TINY = os.path.join(CACHE, "tiny", "gemma3.gguf")


class Context(ServerCase):
    options = ("-c", "256")

    def complete(self, n_prompt, **params):
        return self.server.request("POST", "/v1/completions", {"prompt": [100 + i % 50 for i in range(n_prompt)], "temperature": 0, "ignore_eos": True, **params})

    def test_prompts_around_the_context(self):
        status, _, body = self.complete(255, max_tokens=1)
        self.assertEqual(status, 200, body)
        self.assertEqual(body["usage"]["prompt_tokens"], 255)
        for n in (257, 1024):
            status, _, body = self.complete(n, max_tokens=1)
            self.assertEqual((status, body["error"]["code"]), (400, "context_length_exceeded"), n)
            self.assertEqual((body["error"]["n_prompt_tokens"], body["error"]["n_ctx"]), (n, 256))

    def test_never_shifts(self):
        """An answer that never ends stops at the context with the reason `length`."""
        status, _, body = self.complete(200, max_tokens=5000)
        self.assertEqual(status, 200)
        self.assertEqual(body["choices"][0]["finish_reason"], "length")
        self.assertLessEqual(body["usage"]["total_tokens"], 257)
        self.assertGreaterEqual(body["usage"]["total_tokens"], 255)

    def test_a_huge_text_keeps_nobody_waiting(self):
        """Sixteen million bytes are tokenized, and refused with their exact count; a short question meanwhile is answered first."""
        order, huge = [], "lorem ipsum " * 1_250_000

        def ask(name, content):
            status, _, body = self.server.request("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": content}], "max_tokens": 2}, timeout=120)
            order.append((name, status, body.get("error", {}).get("code"), body.get("error", {}).get("n_prompt_tokens", 0)))
        big = threading.Thread(target=ask, args=("huge", huge))
        big.start()
        wait_until(lambda: self.server.metric("troupe_running") == 0 and big.is_alive(), 5)
        time.sleep(0.3)
        while big.is_alive() and len(order) < 20:
            ask("short", "Hi.")
        big.join()
        self.assertEqual(order[0][:2], ("short", 200), order)
        refused = next(o for o in order if o[0] == "huge")
        self.assertEqual(refused[1:3], (400, "context_length_exceeded"))
        self.assertGreater(refused[3], 1_000_000)

    def test_prefix_is_found_again(self):
        cold = self.complete(200, max_tokens=8)[2]
        warm = self.complete(200, max_tokens=8)[2]
        self.assertGreaterEqual(warm["usage"]["prompt_tokens_details"]["cached_tokens"], 176)
        self.assertEqual(warm["choices"][0]["text"], cold["choices"][0]["text"])


class LongPrompt(ServerCase):
    def test_a_long_prompt_beside_streams(self):
        """Somebody's long prompt: the streams beside it keep moving while it is read."""
        sockets = [Socket(self.server) for _ in range(2)]
        arrivals = [[] for _ in sockets]
        messages = []
        for s in sockets:
            session = s.create(temperature=0)
            s.subscribe(session)
            messages.append(s.message(session, "Write a long story.", max_tokens=600, ignore_eos=True))
        for s, m in zip(sockets, messages):
            s.wait(lambda f: f["type"] == "delta" and f["message"] == m)
        def watch(s, times):
            seen = len(s.frames)
            while time.monotonic() < end:
                with s.changed:
                    s.changed.wait(0.5)
                times.extend([time.monotonic()] * (len(s.frames) - seen))
                seen = len(s.frames)
        end = time.monotonic() + 4
        watchers = [threading.Thread(target=watch, args=a) for a in zip(sockets, arrivals)]
        for w in watchers:
            w.start()
        status, _, body = self.server.request("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "tell me more " * 1500}], "max_tokens": 1})
        self.assertEqual(status, 200)
        finished = time.monotonic()
        for w in watchers:
            w.join()
        for times in arrivals:
            during = [t for t in times if t < finished]
            self.assertGreater(len(during), 5, "the stream stood still while the prompt was read")
        for s in sockets:
            s.close()


class WindowModel(unittest.TestCase):
    def test_window_model_keeps_its_prefix(self):
        """Five turns of a chat longer than the window: each turn finds its prefix, and says what it would say without."""
        with Server(model=GEMMA_TINY) as server:
            def turn(messages):
                return server.request("POST", "/v1/chat/completions", {"messages": messages, "temperature": 0, "max_tokens": 12, "ignore_eos": True})[2]
            messages, answers = [], []
            for i in range(5):
                messages.append({"role": "user", "content": f"question {i} about something"})
                body = turn(messages)
                if i > 0:
                    self.assertGreater(body["usage"]["prompt_tokens_details"]["cached_tokens"], 0, i)
                answers.append(body["choices"][0]["message"]["content"])
                messages.append({"role": "assistant", "content": answers[-1]})
            server.kill_executor()  # a new executor has an empty cache
            wait_until(lambda: server.health()[1].get("executor", {}).get("restarts") == 1, 20)
            server.wait_healthy()
            for i in range(5):
                self.assertEqual(turn(messages[:2 * i + 1])["choices"][0]["message"]["content"], answers[i])


if __name__ == "__main__":
    unittest.main()
