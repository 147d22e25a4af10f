"""The page's WebSocket protocol: answers, replay, branches, stop, bad frames."""
import json
import time
import unittest

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from support import ServerCase, Socket, sequence_numbers, wait_until


class WebSocketProtocol(ServerCase):
    def setUp(self):
        self.socket = Socket(self.server)

    def tearDown(self):
        self.socket.close()

    def answered(self, content="Say hello.", **params):
        """A session with one finished exchange."""
        session = self.socket.create(system="You are a helpful assistant.", temperature=0)
        self.socket.subscribe(session)
        message = self.socket.message(session, content, **{"max_tokens": 12, **params})
        self.socket.finished(message)
        return session, message

    def test_an_exchange(self):
        session, message = self.answered()
        frames = [f for f in self.socket.frames if f.get("session") == session and "seq" in f]
        self.assertEqual(frames[0]["type"], "snapshot")
        numbers = sequence_numbers(frames, session)
        self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))))
        created = [f["message"] for f in frames if f["type"] == "message.created"]
        self.assertEqual([m["role"] for m in created][-2:], ["user", "assistant"])
        self.assertEqual(created[-1]["parent"], created[-2]["id"])
        done = self.socket.finished(message)
        self.assertIn(done["finish_reason"], ("stop", "length"))
        self.assertIn("predicted_per_second", done["timings"])
        _, _, stored = self.server.request("GET", f"/v1/sessions/{session}")
        answer = next(m for m in stored["messages"] if m["id"] == message)
        self.assertEqual(answer["content"], self.socket.text(message))

    def test_replay_from_every_point(self):
        session, message = self.answered(max_tokens=8)
        live = [f for f in self.socket.frames if f.get("session") == session and f["type"] not in ("snapshot",) and "seq" in f]
        first, last = live[0]["seq"], live[-1]["seq"]
        for start in range(first - 1, last + 1):
            s = Socket(self.server, session, start)
            if start < last:
                s.wait(lambda f: f.get("seq") == last)
            got = [f for f in s.frames if f.get("session") == session and "seq" in f]
            for f in got + live:
                f.pop("request_id", None)
            self.assertEqual(got, [f for f in live if f["seq"] > start])
            s.close()

    def test_snapshot_when_from_is_unknown(self):
        session, message = self.answered()
        for start in (None, 10**9):
            s = Socket(self.server, session, start)
            snapshot = s.wait(lambda f: f["type"] == "snapshot")
            self.assertEqual(snapshot["leaf"], message)
            self.assertEqual([m["role"] for m in snapshot["messages"] if m["role"] != "system"], ["user", "assistant"])
            self.assertNotIn("generating", snapshot)
            s.close()

    def test_reconnect_in_the_middle_loses_nothing(self):
        session = self.socket.create(temperature=0)
        self.socket.subscribe(session)
        message = self.socket.message(session, "Count from one to fifty in words.", max_tokens=60)
        self.socket.wait(lambda f: f["type"] == "delta" and f["message"] == message)
        seen = max(f["seq"] for f in self.socket.frames if f.get("session") == session and "seq" in f)
        before = [f for f in self.socket.frames if f["type"] == "delta" and f["seq"] <= seen]
        self.socket.close()
        self.socket = Socket(self.server, session, seen)
        self.socket.finished(message)
        text = b""
        for f in before + [f for f in self.socket.frames if f["type"] == "delta"]:
            self.assertEqual(f["offset"], len(text))
            text += f["text"].encode()
        _, _, stored = self.server.request("GET", f"/v1/sessions/{session}")
        self.assertEqual(next(m for m in stored["messages"] if m["id"] == message)["content"], text.decode())

    def test_stop(self):
        session = self.socket.create(temperature=0)
        self.socket.subscribe(session)
        message = self.socket.message(session, "Write a very long story.", max_tokens=2000, ignore_eos=True)
        self.socket.wait(lambda f: f["type"] == "delta" and f["message"] == message)
        self.assertEqual(self.socket.ask({"type": "stop", "session": session})["type"], "ack")
        done = self.socket.finished(message, 10)
        self.assertEqual((done["finish_reason"], done["stopped_by"]), ("stop", "user"))
        wait_until(lambda: self.server.metric("troupe_running") == 0, 5)
        self.assertEqual(self.socket.ask({"type": "stop", "session": session})["type"], "ack")  # nothing runs: still an ack

    def test_same_id_twice_changes_nothing(self):
        session = self.socket.create(temperature=0)
        self.socket.subscribe(session)
        message = self.socket.message(session, "Hi.", ident="only-once", max_tokens=4)
        self.socket.finished(message)
        before = len([f for f in self.socket.frames if f.get("session") == session and "seq" in f])
        answer = self.socket.ask({"type": "message", "session": session, "id": "only-once", "content": "Hi."})
        self.assertEqual(answer["type"], "ack")
        self.assertEqual(len([f for f in self.socket.frames if f.get("session") == session and "seq" in f]), before)

    def test_busy(self):
        session = self.socket.create(temperature=0)
        self.socket.subscribe(session)
        message = self.socket.message(session, "Write a very long story.", max_tokens=400, ignore_eos=True)
        answer = self.socket.ask({"type": "message", "session": session, "id": "too-early", "content": "And?"})
        self.assertEqual(answer["error"]["code"], "session_busy")
        self.socket.ask({"type": "stop", "session": session})
        self.socket.finished(message)

    def test_regenerate_and_edit_are_branches(self):
        session, message = self.answered(max_tokens=5)
        user = next(f["message"]["id"] for f in self.socket.frames if f["type"] == "message.created" and f["message"]["role"] == "user")
        again = self.socket.ask({"type": "regenerate", "session": session, "message": message, "params": {"max_tokens": 4}})
        self.assertEqual(again["message"]["parent"], user)
        self.socket.finished(again["message"]["id"])
        edited = self.socket.ask({"type": "edit", "session": session, "message": user, "content": "Say goodbye.", "params": {"max_tokens": 4}})
        self.assertEqual(edited["message"]["role"], "user")
        self.socket.wait(lambda f: f["type"] == "generation.done" and f["message"] not in (message, again["message"]["id"]))
        _, _, stored = self.server.request("GET", f"/v1/sessions/{session}")
        messages = {m["id"]: m for m in stored["messages"]}
        self.assertEqual(messages[edited["message"]["id"]]["parent"], messages[user]["parent"])
        self.assertIn(message, messages)
        self.assertEqual(messages[stored["leaf"]]["parent"], edited["message"]["id"])

    def test_bad_frames_are_answered_and_the_socket_stays(self):
        session, _ = self.answered(max_tokens=2)
        bad = ["", "{", "[]", "5", '"x"', "null", "{}", '{"type":5}', '{"type":"nope"}', '{"type":"message"}', '{"type":"subscribe"}',
               '{"type":"message","session":"x","id":"a b","content":"x"}', '{"type":"message","session":"%s","id":"ok1","content":""}' % session,
               '{"type":"message","session":"%s","id":"ok2","content":"x","params":{"temperature":99}}' % session,
               '{"type":"message","session":"%s","id":"ok3","content":"x","params":{"top_k":0.01}}' % session,
               '{"type":"subscribe","session":"%s","from":-1}' % session, "[" * 70 + "]" * 70, '{"type":"auth"}']
        for text in bad:
            before = len(self.socket.frames)
            self.socket.send(text)
            answer = self.socket.wait(lambda f: f["type"] == "error", start=before)
            self.assertEqual(answer["error"]["code"], "invalid_request", (text, answer))
        answer = self.socket.ask({"type": "stop", "session": "ses_none"})
        self.assertEqual(answer["error"]["code"], "not_found")
        self.assertEqual(self.socket.ask({"type": "subscribe", "session": session})["type"], "ack")

    def closed_with(self, send):
        with connect(f"ws://{self.server.host}:{self.server.port}/ws", subprotocols=["troupe.v1"], max_size=None) as c:
            send(c)
            try:
                while True:
                    c.recv(timeout=10)
            except ConnectionClosed as e:
                return e.rcvd.code if e.rcvd else None

    def test_close_codes(self):
        self.assertEqual(self.closed_with(lambda c: c.send(b"\x00\x01")), 1003)
        self.assertEqual(self.closed_with(lambda c: c.send('"' + "x" * (1 << 20) + '"')), 1009)
        self.assertEqual(self.closed_with(lambda c: c.socket.sendall(bytes([0x81, 0x82, 0, 0, 0, 0, 0xc3, 0x28]))), 1007)

    def test_host_and_origin(self):
        url = f"ws://{self.server.host}:{self.server.port}/ws"
        for origin in ("http://evil.example", "null", f"http://{self.server.host}:1", "http://localhost.evil.com"):
            with self.assertRaises(InvalidStatus) as e:
                connect(url, origin=origin).close()
            self.assertEqual(e.exception.response.status_code, 403)
        connect(url, origin=f"http://{self.server.host}:{self.server.port}").close()

    def test_export_and_import(self):
        session, _ = self.answered(max_tokens=3)
        status, _, exported = self.server.request("GET", f"/v1/sessions/{session}/export")
        self.assertEqual(status, 200)
        status, _, made = self.server.request("POST", "/v1/sessions/import", exported)
        self.assertEqual(status, 201, made)
        a = self.server.request("GET", f"/v1/sessions/{session}")[2]["messages"]
        b = self.server.request("GET", f"/v1/sessions/{made['id']}")[2]["messages"]
        self.assertEqual([(m["role"], m["content"], m["created"]) for m in a], [(m["role"], m["content"], m["created"]) for m in b])

    def test_http_routes_of_sessions(self):
        status, _, made = self.server.request("POST", "/v1/sessions", {"title": "By HTTP", "settings": {"temperature": 0}})
        self.assertEqual(status, 201)
        path = f"/v1/sessions/{made['id']}"
        status, _, whole = self.server.request("POST", f"{path}/messages?wait=true", {"content": "Hi.", "params": {"max_tokens": 4}})
        self.assertEqual(status, 200, whole)
        self.assertEqual(whole["message"]["role"], "assistant")
        self.assertIn(whole["finish_reason"], ("stop", "length"))
        status, headers, text = self.server.request("POST", f"{path}/messages", {"content": "Hi again.", "params": {"max_tokens": 4}})
        self.assertEqual(headers["Content-Type"], "text/event-stream")
        events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
        self.assertEqual(events[-1]["type"], "generation.done")
        self.assertEqual(self.server.request("PATCH", path, {"title": "New"})[2]["title"], "New")
        listed = self.server.request("GET", "/v1/sessions?search=New")[2]["data"]
        self.assertIn(made["id"], [s["id"] for s in listed])
        self.assertEqual(self.server.request("DELETE", path)[0], 200)
        self.assertEqual(self.server.request("GET", path)[0], 404)

    def test_deleting_a_running_session(self):
        session = self.socket.create(temperature=0)
        self.socket.subscribe(session)
        self.socket.message(session, "Write a very long story.", max_tokens=2000, ignore_eos=True)
        time.sleep(0.2)
        self.assertEqual(self.server.request("DELETE", f"/v1/sessions/{session}")[0], 200)
        self.socket.wait(lambda f: f["type"] == "session.deleted" and f["session"] == session)
        wait_until(lambda: self.server.metric("troupe_running") == 0, 5)


if __name__ == "__main__":
    unittest.main()
