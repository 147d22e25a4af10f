"""The OpenAI event stream byte by byte, as strict consumers read it."""
import json
import socket
import unittest

from support import ServerCase


def read_stream(server, body):
    """(status line, headers, list of events as raw text without their blank line)"""
    payload = json.dumps(body).encode()
    with socket.create_connection((server.host, server.port), timeout=60) as s:
        s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
                  b"X-Request-Id: abc-1\r\nContent-Length: " + str(len(payload)).encode() + b"\r\n\r\n" + payload)
        data = b""
        while piece := s.recv(65536):
            data += piece
    head, rest = data.split(b"\r\n\r\n", 1)
    lines = head.decode().split("\r\n")
    headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines[1:])}
    text = b""
    while True:  # chunked transfer coding by hand: a wrong chunk must not go unnoticed
        size, rest = rest.split(b"\r\n", 1)
        n = int(size, 16)
        if n == 0:
            assert rest == b"\r\n", rest
            break
        text += rest[:n]
        assert rest[n:n + 2] == b"\r\n"
        rest = rest[n + 2:]
    text = text.decode()
    assert text.endswith("\n\n"), text[-40:]
    return lines[0], headers, text[:-2].split("\n\n")


class EventStream(ServerCase):
    body = {"messages": [{"role": "user", "content": "Say something."}], "max_tokens": 6, "temperature": 0, "stream": True}

    def parse(self, extra):
        status, headers, events = read_stream(self.server, {**self.body, **extra})
        self.assertEqual(status, "HTTP/1.1 200 OK")
        for e in events:
            self.assertTrue(e.startswith("data: ") or e.startswith(":"), e)
            self.assertNotIn("\n", e)
        data = [e[6:] for e in events if e.startswith("data: ")]
        self.assertEqual(data[-1], "[DONE]")
        return headers, [json.loads(d) for d in data[:-1]]

    def test_headers(self):
        headers, _ = self.parse({})
        self.assertEqual(headers["content-type"], "text/event-stream")
        self.assertEqual(headers["cache-control"], "no-cache")
        self.assertEqual(headers["x-accel-buffering"], "no")
        self.assertEqual(headers["x-request-id"], "abc-1")

    def test_chunks(self):
        _, chunks = self.parse({})
        self.assertEqual(len({(c["id"], c["created"], c["model"]) for c in chunks}), 1)
        self.assertTrue(chunks[0]["id"].startswith("chatcmpl-"))
        for c in chunks:
            self.assertEqual(c["object"], "chat.completion.chunk")
            self.assertEqual(len(c["choices"]), 1)
            self.assertEqual(c["choices"][0]["index"], 0)
            self.assertNotIn("usage", c)
        self.assertEqual(chunks[0]["choices"][0]["delta"], {"role": "assistant", "content": ""})
        for c in chunks[:-1]:
            self.assertIsNone(c["choices"][0]["finish_reason"])
            self.assertIn("content", c["choices"][0]["delta"])
        self.assertEqual(chunks[-1]["choices"][0]["delta"], {})
        self.assertEqual(chunks[-1]["choices"][0]["finish_reason"], "length")
        self.assertEqual(chunks[-1]["timings"]["predicted_n"], 6)

    def test_usage_chunk_only_if_asked(self):
        _, chunks = self.parse({"stream_options": {"include_usage": True}})
        for c in chunks[:-1]:
            self.assertIn("usage", c)
            self.assertIsNone(c["usage"])
        self.assertEqual(chunks[-1]["choices"], [])
        self.assertEqual(chunks[-1]["usage"]["completion_tokens"], 6)
        self.assertIsNone(chunks[-2]["usage"])
        self.assertEqual(chunks[-2]["choices"][0]["finish_reason"], "length")

    def test_comment_lines_while_waiting(self):
        """A long prompt: something arrives before the first token."""
        _, _, events = read_stream(self.server, {**self.body, "messages": [{"role": "user", "content": "hello there " * 1500}]})
        first_data = next(i for i, e in enumerate(events) if e.startswith("data: "))
        self.assertGreater(first_data, 0)
        self.assertTrue(all(e.startswith(": ") for e in events[:first_data]), events[:first_data])


if __name__ == "__main__":
    unittest.main()
