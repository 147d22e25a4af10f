"""Clients that vanish, that do not read, or that are many: bounded, found out, and in nobody's way."""
import resource
import socket
import threading
import time
import unittest

from support import TINY, MuteSocket, Server, ServerCase, Socket, sequence_numbers, wait_until


def long_session(server, name, n_bytes=300_000):
    made = server.request("POST", "/v1/sessions/import", {
        "format": "troupe.session.v1", "id": name, "title": "long", "leaf": "m0",
        "messages": [{"id": "m0", "parent": "", "role": "user", "content": "x" * n_bytes, "created": 1}]})
    assert made[0] == 201, made
    return name


class VanishedClients(ServerCase):
    model = TINY
    options = ("--websocket-silence", "2")

    def test_half_open_sockets_are_found_by_pings(self):
        alive = Socket(self.server)  # this client's library answers pings
        session = alive.create()
        alive.subscribe(session)
        mute = [MuteSocket(self.server) for _ in range(5)]
        mute[0].send({"type": "subscribe", "session": session})
        self.assertEqual(self.server.metric("troupe_websocket_connections"), 6)
        start = time.monotonic()
        wait_until(lambda: self.server.metric("troupe_websocket_connections") == 1, 15, what="the end of the mute ones")
        self.assertGreater(time.monotonic() - start, 1.3)
        for m in mute:
            self.assertTrue(m.ended(5))
            m.close()
        time.sleep(1.5)
        self.assertIsNone(alive.closed, "who answers pings stays")
        alive.finished(alive.message(session, "Hi.", max_tokens=4))
        alive.close()


class SlowClients(ServerCase):
    model = TINY

    def test_a_slow_reader_is_dropped_and_comes_back(self):
        """Its queue is bounded by bytes; the session, and everybody else, go on."""
        big = long_session(self.server, "ses_big")
        dropped = lambda: self.server.metric("troupe_slow_clients_dropped_total")
        memory = lambda: self.server.metric('troupe_process_resident_bytes{process="front"')
        reader = Socket(self.server)
        session = reader.create(temperature=0)
        reader.subscribe(session)
        before, memory_before = dropped(), memory()
        slow = MuteSocket(self.server, receive_buffer=4096)
        slow.send({"type": "subscribe", "session": session})
        message = reader.message(session, "Tell me more.", max_tokens=200, ignore_eos=True)

        def ask_again():
            slow.send({"type": "subscribe", "session": big})
            return dropped() > before
        try:
            wait_until(ask_again, 30, 0.02, "the slow one to be dropped")
        except OSError:
            pass  # dropped between two sends
        self.assertEqual(dropped(), before + 1)
        self.assertLess(memory() - memory_before, 40 << 20)
        self.assertTrue(slow.ended(10))
        slow.close()
        self.assertEqual(reader.finished(message)["type"], "generation.done")
        again = Socket(self.server)
        again.subscribe(session, 1)
        wait_until(lambda: sequence_numbers(again.frames, session), 10)
        self.assertEqual(reader.text(message), self.server.request("GET", f"/v1/sessions/{session}")[2]["messages"][-1]["content"])
        for s in (reader, again):
            s.close()

    def test_a_slow_reader_gets_deltas_merged(self):
        """Between the two bounds of its queue: nothing is left out, but many small pieces come as one."""
        sessions = [long_session(self.server, f"ses_wide{i}") for i in range(60)]
        dropped = lambda: self.server.metric("troupe_slow_clients_dropped_total")
        before, probe, many = dropped(), MuteSocket(self.server, receive_buffer=4096), 0
        while dropped() == before:  # how much fits into the queue and the kernel's buffers together
            probe.send({"type": "subscribe", "session": sessions[many]})
            many += 1
            time.sleep(0.05)
        probe.close()
        quick = Socket(self.server)
        session = quick.create(temperature=0)
        quick.subscribe(session)
        slow = MuteSocket(self.server, receive_buffer=4096)
        for name in [session] + sessions[:many - 5]:
            slow.send({"type": "subscribe", "session": name})
            time.sleep(0.05)
        message = quick.message(session, "Tell me more.", max_tokens=120, ignore_eos=True)
        quick.finished(message)
        frames = slow.read(lambda f: f["type"] == "generation.done")
        self.assertEqual(dropped(), before + 1, "this one stays")
        deltas = [f for f in frames if f["type"] == "delta"]
        self.assertLess(len(deltas), len([f for f in quick.frames if f["type"] == "delta"]))
        self.assertTrue(any(f.get("from_seq", f["seq"]) < f["seq"] for f in deltas))
        self.assertEqual("".join(f["text"] for f in deltas), quick.text(message))
        numbers = sequence_numbers(frames, session)
        self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))))
        for s in (slow, quick):
            s.close()

    def test_every_subscribe_is_answered(self):
        """Also one whose place another one takes while it waits for its snapshot."""
        big = long_session(self.server, "ses_again")
        s = Socket(self.server)
        for i in range(12):
            s.send({"type": "subscribe", "session": big, "request_id": f"r{i}"})
        for i in range(12):
            self.assertEqual(s.wait(lambda f: f.get("request_id") == f"r{i}", 20)["type"], "ack")
        self.assertTrue(any(f["type"] == "snapshot" for f in s.frames))
        s.close()


def limited(soft, hard):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class ManyClients(unittest.TestCase):
    def idle(self, server):
        s = socket.create_connection((server.host, server.port), timeout=20)
        self.addCleanup(s.close)
        return s

    def health_is_quick(self, server):
        start = time.monotonic()
        self.assertEqual(server.health()[0], 200)
        self.assertLess(time.monotonic() - start, 3)

    def test_a_thousand_idle_connections(self):
        """With the soft limit of 256 descriptors that some systems still give; the hard one allows more."""
        wanted = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, 8192), wanted))
        with Server(model=TINY, preexec_fn=limited(256, min(wanted, 8192))) as server:
            text, _ = server.chat("Hi.", temperature=0, max_tokens=20)
            plain = [self.idle(server) for _ in range(600)]
            sockets = [MuteSocket(server) for _ in range(600)]
            self.addCleanup(lambda: [s.close() for s in sockets])
            wait_until(lambda: server.metric("troupe_websocket_connections") == 600, 20)
            answers = []
            asking = threading.Thread(target=lambda: answers.append(server.chat("Hi.", temperature=0, max_tokens=20)[0]))
            asking.start()
            for _ in range(20):
                self.health_is_quick(server)
            asking.join()
            self.assertEqual(answers, [text])
            self.assertFalse(any(s.ended() for s in sockets[::100]), "WebSockets stay")
            plain[0].sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertTrue(plain[0].recv(100).startswith(b"HTTP/1.1 200"))

    def test_idle_connections_give_way_when_there_are_too_many(self):
        with Server(model=TINY, preexec_fn=limited(400, 400)) as server:
            sockets, refused = [], 0
            for _ in range(200):
                try:
                    sockets.append(MuteSocket(server))
                except AssertionError as e:
                    self.assertIn("503", str(e))
                    refused += 1
            self.assertGreater(refused, 0, "WebSockets leave room for others")
            self.assertGreater(len(sockets), 100)
            for _ in range(500):
                self.idle(server)
            for _ in range(5):
                self.health_is_quick(server)
            self.assertFalse(any(s.ended() for s in sockets[::20]), "only who waits without a request goes")
            for s in sockets:
                s.close()


if __name__ == "__main__":
    unittest.main()
