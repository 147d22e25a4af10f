"""A request that kills the executor every time is found out and fails alone; its neighbours' texts do not change."""
import threading
import unittest

from support import Server, Socket


class Poison(unittest.TestCase):
    def test_the_culprit_alone_fails(self):
        with Server("--fault-injection") as server:
            expected, _ = server.chat("Write about the sea.", temperature=0, max_tokens=80)
            status, _, body = server.request("POST", "/admin/faults", {"kind": "crash", "times": 50, "request_contains": "poison-mark"})
            self.assertEqual(status, 200, body)
            texts = []
            neighbours = [threading.Thread(target=lambda: texts.append(server.chat("Write about the sea.", temperature=0, max_tokens=80)[0]))
                          for _ in range(2)]
            for t in neighbours:
                t.start()
            s = Socket(server)
            session = s.create()
            s.subscribe(session)
            message = s.message(session, "This one has the poison-mark in it.", max_tokens=40)
            end = s.finished(message, 90)
            self.assertEqual(end["type"], "generation.error", end)
            self.assertEqual(end["error"]["code"], "executor_poisoned")
            for t in neighbours:
                t.join()
            self.assertEqual(texts, [expected] * 2)
            self.assertIsNone(s.closed)
            server.wait_healthy()
            self.assertEqual(server.chat("Write about the sea.", temperature=0, max_tokens=80)[0], expected)
            s.close()


if __name__ == "__main__":
    unittest.main()
