"""kill -9 of the front process under load, again and again on the same port; nothing a client has seen may be missing afterwards."""
import os
import random
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "black_box"))
from support import Server, Socket, alive, wait_until  # noqa: E402

PROMPTS = [("Write a short story about a lighthouse.", {"temperature": 0}), ("Write a poem about the sea.", {"temperature": 1.1, "seed": 41}),
           ("Explain how bread is made.", {"temperature": 0.8, "seed": 42})]
TOKENS = 64


class Reader:
    """One conversation that outlives server after server: what it has seen is all it knows."""

    def __init__(self, server, prompt, params):
        self.socket = Socket(server)
        self.session = self.socket.create()
        self.socket.subscribe(self.session)
        self.message = self.socket.message(self.session, prompt, max_tokens=TOKENS, **params)
        self.frames = []

    def leave(self):
        """The server is gone: keep what came."""
        self.frames += [f for f in self.socket.frames if f.get("session") == self.session and "seq" in f]

    def come_back(self, server):
        self.socket = Socket(server)
        self.socket.subscribe(self.session, max(f["seq"] for f in self.frames))

    def seen(self):
        """The text a client has by now: a snapshot starts anew, deltas append at their offsets."""
        text = b""
        for f in self.frames:
            if f["type"] == "snapshot":
                running = f.get("generating") or {}
                stored = next((m["content"] for m in f["messages"] if m["id"] == self.message), "")
                text = (running["text"] if running.get("message") == self.message else stored).encode()
            elif f["type"] == "delta" and f["message"] == self.message:
                assert f["offset"] == len(text), (f["offset"], len(text))
                text += f["text"].encode()
        return text.decode()


def run(kills, rng, folder, servers):
    server = servers[-1]
    expected = [server.chat(p, max_tokens=TOKENS, **params)[0] for p, params in PROMPTS]
    done, starts, port = 0, [], server.port
    while done < kills:
        readers = [Reader(server, p, params) for p, params in PROMPTS]
        for _ in range(rng.randint(1, 3)):
            time.sleep(rng.uniform(0.02, 0.6))
            executor = server.executor_pid()
            server.process.kill()
            server.process.wait(10)
            for r in readers:
                wait_until(lambda: r.socket.closed, 10, what="the end of a socket")
                r.leave()
            start = time.monotonic()
            server.close()
            servers.append(server := Server(data_dir=folder, port=port, wait=False))
            starts.append(time.monotonic() - start)
            if executor:
                wait_until(lambda: not alive(executor), 5, what="the old executor to be gone")
            for r in readers:
                before = r.seen()
                r.come_back(server)
                stored = server.request("GET", f"/v1/sessions/{r.session}")[2]
                running = stored.get("generating") or {}
                text = running["text"] if running.get("message") == r.message else next(m["content"] for m in stored["messages"] if m["id"] == r.message)
                assert text.startswith(before), ("something seen is missing", before, text)
            done += 1
        for r, text in zip(readers, expected):
            end = r.socket.finished(r.message, 60)
            assert end["type"] == "generation.done", end
            r.leave()
            assert r.seen() == text, (r.seen(), text)
            r.socket.close()
        print(f"{done} kills", flush=True)
    code = server.stop()
    starts.sort()
    print(f"{done} x kill -9 of the front on port {port}: nothing seen was missing, every text as undisturbed, no orphan; "
          f"port open again after {starts[len(starts) // 2]:.2f} s (median), {starts[-1]:.2f} s at most; last exit code {code}")



def main():
    folder = tempfile.mkdtemp(prefix="troupe-front-kills-")
    servers = [Server(data_dir=folder)]
    try:
        run(int(sys.argv[1]) if len(sys.argv) > 1 else 50, random.Random(1), folder, servers)
    finally:
        servers[-1].close()


if __name__ == "__main__":
    main()
