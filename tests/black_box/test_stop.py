"""Gone is gone and stop is stop: in the queue, in prefill, in decode, and hundreds of times."""
import json
import socket
import unittest

from support import ServerCase, Socket, wait_until


class Stop(ServerCase):
    options = ("--max-seqs", "2")

    def open_stream(self, content, **params):
        payload = json.dumps({"messages": [{"role": "user", "content": content}], "stream": True, "ignore_eos": True, **params}).encode()
        s = socket.create_connection((self.server.host, self.server.port), timeout=30)
        s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(payload), payload))
        return s

    def nothing_left(self, seconds=5):
        wait_until(lambda: self.server.metric("troupe_running") == 0 and self.server.metric("troupe_queue_depth") == 0, seconds, what="nothing running or waiting")
        wait_until(lambda: self.server.metric('troupe_kv_blocks{state="owned"}') == 0, seconds, what="no owned blocks")

    def test_gone_in_prefill_and_in_the_queue(self):
        long_prompt = "one two three four five six " * 1100  # most of the context
        gone = self.open_stream(long_prompt, max_tokens=50)
        wait_until(lambda: self.server.metric("troupe_running") == 1, 10, what="running")
        gone.close()
        self.nothing_left()
        running = [self.open_stream("Tell a story.", max_tokens=3000) for _ in range(2)]
        wait_until(lambda: self.server.metric("troupe_running") == 2, 10, what="two running")
        waiting = self.open_stream("Tell a story.", max_tokens=3000)
        wait_until(lambda: self.server.metric("troupe_queue_depth") == 1, 10, what="one waiting")
        waiting.close()
        wait_until(lambda: self.server.metric("troupe_queue_depth") == 0, 5, what="nobody waiting")
        self.assertEqual(self.server.metric("troupe_running"), 2)
        for s in running:
            s.close()
        self.nothing_left()

    def test_stop_in_the_queue(self):
        running = [self.open_stream("Tell a story.", max_tokens=3000) for _ in range(2)]
        wait_until(lambda: self.server.metric("troupe_running") == 2, 10, what="two running")
        s = Socket(self.server)
        session = s.create()
        s.subscribe(session)
        message = s.message(session, "Hello.", max_tokens=10)
        s.wait(lambda f: f["type"] == "generation.queued" and f["message"] == message)
        s.ask({"type": "stop", "session": session})
        done = s.finished(message, 5)
        self.assertEqual((done["finish_reason"], done["stopped_by"]), ("stop", "user"))
        self.assertEqual(done["usage"]["completion_tokens"], 0)
        s.close()
        for r in running:
            r.close()
        self.nothing_left()

    def test_many_aborted_streams_leak_nothing(self):
        expected, _ = self.server.chat("Name a colour.", temperature=0, max_tokens=10)
        for i in range(150):
            s = self.open_stream("Tell a story.", max_tokens=500)
            if i % 3:
                s.recv(256 * (i % 5 + 1))
            s.close()
        self.nothing_left(15)
        self.assertEqual(self.server.chat("Name a colour.", temperature=0, max_tokens=10)[0], expected)


if __name__ == "__main__":
    unittest.main()
