"""Edges of HTTP and of the upgrade: pipelining, HTTP/1.0, half-closed clients, keys and shutdown, big events."""
import base64
import json
import os
import socket
import threading
import unittest

from support import Server, ServerCase, Socket, TINY, raw_exchange, wait_until

GET = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n%s\r\n"


class HttpEdges(ServerCase):
    model = TINY

    def connect(self):
        return socket.create_connection((self.server.host, self.server.port), timeout=20)

    def test_pipelined_requests_are_all_answered(self):
        with self.connect() as s:
            s.sendall(GET % b"" * 3 + GET % b"Connection: close\r\n")
            data = b""
            while piece := s.recv(65536):
                data += piece
        self.assertEqual(data.count(b"HTTP/1.1 200"), 4)

    def test_nothing_is_done_after_close_was_said(self):
        sessions = lambda: len(self.server.request("GET", "/v1/sessions")[2]["data"])
        before = sessions()
        with self.connect() as s:
            s.sendall(GET % b"Connection: close\r\n")
            s.recv(65536)
            try:
                s.sendall(b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
                while s.recv(65536):
                    pass
            except OSError:
                pass
        self.assertEqual(sessions(), before)

    def test_http_1_0_streams_without_chunks(self):
        body = json.dumps({"messages": [{"role": "user", "content": "x"}], "max_tokens": 3, "stream": True}).encode()
        data = raw_exchange(self.server, b"POST /v1/chat/completions HTTP/1.0\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        head, text = data.split(b"\r\n\r\n", 1)
        self.assertNotIn(b"chunked", head.lower())
        self.assertTrue(text.endswith(b"data: [DONE]\n\n"), text[-60:])

    def test_other_transfer_codings_are_refused_and_nothing_behind_them_is_run(self):
        for coding in (b"gzip", b"identity", b"chunked, gzip"):
            data = raw_exchange(self.server, b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: " + coding + b"\r\n\r\n"
                                + GET % b"Connection: close\r\n")
            self.assertEqual(data.count(b"HTTP/1.1 "), 1, coding)
            self.assertIn(b"HTTP/1.1 400", data)

    def test_two_origins_are_refused(self):
        data = raw_exchange(self.server, GET % b"Origin: http://evil.example\r\nOrigin: http://localhost\r\nConnection: close\r\n")
        self.assertIn(b"HTTP/1.1 403", data)

    def test_absolute_form(self):
        data = raw_exchange(self.server, b"GET http://localhost/health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        self.assertIn(b"HTTP/1.1 200", data)

    def test_ws_without_an_upgrade(self):
        self.assertEqual(self.server.request("GET", "/ws")[0], 426)
        status, headers, _ = self.server.request("POST", "/ws", "{}")
        self.assertEqual((status, headers["Allow"]), (405, "GET"))

    def test_half_closed_clients_get_their_answer(self):
        for _ in range(5):
            with self.connect() as s:
                s.sendall(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n")
                s.shutdown(socket.SHUT_WR)
                data = b""
                while piece := s.recv(65536):
                    data += piece
            self.assertIn(b"200 OK", data)

    def test_bytes_that_are_no_text_do_not_reach_the_answer(self):
        data = raw_exchange(self.server, b"GET /%ff HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        json.loads(data.split(b"\r\n\r\n", 1)[1].decode("utf-8"))

    def test_head(self):
        data = raw_exchange(self.server, b"HEAD /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        self.assertTrue(data.endswith(b"\r\n\r\n"))
        self.assertIn(b"Content-Length: 15", data)

    def test_a_frame_that_comes_with_the_upgrade(self):
        text = json.dumps({"type": "session.create", "request_id": "early"}).encode()
        frame = bytes([0x81, 0x80 | len(text)]) + b"\0\0\0\0" + text
        with self.connect() as s:
            s.sendall(b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                      b"Sec-WebSocket-Key: " + base64.b64encode(os.urandom(16)) + b"\r\n\r\n" + frame)
            data = b""
            while b'"request_id":"early"' not in data:
                data += s.recv(65536)
        self.assertIn(b"session.created", data)

    def test_an_event_larger_than_the_queue_is_delivered(self):
        messages = [{"id": f"m{i}", "parent": f"m{i - 1}" if i else "", "role": "user" if i % 2 == 0 else "assistant", "content": "x" * (3 << 20), "created": 1}
                    for i in range(2)]
        made = self.server.request("POST", "/v1/sessions/import", {"format": "troupe.session.v1", "id": "ses_big", "title": "big", "messages": messages, "leaf": "m1"})
        self.assertEqual(made[0], 201, str(made)[:300])
        s = Socket(self.server, made[2]["id"])
        self.assertEqual(len(s.wait(lambda f: f["type"] == "snapshot")["messages"][1]["content"]), 3 << 20)
        s.close()

    def test_imported_settings_obey_the_ranges(self):
        status, _, answer = self.server.request("POST", "/v1/sessions/import", {
            "format": "troupe.session.v1", "title": "x", "messages": [], "settings": {"params": {"temperature": 99}}})
        self.assertEqual((status, answer["error"]["param"]), (400, "temperature"))

    def test_ops_events(self):
        s = Socket(self.server)
        self.assertEqual(s.ask({"type": "ops.subscribe"})["type"], "ack")
        self.assertIn("state", s.wait(lambda f: f["type"] == "ops"))
        self.assertEqual(s.ask({"type": "ops.unsubscribe"})["type"], "ack")
        s.close()

    def test_echo_with_logprobs_is_strict_json(self):
        def no_constants(name):
            raise AssertionError(f"{name} is no JSON")
        c = self.server.connection()
        c.request("POST", "/v1/completions", json.dumps({"prompt": "the and", "max_tokens": 0, "echo": True, "logprobs": 1}))
        body = json.loads(c.getresponse().read(), parse_constant=no_constants)
        c.close()
        logprobs = body["choices"][0]["logprobs"]
        self.assertIsNone(logprobs["token_logprobs"][0])
        self.assertTrue(all(p <= 0 for p in logprobs["token_logprobs"][1:]))
        self.assertEqual(len(logprobs["tokens"]), body["usage"]["prompt_tokens"])


class Keys(unittest.TestCase):
    def test_an_emptied_key_file_opens_nothing(self):
        import signal
        import tempfile
        path = os.path.join(tempfile.mkdtemp(prefix="troupe-keys-"), "keys")
        with open(path, "w") as f:
            f.write("secret\n")
        with Server("--api-key-file", path, model=TINY) as server:
            self.assertEqual(server.request("GET", "/v1/models")[0], 401)
            open(path, "w").close()
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda: "keys_kept" in server.log_text(), 10, what="the reload")
            self.assertEqual(server.request("GET", "/v1/models")[0], 401)
            self.assertEqual(server.request("GET", "/v1/models", headers={"Authorization": "Bearer secret"})[0], 200)
            # A body is not read for somebody without a key.
            data = raw_exchange(server, b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 16000000\r\n\r\n")
            self.assertIn(b" 401 ", data.split(b"\r\n")[0])


class Shutdown(unittest.TestCase):
    def test_every_open_stream_ends_with_an_answer(self):
        server = Server(model=TINY)
        status, _, made = server.request("POST", "/v1/sessions", {})
        self.assertEqual(status, 201)
        path, results = f"/v1/sessions/{made['id']}", {}

        def call(name, method, url, body):
            try:
                results[name] = server.request(method, url, body)
            except Exception as e:
                results[name] = e
        calls = [("events", "GET", f"{path}/events", None),
                 ("whole", "POST", f"{path}/messages?wait=true", {"content": "x", "params": {"max_tokens": 3000, "ignore_eos": True}}),
                 ("chat", "POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 3000, "ignore_eos": True}),
                 ("stream", "POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 3000, "ignore_eos": True, "stream": True})]
        threads = [threading.Thread(target=call, args=c) for c in calls]
        for t in threads:
            t.start()
        wait_until(lambda: server.metric("troupe_running") == 3, 10, what="three running")
        self.assertEqual(server.stop(10), 0)
        for t in threads:
            t.join()
        for name, r in results.items():
            self.assertIsInstance(r, tuple, (name, r))
        self.assertEqual(results["whole"][0], 503)
        self.assertEqual(results["chat"][0], 503)
        self.assertTrue(results["stream"][2].endswith("data: [DONE]\n\n"), results["stream"][2][-200:])


if __name__ == "__main__":
    unittest.main()
