"""What users do while things go wrong, for chaos.py and soak.py: every text is compared with that of the undisturbed run.

A user tells an answer that was lost or changed from a socket that was closed, and knows the one reason that excuses a
closed socket: the script has just killed the front itself. Then it comes back as the page does, with the last sequence
number it has seen, or asks again where the protocol keeps nothing (a plain HTTP request).
"""
import http.client
import json
import os
import random
import sys
import threading
import time

from websockets.exceptions import WebSocketException

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "black_box"))
from support import Server, Socket, alive  # noqa: E402

PROMPTS = [
    ("Write a short story about a lighthouse.", {"temperature": 0}),
    ("List ten animals and what they eat.", {"temperature": 0}),
    ("Write a poem about the sea.", {"temperature": 1.1, "seed": 41}),
    ("Explain how bread is made.", {"temperature": 0.8, "seed": 42, "top_k": 0, "repeat_penalty": 1.1}),
    ("Tell me about rivers.", {"temperature": 0}),
    ("Describe a journey by train.", {"temperature": 0.9, "seed": 7}),
]
TURNS = [("I keep bees.", {"temperature": 0}), ("What do they eat?", {"temperature": 0.9, "seed": 3}),
         ("And in winter?", {"temperature": 0}), ("Thank you.", {"temperature": 0.7, "seed": 5})]
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 120},
                                           "kind": {"enum": ["cat", "dog"]}}, "required": ["name", "age", "kind"], "additionalProperties": False}
FORM = {"type": "json_schema", "json_schema": {"name": "pet", "strict": True, "schema": SCHEMA}}
EMBEDDED = ["A cat sat on the mat.", "Interest rates rose sharply."]
PLAIN, SESSION_DIED = ("once", "stream", "structured", "embedding"), "the part of the engine that kept this answer failed"
GONE = (OSError, http.client.HTTPException, WebSocketException)


class Closed(Exception):
    """A connection ended though nobody had killed the front."""


class Lost(Exception):
    """An answer did not come, or not the right one."""


class FrontDied(Exception):
    """The script killed the front while this was under way."""


class World:
    """The server under test, which may be followed by another one on the same port, and what was found out about it."""

    def __init__(self, *options, folder=None, tokens=64, **server):
        self.options, self.folder, self.tokens, self.server_options = options, folder, tokens, server
        self.lock, self.stop, self.up = threading.Lock(), threading.Event(), threading.Event()
        self.generation = 0  # fronts killed so far; raised before the kill
        self.complaints, self.closed, self.quiet = [], 0, False
        self.answers, self.latencies, self.streams = {}, {}, {}  # streams: message or request -> when its pieces came
        self.reconnects = self.retried = self.lost_metric = self.restarts = self.poisoned = 0
        self.session_crashes = self.typed_errors = self.odd_faults = 0
        self.server = None

    def start(self):
        self.server = Server(*self.options, data_dir=self.folder, **self.server_options)
        self.folder = self.server.folder
        self.up.set()

    def close(self):
        if self.server:
            self.server.close()

    # -- the front's death ---------------------------------------------------------------------------------------------
    def count_front(self):
        """Its counters go with it."""
        self.lost_metric += self.server.metric("troupe_requests_lost_total") or 0
        self.restarts += self.server.health()[1].get("executor", {}).get("restarts", 0)

    def kill_front(self, seconds=60):
        """kill -9 and a successor on the same port; returns (seconds until the port was open, until health was good)."""
        self.count_front()
        executor, port = self.server.executor_pid(), self.server.port
        with self.lock:
            self.up.clear()
            self.generation += 1
        start = time.monotonic()
        self.server.process.kill()
        self.server.process.wait(10)
        self.server.close()
        self.server = Server(*self.options, data_dir=self.folder, port=port, wait=False, **self.server_options)
        opened = time.monotonic() - start
        self.up.set()
        self.server.wait_healthy(seconds)
        if executor and alive(executor):
            self.complain(f"the executor {executor} outlived its front")
        return opened, time.monotonic() - start

    def before(self):
        """The generation to name to `excused` later; waits while there is no front."""
        generation = self.generation  # read first: if the front is killed while this waits, that is no surprise
        self.up.wait(120)
        return generation

    def excused(self, generation):
        """After a broken connection: true if the front was killed since; then waits until another one serves."""
        if generation == self.generation:
            return False
        if not self.up.wait(120):
            raise Lost("no front came back")
        return True

    def blocks_owned(self, seconds=10):
        """KV blocks that still belong to requests once all have ended; must become none."""
        end = time.monotonic() + seconds
        while True:
            owned = self.server.metric('troupe_kv_blocks{state="owned"')
            if not owned:
                return 0
            if time.monotonic() > end:
                self.complain(f"{owned:g} KV blocks are still owned")
                return owned
            time.sleep(0.1)

    # -- the book ------------------------------------------------------------------------------------------------------
    def complain(self, text):
        with self.lock:
            self.complaints.append(text[:600])
        if not self.quiet:
            print(text[:600], file=sys.stderr, flush=True)

    def answered(self, kind, seconds, good, got, expected):
        with self.lock:
            self.answers[kind] = self.answers.get(kind, 0) + 1
            self.latencies.setdefault(kind, []).append(seconds)
        if not good:
            self.complain(f"{kind}: changed: {str(got)[:200]!r} instead of {str(expected)[:200]!r}")

    @property
    def good(self):
        return not self.complaints and not self.closed and self.lost_metric == self.poisoned and self.typed_errors <= self.session_crashes


