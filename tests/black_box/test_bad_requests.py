"""Every bad request gets its typed error, and a stream running beside all of them does not change."""
import json
import threading
import unittest

from support import ServerCase, raw_exchange, wait_until

BIG = 1 << 24
CHAT = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 2}


def chat(**change):
    return {**CHAT, **change}


# (body, expected status, expected code, expected param or None)
BAD_CHAT = [
    (b"", 400, "invalid_request", None), (b"{", 400, "invalid_request", None), (b"[]", 400, "invalid_request", None),
    (b"5", 400, "invalid_request", None), (b"null", 400, "invalid_request", None), (b'{"a":NaN}', 400, "invalid_request", None),
    (b'{"messages": "\xff\xfe"}', 400, "invalid_request", None), (b"[" * 100 + b"]" * 100, 400, "invalid_request", None),
    ({}, 400, "invalid_request", "messages"), ({"messages": []}, 400, "invalid_request", "messages"),
    ({"messages": "x"}, 400, "invalid_request", "messages"), ({"messages": [5]}, 400, "invalid_request", None),
    ({"messages": [{"role": "robot", "content": "x"}]}, 400, "invalid_request", "messages"),
    ({"messages": [{"role": "user"}]}, 400, "invalid_request", "messages"),
    (chat(temperature=999999), 400, "invalid_request", "temperature"), (chat(temperature=2.1), 400, "invalid_request", "temperature"),
    (chat(temperature="hot"), 400, "invalid_request", "temperature"), (chat(top_p=-1), 400, "invalid_request", "top_p"),
    (chat(top_p=0), 400, "invalid_request", "top_p"), (chat(min_p=2), 400, "invalid_request", "min_p"),
    (chat(top_k=0.01), 400, "invalid_request", "top_k"), (chat(top_k=-2), 400, "invalid_request", "top_k"),
    (chat(repeat_penalty=0), 400, "invalid_request", "repeat_penalty"), (chat(presence_penalty=3), 400, "invalid_request", "presence_penalty"),
    (chat(max_tokens=0), 400, "invalid_request", "max_tokens"), (chat(max_tokens=1.5), 400, "invalid_request", "max_tokens"),
    (chat(max_tokens=10**30), 400, "invalid_request", "max_tokens"), (chat(n=0), 400, "invalid_request", "n"),
    (chat(n=17), 400, "invalid_request", "n"), (chat(n=2, best_of=3), 400, "unsupported_parameter", "best_of"), (chat(cache_prompt="x"), 400, "invalid_request", "cache_prompt"),
    (chat(mirostat=1), 400, "unsupported_parameter", "mirostat"), (chat(mirostat=3), 400, "invalid_request", "mirostat"), (chat(typical_p=0), 400, "invalid_request", "typical_p"),
    (chat(dry_multiplier="x"), 400, "invalid_request", "dry_multiplier"), (chat(xtc_probability=2), 400, "invalid_request", "xtc_probability"), (chat(seed="x"), 400, "invalid_request", "seed"),
    (chat(stop=[""]), 400, "invalid_request", "stop"), (chat(stop=["x"] * 17), 400, "invalid_request", "stop"), (chat(stop=5), 400, "invalid_request", "stop"),
    (chat(logit_bias={"999999": 1}), 400, "invalid_request", "logit_bias"), (chat(logit_bias={"1": 101}), 400, "invalid_request", "logit_bias"),
    (chat(logit_bias={"x": 1}), 400, "invalid_request", "logit_bias"), (chat(top_logprobs=21, logprobs=True), 400, "invalid_request", "top_logprobs"),
    (chat(stream="yes"), 400, "invalid_request", "stream"), (chat(response_format={"type": "regex"}), 400, "unsupported_parameter", "response_format"),
    (chat(response_format={"json_object": False}), 400, "invalid_request", "response_format"), (chat(response_format="x"), 400, "invalid_request", None),
    (chat(tools=[{"type": "function"}]), 400, "invalid_request", "tools"), (chat(tools=5), 400, "invalid_request", "tools"),
    (chat(tools=[{"type": "function", "function": {"name": "f", "parameters": {"not": {}}}}]), 400, "unsupported_parameter", "tools"),
    (chat(tool_choice="required"), 400, "invalid_request", "tool_choice"), (chat(tool_choice=5), 400, "invalid_request", "tool_choice"),
    (chat(tools=[{"type": "function", "function": {"name": "f"}}], tool_choice={"type": "function", "function": {"name": "g"}}), 400, "invalid_request", "tool_choice"),
    (chat(grammar="root ::= x"), 400, "invalid_request", "grammar"), (chat(grammar="root ::= root"), 400, "invalid_request", "grammar"),
    (chat(grammar='root ::= ' + '(' * 5000), 400, "invalid_request", "grammar"), (chat(grammar=5), 400, "invalid_request", "grammar"),
    (chat(json_schema={"type": "strange"}), 400, "invalid_request", "json_schema"), (chat(json_schema=5), 400, "invalid_request", "json_schema"),
    (chat(guided_json="{"), 400, "invalid_request", "guided_json"), (chat(guided_regex="a"), 400, "unsupported_parameter", "guided_regex"),
    (chat(response_format={"type": "json_schema"}), 400, "invalid_request", "response_format"),
    (chat(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"if": {}}}}), 400, "unsupported_parameter", "response_format"),
    (chat(response_format={"type": "json_object"}, grammar='root ::= "a"'), 400, "invalid_request", "grammar"),
    (chat(json_schema={"allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}, False]}] * 40}), 400, "unsupported_parameter", "json_schema"),
    (chat(structured_outputs={"regex": "a"}), 400, "unsupported_parameter", "structured_outputs"),
    (chat(model="nope"), 404, "model_not_found", "model"), (chat(session_id="ses_none"), 404, "not_found", "session_id"),
    (chat(session_id="ses_none", n=2), 400, "unsupported_parameter", "n"),
    (chat(messages=[{"role": "user", "content": "word " * 20000}]), 400, "context_length_exceeded", "messages"),
]
BAD_COMPLETION = [
    ({}, 400, "invalid_request", "prompt"), ({"prompt": []}, 400, "invalid_request", "prompt"), ({"prompt": [-1]}, 400, "invalid_request", "prompt"),
    ({"prompt": [10**6]}, 400, "invalid_request", "prompt"), ({"prompt": {"a": 1}}, 400, "invalid_request", "prompt"),
    ({"prompt": ["a", [10**6]]}, 400, "invalid_request", "prompt"), ({"prompt": ["a", 5.5]}, 400, "invalid_request", "prompt"),
    ({"prompt": "word " * 20000}, 400, "context_length_exceeded", "prompt"), ({"prompt": "x", "best_of": 2}, 400, "unsupported_parameter", "best_of"),
    ({"prompt": "x", "session_id": "ses_none"}, 400, "unsupported_parameter", "session_id"), ({"prompt": "x", "max_tokens": 0}, 400, "invalid_request", "max_tokens"),
]

BAD_LLAMA = [
    ({}, 400, "invalid_request", "prompt"), ({"prompt": "x", "n_predict": -2}, 400, "invalid_request", "n_predict"),
    ({"prompt": "x", "n_probs": -1}, 400, "invalid_request", "n_probs"), ({"prompt": "x", "response_fields": "content"}, 400, "invalid_request", "response_fields"),
    ({"prompt": "x", "samplers": ["top_k"]}, 400, "unsupported_parameter", "samplers"), ({"prompt": "x", "id_slot": "a"}, 400, "invalid_request", "id_slot"),
    ({"prompt": "x", "t_max_predict_ms": "soon"}, 400, "invalid_request", "t_max_predict_ms"), ({"prompt": [1, "a", 10**6]}, 400, "invalid_request", "prompt"),
]
BAD_EMBEDDING = [
    ({}, 400, "invalid_request", "input"), ({"input": ""}, 400, "invalid_request", "input"), ({"input": []}, 400, "invalid_request", "input"),
    ({"input": "x", "dimensions": 4}, 400, "unsupported_parameter", "dimensions"), ({"input": "x", "encoding_format": "hex"}, 400, "invalid_request", "encoding_format"),
    ({"input": "x", "pooling": "cls"}, 400, "invalid_request", "pooling"), ({"input": "x", "model": "nope"}, 404, "model_not_found", "model"),
    ({"input": ["a", "word " * 20000]}, 400, "context_length_exceeded", "input"),
]


class BadRequests(ServerCase):
    def expect(self, path, body, status, code, param):
        got, headers, answer = self.server.request("POST", path, body)
        self.assertEqual(got, status, (body if len(str(body)) < 300 else "long", answer))
        self.assertEqual(answer["error"]["code"], code, answer)
        if param:
            self.assertEqual(answer["error"]["param"], param, answer)
        self.assertTrue(headers["X-Request-Id"])
        for key in ("message", "type"):
            self.assertTrue(answer["error"][key])

    def test_each_gets_its_error_and_the_neighbour_goes_on(self):
        expected, _ = self.server.chat("Tell me about rivers.", temperature=0, max_tokens=150)
        got = []
        neighbour = threading.Thread(target=lambda: got.append(self.server.chat("Tell me about rivers.", temperature=0, max_tokens=150)[0]))
        neighbour.start()
        for case in BAD_CHAT:
            self.expect("/v1/chat/completions", *case)
        for case in BAD_COMPLETION:
            self.expect("/v1/completions", *case)
        for case in BAD_LLAMA:
            self.expect("/completion", *case)
        for case in BAD_EMBEDDING:
            self.expect("/v1/embeddings", *case)
        neighbour.join()
        self.assertEqual(got, [expected])
        self.assertEqual(self.server.health()[1]["executor"]["restarts"], 0)
        wait_until(lambda: self.server.metric('troupe_kv_blocks{state="owned"}') == 0, 10)

    def test_empty_prompt(self):
        """No token to start from: refused, unless the model begins every text with BOS."""
        self.expect("/v1/completions", {"prompt": "", "max_tokens": 2}, 400, "invalid_request", "prompt")

    def test_methods_and_paths(self):
        status, headers, _ = self.server.request("GET", "/v1/chat/completions")
        self.assertEqual((status, headers["Allow"]), (405, "POST"))
        self.assertEqual(self.server.request("GET", "/no/such/path")[0], 404)
        self.assertEqual(self.server.request("DELETE", "/health")[0], 405)

    def test_body_limits(self):
        pad = lambda n: json.dumps({**CHAT, "user": ""})[:-2] + "x" * (n - len(json.dumps({**CHAT, "user": ""}))) + '"}'
        self.assertEqual(self.server.request("POST", "/v1/chat/completions", pad(BIG))[0], 200)
        status, _, answer = self.server.request("POST", "/v1/chat/completions", pad(BIG + 1))
        self.assertEqual((status, answer["error"]["code"]), (413, "payload_too_large"))
        endless = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + (b"100000\r\n" + b"x" * 0x100000 + b"\r\n") * 17
        self.assertIn(b" 413 ", raw_exchange(self.server, endless).split(b"\r\n")[0])

    def test_malformed_http(self):
        for data in (b"\x00\x01\x02\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\nBad Header\r\n\r\n"):
            self.assertIn(raw_exchange(self.server, data).split(b" ")[1:2], ([b"400"], [b"403"]), data)

    def test_host_header(self):
        port = self.server.port
        def status(*lines):
            data = "\r\n".join(("GET /health/live HTTP/1.1", *lines, "Connection: close", "", "")).encode()
            return int(raw_exchange(self.server, data).split(b" ")[1])
        for good in ("localhost", "127.0.0.1", "[::1]", f"LOCALHOST:{port}", "127.0.0.1:1"):
            self.assertEqual(status(f"Host: {good}"), 200, good)
        for bad in ("evil.example", "localhost.evil.com", "127.0.0.1.evil.com", "", "localhost:x", "[::1", "localhost@evil.com"):
            self.assertEqual(status(f"Host: {bad}"), 403, bad)
        self.assertEqual(status(), 403)
        for bad in ("http://evil.example", "null", "http://localhost.evil.com", f"http://localhost:{port + 1}"):
            self.assertEqual(status(f"Host: localhost:{port}", f"Origin: {bad}"), 403, bad)
        self.assertEqual(status(f"Host: localhost:{port}", f"Origin: http://localhost:{port}"), 200)

    def test_clients_that_vanish_are_cancelled(self):
        import socket
        payload = json.dumps({**CHAT, "max_tokens": 4000, "ignore_eos": True, "stream": True}).encode()
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(payload)
        for stream in (True, False):
            body = payload if stream else payload.replace(b'"stream": true', b'"stream":false')
            s = socket.create_connection((self.server.host, self.server.port))
            s.sendall(head + body)
            wait_until(lambda: self.server.metric("troupe_running") == 1, 10, what="running")
            s.close()
            wait_until(lambda: self.server.metric("troupe_running") == 0, 5, what="cancelled")
        wait_until(lambda: self.server.metric('troupe_kv_blocks{state="owned"}') == 0, 5)

    def test_tokenize_round_trip(self):
        text = "Hello <|im_start|> wörld 🦙"
        _, _, tokens = self.server.request("POST", "/tokenize", {"content": text, "parse_special": False})
        self.assertEqual(self.server.request("POST", "/detokenize", {"tokens": tokens["tokens"]})[2]["content"], text)
        self.assertNotIn(1, tokens["tokens"])
        _, _, special = self.server.request("POST", "/tokenize", {"content": text, "with_pieces": True})
        self.assertIn({"id": 1, "piece": "<|im_start|>"}, special["tokens"])
        self.assertEqual(self.server.request("POST", "/detokenize", {"tokens": [10**7]})[0], 400)

    def test_template_and_prompt_tokens_agree(self):
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi <|im_end|> there"}]
        _, _, rendered = self.server.request("POST", "/apply-template", {"messages": messages})
        self.assertIn("<|im_start|>user", rendered["prompt"])
        _, _, answer = self.server.request("POST", "/v1/chat/completions", {"messages": messages, "max_tokens": 1})
        self.assertGreater(answer["usage"]["prompt_tokens"], 15)

    def test_unknown_model_of_a_session(self):
        for method, path in (("POST", "/v1/sessions"), ("PATCH", "/v1/sessions/" + self.server.request("POST", "/v1/sessions", {})[2]["id"])):
            status, _, body = self.server.request(method, path, {"settings": {"model": "nope"}})
            self.assertEqual((status, body["error"]["code"], body["error"]["param"]), (404, "model_not_found", "model"), method)


if __name__ == "__main__":
    unittest.main()
