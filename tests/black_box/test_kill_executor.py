"""Killing the executor at random steps of four concurrent generations changes no text and closes no socket.

TROUPE_SHARD picks the random numbers; TROUPE_KILLS is how many kills there are.
"""
import os
import random
import threading
import time
import unittest

from support import Server, Socket, sequence_numbers

SHARD = int(os.environ.get("TROUPE_SHARD", "0"))
KILLS = int(os.environ.get("TROUPE_KILLS", "25"))
PROMPTS = [
    ("Write a short story about a lighthouse.", {"temperature": 0}),
    ("List ten animals and what they eat.", {"temperature": 0}),
    ("Write a poem about the sea.", {"temperature": 1.1, "seed": 41, "mirostat": 2, "mirostat_tau": 4}),
    ("Explain how bread is made.", {"temperature": 0.8, "seed": 42, "top_k": 0, "repeat_penalty": 1.1, "xtc_probability": 0.3,
                                    "dry_multiplier": 0.8, "dynatemp_range": 0.3}),
]
TOKENS = 64


def converse(server, texts, failures, index):
    """One generation on a socket of its own; the text and everything about its events is checked."""
    try:
        prompt, params = PROMPTS[index]
        s = Socket(server)
        session = s.create(system="You are a helpful assistant.")
        s.subscribe(session)
        message = s.message(session, prompt, max_tokens=TOKENS, **params)
        done = s.finished(message, 55)
        assert done["type"] == "generation.done", done
        assert s.closed is None, s.closed
        texts[index] = s.text(message)
        numbers = sequence_numbers(s.frames, session)
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), numbers
        assert done["usage"]["completion_tokens"] <= TOKENS
        s.close()
    except BaseException as e:
        failures.append((index, repr(e)))


def round_of_four(server, during=lambda: None):
    texts, failures = [None] * 4, []
    threads = [threading.Thread(target=converse, args=(server, texts, failures, i)) for i in range(4)]
    for t in threads:
        t.start()
    while any(t.is_alive() for t in threads) and during() is not False:
        pass
    for t in threads:
        t.join()
    assert not failures, failures
    return texts


class KillExecutor(unittest.TestCase):
    def test_texts_do_not_change(self):
        rng = random.Random(SHARD)
        with Server() as server:
            expected = round_of_four(server)
            self.assertTrue(all(expected))
            kills = 0
            while kills < KILLS:
                def kill_sometimes():
                    nonlocal kills
                    time.sleep(rng.uniform(0.02, 0.5))
                    if kills >= KILLS:
                        return False
                    if server.metric("troupe_running") and server.executor_pid():
                        server.kill_executor()
                        kills += 1
                self.assertEqual(round_of_four(server, kill_sometimes), expected)
            self.assertEqual(server.metric("troupe_requests_lost_total"), 0)
            self.assertGreaterEqual(server.health()[1]["executor"]["restarts"], KILLS)


if __name__ == "__main__":
    unittest.main()