class Conversation:
    """One session on /ws that outlives sockets and fronts: what it has seen is all it knows."""

    def __init__(self, world, rng=None, drop=0.0):
        self.world, self.rng, self.drop = world, rng or random.Random(0), drop
        self.socket = self.session = None
        self.frames, self.taken = [], 0
        self.generation = self.heard = world.generation  # of the front now, and of the one the last frame came from

    # -- the connection ------------------------------------------------------------------------------------------------
    def connect(self):
        self.generation = self.world.before()
        try:
            self.socket, self.taken = Socket(self.world.server), 0
            if self.session is None:
                answer = self.ask({"type": "session.create", "settings": {}})
                self.session = answer["session"]
            frame = {"type": "subscribe", "session": self.session}
            last = max((f["seq"] for f in self.frames), default=None)
            self.ask({**frame, "from": last} if last is not None else frame)
        except (AssertionError, *GONE) as e:
            self.broken(e)

    def broken(self, why):
        """The socket is gone: either the front was killed, or the server has broken its word."""
        self.take()
        socket, self.socket = self.socket, None
        if self.world.excused(self.generation):
            self.world.reconnects += 1
            raise FrontDied()
        if socket and not socket.closed:
            raise Lost(f"no answer: {why!r}")
        raise Closed(f"{why!r} (closed: {socket.closed if socket else None})"[:400])

    def ask(self, frame):
        """One direct answer; an error frame is an answer lost, unless a front that just came up is not ready yet."""
        while True:
            answer = self.socket.ask(frame)
            code = answer.get("error", {}).get("code") if answer["type"] == "error" else None
            if code in ("not_ready", "shutting_down") and self.generation > 0:
                time.sleep(0.1)
                continue
            if code:
                raise Lost(f"{frame['type']} was answered with {answer}")
            return answer

    def leave(self):
        """Goes away without a word and comes back later."""
        self.take()
        if self.socket:
            self.socket.close()
        self.take()
        self.socket = None

    def take(self):
        """New events of the session, checked for gaps; a front's successor may skip numbers, never repeat one."""
        if self.socket is None:
            return
        new, times = self.socket.frames[self.taken:], self.socket.times[self.taken:]
        self.taken += len(new)
        for f, at in zip(new, times):
            if f.get("session") != self.session or "seq" not in f:
                continue
            last = self.frames[-1]["seq"] if self.frames else None
            first = f.get("from_seq", f["seq"])
            if last is not None and f["type"] != "snapshot" and (first <= last or (first > last + 1 and self.generation == self.heard)):
                raise Lost(f"event {first}..{f['seq']} after {last}")
            self.heard = self.generation
            self.frames.append(f)
            if f["type"] == "delta":
                self.world.streams.setdefault(f["message"], []).append(at)

    # -- a turn --------------------------------------------------------------------------------------------------------
    def turn(self, content, params, seconds=150):
        """Sends a message and returns (text as seen, the end frame or stored message); survives whatever happens."""
        ident, message, end = f"u{time.monotonic_ns()}", None, time.monotonic() + seconds
        while True:
            try:
                if self.socket is None:
                    self.connect()
                if message is None:
                    self.ask({"type": "message", "session": self.session, "id": ident, "content": content, "params": params})
                    message = self.assistant(ident, end)
                if self.drop and self.rng.random() < self.drop:
                    time.sleep(self.rng.uniform(0, 0.5))
                    self.leave()
                    self.world.reconnects += 1
                    self.connect()
                return self.seen(message), self.wait_end(message, end), message
            except FrontDied:
                continue
            except (AssertionError, *GONE) as e:
                try:
                    self.broken(e)
                except FrontDied:
                    continue

    def wait(self, find, end):
        while True:
            self.take()
            found = find()
            if found is not None:
                return found
            if time.monotonic() > end:
                raise Lost(f"nothing came any more; last events {[f['type'] for f in self.frames[-5:]]}")
            if self.socket.closed:
                self.broken(self.socket.closed)
            with self.socket.changed:
                if len(self.socket.frames) == self.taken and not self.socket.closed:
                    self.socket.changed.wait(0.25)

    def assistant(self, ident, end):
        """The id of the answer to the message `ident`."""
        def find():
            for f in reversed(self.frames):
                made = [f["message"]] if f["type"] == "message.created" else f["messages"] if f["type"] == "snapshot" else []
                for m in made:
                    if m["role"] == "assistant" and m["parent"] == ident:
                        return m["id"]
        return self.wait(find, end)

    def wait_end(self, message, end):
        def find():
            for f in reversed(self.frames):
                if f["type"] in ("generation.done", "generation.error") and f["message"] == message:
                    return f
                if f["type"] == "session.deleted":
                    raise Lost("the session was deleted")
                if f["type"] == "snapshot":
                    stored = next((m for m in f["messages"] if m["id"] == message), {})
                    return {"type": "generation.error", **stored} if stored.get("error") else stored if stored.get("finish_reason") else None
        return self.wait(find, end)

    def seen(self, message):
        """The text a client shows by now, as a function: a snapshot starts anew, deltas append at their offsets."""
        def text():
            text = b""
            for f in self.frames:
                if f["type"] == "snapshot":
                    running = f.get("generating") or {}
                    stored = next((m["content"] for m in f["messages"] if m["id"] == message), "")
                    text = (running["text"] if running.get("message") == message else stored).encode()
                elif f["type"] == "delta" and f["message"] == message:
                    if f["offset"] != len(text):
                        raise Lost(f"a delta at {f['offset']} where {len(text)} bytes were seen")
                    text += f["text"].encode()
            return text.decode()
        return text

    def close(self):
        if self.socket:
            self.socket.close()


