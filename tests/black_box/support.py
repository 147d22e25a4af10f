"""What the black-box tests share: a server started for a test, HTTP and WebSocket talk to it, and its executor to kill."""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from websockets.sync.client import connect

BINARY = os.environ["TROUPE_BINARY"]
CACHE = os.environ["TROUPE_TEST_CACHE"]
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SMOLLM2 = os.path.join(CACHE, "models", "smollm2.gguf")
TINY = os.path.join(CACHE, "tiny", "llama.gguf")
CHAIN = os.path.join(CACHE, "tiny", "chain.gguf")


def record_figure(section, what, figure, tolerance):
    """One row of docs/correctness.md, as tests/support/figures.hpp writes them."""
    if "TROUPE_FIGURES" in os.environ:
        with open(os.environ["TROUPE_FIGURES"], "a") as f:
            f.write(f"{section}\t{what}\t{figure}\t{tolerance}\n")


def wait_until(condition, seconds=30, every=0.02, what="the condition"):
    """Polls; returns the first true value. Tests from outside have nothing else to wait for."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(every)
    raise AssertionError(f"{what} did not come true within {seconds} s")


def alive(pid):
    """A zombie is not alive."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            own = f.read().split()
    except (FileNotFoundError, ProcessLookupError):
        return []
    found = set(own)
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/children") as f:
                found.update(f.read().split())
        except (FileNotFoundError, ProcessLookupError):
            pass
    return [int(p) for p in found]


class Server:
    """`troupe serve` on a free port, with a data directory of its own."""

    def __init__(self, *options, model=SMOLLM2, data_dir=None, port=0, wait=True, env=None, preexec_fn=None):
        self.folder = data_dir or tempfile.mkdtemp(prefix="troupe-test-")
        self.log_path = os.path.join(self.folder, f"log-{time.monotonic_ns()}")
        self.log = open(self.log_path, "w")
        self.process = subprocess.Popen(
            [BINARY, "serve", "--port", str(port), "--data-dir", self.folder, "-m", model, "-t", "2", *options],
            stdout=subprocess.PIPE, stderr=self.log, text=True, env={**os.environ, **(env or {})}, preexec_fn=preexec_fn)
        line = self.process.stdout.readline()
        found = re.match(r"listening on (https?)://(.*):(\d+)$", line.strip())
        if not found:
            self.process.wait(10)
            raise AssertionError(f"no 'listening on' line but {line!r}; log:\n{self.log_text()}")
        self.scheme, self.host, self.port = found[1], found[2].strip("[]"), int(found[3])
        if wait:
            try:
                self.wait_healthy()
            except AssertionError:
                print(f"server log:\n{self.log_text()}")
                self.close()
                raise

    def wait_healthy(self, seconds=40):
        wait_until(lambda: self.health()[0] == 200, seconds, what="health 200")

    def log_text(self):
        self.log.flush()
        with open(self.log_path) as f:
            return f.read()[-6000:]

    # -- HTTP ----------------------------------------------------------------------------------------------------------
    def connection(self, timeout=60):
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def request(self, method, path, body=None, headers=None, timeout=60):
        """(status, headers, parsed JSON or text)"""
        c = self.connection(timeout)
        data = json.dumps(body) if isinstance(body, (dict, list)) else body
        c.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
        r = c.getresponse()
        text = r.read()
        c.close()
        try:
            return r.status, r.headers, json.loads(text)
        except ValueError:
            return r.status, r.headers, text.decode("utf-8", "replace")

    def health(self):
        try:
            status, _, body = self.request("GET", "/health", timeout=10)
            return status, body
        except OSError:
            return 0, {}

    def metric(self, name):
        """Value of the first sample whose name and labels start with `name`."""
        _, _, text = self.request("GET", "/metrics")
        for line in text.splitlines():
            if line.startswith(name):
                return float(line.rsplit(" ", 1)[1])
        return None

    def chat(self, content, **params):
        status, _, body = self.request("POST", "/v1/chat/completions",
                                       {"messages": [{"role": "user", "content": content}], **params})
        assert status == 200, (status, body)
        return body["choices"][0]["message"]["content"], body

    # -- processes -------------------------------------------------------------------------------------------------------
    def executor_pid(self):
        found = [p for p in children(self.process.pid) if alive(p)]
        return found[0] if found else None

    def kill_executor(self, sig=signal.SIGKILL):
        pid = wait_until(self.executor_pid, what="an executor process")
        os.kill(pid, sig)
        return pid

    def stop(self, seconds=10):
        """SIGTERM; returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        finally:
            self.close()

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)
        self.process.stdout.close()
        self.log.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            print(f"server log:\n{self.log_text()}")
        self.close()


class Socket:
    """A WebSocket client of the page's protocol that keeps every frame it got."""

    def __init__(self, server, subscribe=None, start=None, **options):
        self.socket = connect(f"ws://{server.host}:{server.port}/ws", subprotocols=["troupe.v1"], open_timeout=20,
                              max_size=None, ping_interval=None, **options)
        self.frames, self.changed, self.closed = [], threading.Condition(), None
        self.times = []  # when each frame came, by time.monotonic()
        self.next_id = 0
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()
        if subscribe:
            self.subscribe(subscribe, start)

    def _read(self):
        try:
            for text in self.socket:
                frame, at = json.loads(text), time.monotonic()
                with self.changed:
                    self.times.append(at)
                    self.frames.append(frame)
                    self.changed.notify_all()
        except Exception as e:  # closed by the other side: the test looks at `closed`
            self.closed = e
        with self.changed:
            self.closed = self.closed or "closed"
            self.changed.notify_all()

    def send(self, frame):
        self.socket.send(frame if isinstance(frame, (str, bytes)) else json.dumps(frame))

    def ask(self, frame, seconds=30):
        """Sends with a request_id; returns the direct answer."""
        self.next_id += 1
        rid = f"q{self.next_id}"
        self.send({**frame, "request_id": rid})
        return self.wait(lambda f: f.get("request_id") == rid, seconds)

    def wait(self, match, seconds=60, start=0):
        end = time.monotonic() + seconds
        with self.changed:
            while True:
                for f in self.frames[start:]:
                    if match(f):
                        return f
                left = end - time.monotonic()
                if left <= 0 or self.closed:
                    raise AssertionError(f"frame did not come (closed: {self.closed}); last frames: {self.frames[-5:]}")
                self.changed.wait(left)

    def create(self, **settings):
        answer = self.ask({"type": "session.create", "settings": settings})
        assert answer["type"] == "session.created", answer
        return answer["session"]

    def subscribe(self, session, start=None):
        frame = {"type": "subscribe", "session": session}
        if start is not None:
            frame["from"] = start
        answer = self.ask(frame)
        assert answer["type"] == "ack", answer
        return answer

    def message(self, session, content, ident=None, **params):
        """Posts a user message; returns the id of the assistant message made for it."""
        self.next_id += 1
        before = len(self.frames)
        answer = self.ask({"type": "message", "session": session, "id": ident or f"m{self.next_id}-{time.monotonic_ns()}",
                           "content": content, "params": params})
        assert answer["type"] == "message.created", answer
        made = self.wait(lambda f: f["type"] == "message.created" and f.get("session") == session and f["message"]["role"] == "assistant",
                         start=before)
        return made["message"]["id"]

    def finished(self, message, seconds=60):
        """The generation.done (or .error) of a message."""
        return self.wait(lambda f: f["type"] in ("generation.done", "generation.error") and f["message"] == message, seconds)

    def text(self, message):
        """Concatenation of the deltas, with the offsets checked."""
        text = b""
        for f in list(self.frames):
            if f["type"] == "delta" and f["message"] == message:
                assert f["offset"] == len(text), (f, len(text))
                text += f["text"].encode()
        return text.decode()

    def close(self):
        self.socket.close()
        self.thread.join(5)


