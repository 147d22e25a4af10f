"""A client that does not read disturbs nobody, is bounded in memory, and can come back for what it missed."""
import json
import socket
import time
import unittest

from support import ServerCase, Socket, wait_until


class SlowReader(ServerCase):
    def test_a_slow_reader_disturbs_nobody(self):
        expected, _ = self.server.chat("Write about mountains.", temperature=0, max_tokens=80)
        payload = json.dumps({"messages": [{"role": "user", "content": "Write."}], "stream": True, "ignore_eos": True, "max_tokens": 500}).encode()
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect((self.server.host, self.server.port))
        slow.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(payload), payload))
        wait_until(lambda: self.server.metric("troupe_running") == 1, 10)
        for _ in range(2):
            self.assertEqual(self.server.chat("Write about mountains.", temperature=0, max_tokens=80)[0], expected)
            self.assertEqual(self.server.request("GET", "/health/live")[0], 200)
        wait_until(lambda: self.server.metric("troupe_running") == 0, 40, what="the slow client's answer ends without its reading")
        slow.close()

    def test_a_websocket_that_stops_reading_catches_up(self):
        s = Socket(self.server)
        session = s.create(temperature=0)
        s.subscribe(session)
        message = s.message(session, "Count to one hundred.", max_tokens=120, ignore_eos=True)
        lagging = Socket(self.server)
        lagging.subscribe(session)
        s.finished(message)
        time.sleep(0.2)
        lagging.finished(message)
        snapshot = next(f for f in lagging.frames if f["type"] == "snapshot")
        start = snapshot.get("generating", {}).get("text", "")
        rest = "".join(f["text"] for f in lagging.frames if f["type"] == "delta" and f["message"] == message)
        self.assertEqual(start + rest, s.text(message))
        s.close()
        lagging.close()


if __name__ == "__main__":
    unittest.main()