class Users:
    """The kinds of users; `expected` is what the undisturbed server said."""

    def __init__(self, world, seed=1, hidden=(), think=0.0):
        """`think`: seconds between what a user does, on average."""
        self.world, self.seed, self.think = world, seed, think
        self.kinds = [k for k in ("websocket", "conversation", "once", "stream", "session_http", "structured", "embedding", "cancel")
                      if k not in hidden]
        self.expected = {}

    def params(self, extra):
        return {"max_tokens": self.world.tokens, **extra}

    def undisturbed(self):
        """Everything the users will ask for, asked once by one client at a time."""
        s, made = self.world.server, {}
        made["prompts"] = [s.chat(p, **self.params(extra))[0] for p, extra in PROMPTS]
        made["structured"] = self.structured_once()
        made["embedding"] = self.embed_once()
        c = Conversation(self.world)
        made["turns"] = [c.turn(t, self.params(extra))[0]() for t, extra in TURNS]
        c.close()
        return made

    # -- plain HTTP: nothing is kept for who asks, so after the front's death one asks again ---------------------------
    def again(self, ask):
        while True:
            generation = self.world.before()
            try:
                status, body = ask()
            except GONE as e:
                if not self.world.excused(generation):
                    raise Closed(repr(e)) from e
                self.world.retried += 1
                continue
            if status == 503 and self.world.generation > 0 and body["error"]["code"] in ("not_ready", "shutting_down"):
                time.sleep(0.1)
                continue
            if status not in (200, 201):
                raise Lost(f"{status} {body}")
            return body

    def post(self, path, body):
        status, _, answer = self.world.server.request("POST", path, body, timeout=150)
        return status, answer

    def chat_once(self, prompt, extra):
        body = self.again(lambda: self.post("/v1/chat/completions", {"messages": [{"role": "user", "content": prompt}], **self.params(extra)}))
        return body["choices"][0]["message"]["content"]

    def structured_once(self):
        return self.chat_once("Describe a pet in JSON.", {"temperature": 0, "response_format": FORM, "max_tokens": 60})

    def embed_once(self):
        return [e["embedding"] for e in self.again(lambda: self.post("/v1/embeddings", {"input": EMBEDDED}))["data"]]

    def once(self, rng):
        i = rng.randrange(len(PROMPTS))
        return self.chat_once(*PROMPTS[i]), self.expected["prompts"][i]

    def structured(self, _):
        return self.structured_once(), self.expected["structured"]

    def embedding(self, _):
        return self.embed_once(), self.expected["embedding"]

    def stream(self, rng):
        """Server-sent events: must end with [DONE], and say nothing but what the whole answer says."""
        i = rng.randrange(len(PROMPTS))
        prompt, extra = PROMPTS[i]

        def ask():
            c, id_ = self.world.server.connection(150), time.monotonic_ns()
            try:
                c.request("POST", "/v1/chat/completions", json.dumps({"messages": [{"role": "user", "content": prompt}], "stream": True,
                                                                      **self.params(extra)}), {"Content-Type": "application/json"})
                r = c.getresponse()
                if r.status != 200:
                    return r.status, json.loads(r.read())
                text = ""
                for line in r:
                    if line.startswith(b"data: [DONE]"):
                        return 200, text
                    if line.startswith(b"data: "):
                        piece = json.loads(line[6:])
                        if "error" in piece:
                            raise Lost(str(piece))
                        new = "".join(choice["delta"].get("content") or "" for choice in piece["choices"])
                        if new:
                            self.world.streams.setdefault(id_, []).append(time.monotonic())
                        text += new
                raise http.client.IncompleteRead(text.encode())
            finally:
                c.close()
        return self.again(ask), self.expected["prompts"][i]

    def session_http(self, rng):
        """The session routes: what was begun there goes on without its client, and is found again."""
        i = rng.randrange(len(PROMPTS))
        prompt, extra = PROMPTS[i]
        session = self.again(lambda: self.post("/v1/sessions", {}))["id"]
        body = {"content": prompt, "id": f"h{time.monotonic_ns()}", "params": self.params(extra)}
        generation = self.world.generation

        def ask():
            if self.world.generation == generation:
                return self.post(f"/v1/sessions/{session}/messages?wait=true", body)
            found = self.stored_answer(session, body["id"])  # the front died meanwhile: is it there, and does it go on?
            return found if found else self.post(f"/v1/sessions/{session}/messages?wait=true", body)
        return self.again(ask)["message"]["content"], self.expected["prompts"][i]

    def stored_answer(self, session, ident):
        """(200, like the answer of wait=true) as soon as the stored answer is complete; None if the question is not stored."""
        end = time.monotonic() + 150
        while time.monotonic() < end:
            status, _, view = self.world.server.request("GET", f"/v1/sessions/{session}")
            if status == 503:
                time.sleep(0.1)
                continue
            if status != 200:
                raise Lost(f"session {session}: {status} {view}")
            answers = [m for m in view["messages"] if m["parent"] == ident]
            if not any(m["id"] == ident for m in view["messages"]):
                return None
            if answers and (answers[0].get("error") or answers[0].get("finish_reason")) and not view.get("generating"):
                if answers[0].get("error"):
                    raise Lost(str(answers[0]))
                return 200, {"message": answers[0]}
            time.sleep(0.1)
        raise Lost(f"the answer in {session} never ended")

    # -- sessions over WebSocket ---------------------------------------------------------------------------------------
    def websocket(self, rng):
        i = rng.randrange(len(PROMPTS))
        c = Conversation(self.world, rng, drop=0.35)
        text = self.talk(c, PROMPTS[i])
        c.close()
        return text, self.expected["prompts"][i]

    def conversation(self, rng):
        """A history that grows, on one socket."""
        c = Conversation(self.world, rng, drop=0.1)
        texts = [self.talk(c, turn) for turn in TURNS]
        c.close()
        return texts, self.expected["turns"]

    def talk(self, c, turn):
        """One turn; what was seen must be what is stored."""
        seen, end, message = c.turn(turn[0], self.params(turn[1]))
        if end.get("type") == "generation.error":
            raise Lost(str(end))
        view = self.again(lambda: self.world.server.request("GET", f"/v1/sessions/{c.session}")[::2])
        stored = next((m["content"] for m in view["messages"] if m["id"] == message), None)
        if seen() != stored:
            raise Lost(f"seen {seen()[-80:]!r}, stored {str(stored)[-80:]!r}")
        return stored

    def cancel(self, rng):
        """Stops by word or goes away: what was said until then must be how the whole answer begins."""
        i = rng.randrange(len(PROMPTS))
        c = Conversation(self.world, rng)
        timer = threading.Timer(rng.uniform(0.05, 0.8), lambda: self.stop_session(c))
        timer.start()
        seen, end, _ = c.turn(PROMPTS[i][0], self.params(PROMPTS[i][1]))
        timer.cancel()
        c.close()
        text = seen()
        if end.get("type") == "generation.error" or not self.expected["prompts"][i].startswith(text):
            return text, self.expected["prompts"][i]
        return True, True

    def stop_session(self, c):
        try:
            if c.session:
                self.world.server.request("POST", f"/v1/sessions/{c.session}/stop", {})
        except GONE:
            pass

    # -- everybody -----------------------------------------------------------------------------------------------------
    def act(self, kind, rng):
        start = time.monotonic()
        try:
            got, expected = getattr(self, kind)(rng)
            self.world.answered(kind, time.monotonic() - start, got == expected, got, expected)
        except Closed as e:
            with self.world.lock:
                self.world.closed += 1
            self.world.complain(f"{kind}: closed without a reason: {e}")
        except BaseException as e:
            # A plain request's session is stored nowhere: when its actor dies, a typed error is all there can be.
            if kind in PLAIN and SESSION_DIED in str(e):
                with self.world.lock:
                    self.world.typed_errors += 1
            else:
                self.world.complain(f"{kind}: lost: {e!r}")

    def user(self, number):
        rng = random.Random(self.seed * 1000 + number)
        while not self.world.stop.is_set():
            self.act(rng.choice(self.kinds), rng)
            self.world.stop.wait(rng.uniform(0, 2 * self.think))

    def start(self, n):
        self.threads = [threading.Thread(target=self.user, args=(i,), daemon=True) for i in range(n)]
        for t in self.threads:
            t.start()

    def join(self):
        self.world.stop.set()
        for t in self.threads:
            t.join(180)
            if t.is_alive():
                self.world.complain("a user never got its answer")