class MuteSocket:
    """A WebSocket client that says what it is told to and otherwise does nothing: it reads nothing and answers no ping."""

    def __init__(self, server, receive_buffer=None):
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(20)
        self.socket.connect((server.host, server.port))
        self.socket.sendall(b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: troupe.v1\r\n\r\n")
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            piece = self.socket.recv(1)
            assert piece, head
            head += piece
        assert b" 101 " in head, head

    def send(self, frame):
        text = json.dumps(frame).encode()
        assert len(text) < 65536
        size = bytes([0x80 | len(text)]) if len(text) < 126 else bytes([0x80 | 126]) + len(text).to_bytes(2, "big")
        self.socket.sendall(b"\x81" + size + b"\0\0\0\0" + text)  # masked with zeros

    def read(self, last, seconds=30):
        """Reads frames until one for which `last` is true; returns them all."""
        self.socket.settimeout(seconds)
        data, frames = b"", []
        while not frames or not last(frames[-1]):
            size = data[1] & 0x7F if len(data) >= 2 else 0
            head = {126: 4, 127: 10}.get(size, 2)
            length = int.from_bytes(data[2:head], "big") if head > 2 else size
            if len(data) < max(head, 2) or len(data) < head + length:
                piece = self.socket.recv(1 << 20)
                assert piece, "the server has ended the connection"
                data += piece
                continue
            if data[0] == 0x81:
                frames.append(json.loads(data[head:head + length]))
            data = data[head + length:]
        return frames

    def ended(self, seconds=0.0):
        """True if the server has ended the connection; what lies before the end is read and thrown away."""
        self.socket.settimeout(max(seconds, 0.001))
        try:
            while self.socket.recv(1 << 20):
                pass
            return True
        except TimeoutError:
            return False
        except OSError:
            return True

    def close(self):
        self.socket.close()


def sequence_numbers(frames, session):
    """The seq of the session's live events; coalesced ranges are spread out."""
    numbers = []
    for f in frames:
        if f.get("session") == session and f["type"] != "snapshot" and "seq" in f:
            numbers.extend(range(f.get("from_seq", f["seq"]), f["seq"] + 1))
    return numbers


class ServerCase(unittest.TestCase):
    """One server for all tests of a class."""

    options = ()
    model = SMOLLM2

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.options, model=cls.model)

    @classmethod
    def tearDownClass(cls):
        cls.server.close()

    def run(self, result=None):
        before = len(result.failures) + len(result.errors)
        super().run(result)
        if len(result.failures) + len(result.errors) > before:
            print(f"server log:\n{self.server.log_text()}")


def raw_exchange(server, data, seconds=20):
    """Bytes in, all bytes out until the server closes."""
    with socket.create_connection((server.host, server.port), timeout=seconds) as s:
        s.sendall(data)
        out = b""
        while True:
            piece = s.recv(65536)
            if not piece:
                return out
            out += piece