def drop_delta(conversation):
    end = time.monotonic() + 20
    while time.monotonic() < end:
        for f in list(conversation.frames):
            if f["type"] == "delta":
                return conversation.frames.remove(f)
        time.sleep(0.01)


def sabotage(users):
    """Breaks answers on purpose; returns what went unnoticed. A comparison that cannot fail proves nothing."""
    world, server, unnoticed = users.world, users.world.server, []
    world.quiet = True

    def expect(kind, act, word):
        before, closed = len(world.complaints), world.closed
        act()
        new = world.complaints[before:]
        if len(new) != 1 or word not in new[0]:
            unnoticed.append(f"{kind}: {new}")
        del world.complaints[before:]
        world.closed = closed
        world.answers.pop("broken", None)
        world.latencies.pop("broken", None)

    class Interfering(Users):
        def __init__(self, deed):
            super().__init__(world)
            self.expected, self.deed = users.expected, deed

        def broken(self, rng):
            c = Conversation(world)
            timer = threading.Timer(0.15, lambda: self.deed(c))
            timer.start()
            try:
                return self.talk(c, (PROMPTS[0][0], {"temperature": 0, "max_tokens": 400, "ignore_eos": True})), self.expected["prompts"][0]
            finally:
                timer.join()
                c.close()

    rng = random.Random(0)
    deeds = {
        "an answer somebody else stopped": (lambda c: server.request("POST", f"/v1/sessions/{c.session}/stop", {}), "changed"),
        "a session deleted under its reader": (lambda c: server.request("DELETE", f"/v1/sessions/{c.session}"), "lost"),
        "a socket cut on the way": (lambda c: c.socket.socket.socket.shutdown(2), "closed without a reason"),
        "a delta that never arrived": (drop_delta, "lost"),
    }
    for kind, (deed, word) in deeds.items():
        expect(kind, lambda deed=deed: Interfering(deed).act("broken", rng), word)
    world.quiet = False
    return list(deeds), unnoticed
