"""What goes wrong on purpose, for chaos.py and soak.py, and where the time of a recovery goes."""
import bisect
import os
import random
import signal
import socket
import sqlite3
import statistics
import threading
import time

from users import Lost, Socket
from support import MuteSocket, alive, wait_until

STAGES = ("detection", "process start", "loading", "re-prefill", "first token")
ENDING = ("SIGKILL", "SIGKILL while loading", "SIGSTOP until killed", "crash", "abort", "exit", "hang", "device_lost")  # of the executor
DEADLINES = ("hang", "SIGSTOP until killed")  # found by a progress deadline of at least 2 s, not by a death


def send_signal(pid, number):
    """False if it is gone already."""
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False


class Faults:
    """Kinds with their weights; each does one thing to `world` and says whether it could."""

    def __init__(self, world, seed=1, small_disk=False, hidden=()):
        self.world, self.random, self.small_disk = world, random.Random(seed), small_disk
        self.counts, self.moments, self.front_starts = {}, [], []
        self.recoveries = {}  # (generation of the front, epoch) -> what /admin/state said of it
        self.kinds = {name: (weight, act) for name, weight, act in self.table() if name not in hidden}

    def table(self):
        steps = lambda: self.random.randrange(12)
        arm = lambda **fault: lambda: self.arm(**fault, after_steps=steps())
        return [
            ("SIGKILL", 8, self.kill), ("SIGKILL while loading", 1, self.kill_twice), ("SIGSTOP for a while", 1, self.pause),
            ("SIGSTOP until killed", 1, self.freeze), ("crash", 2, arm(kind="crash")), ("abort", 2, arm(kind="abort")),
            ("exit", 2, arm(kind="exit")), ("hang", 1, arm(kind="hang")), ("device_lost", 1, arm(kind="device_lost")),
            ("alloc_fail", 1, arm(kind="alloc_fail")), ("slow", 1, arm(kind="slow", slow_ms=400, times=2)),
            ("non-finite", 1, self.not_a_number), ("poison beside innocents", 1, self.poison),
            ("session crash", 1, self.crash_session), ("tokenizer crash", 1, lambda: self.arm(target="tokenizer", kind="crash")),
            ("store crash", 1, arm(target="store", kind="crash")), ("operator restart", 1, self.restart), ("operator compaction", 1, self.compact),
            ("slow HTTP reader", 1, self.slow_reader), ("slow WebSocket reader", 1, self.slow_socket), ("reconnect storm", 1, self.storm),
            ("full disk", 1, self.full_disk), ("locked database", 1, self.locked_database), ("kill -9 of the front", 1, self.kill_front),
        ]

    @property
    def server(self):
        return self.world.server

    def one(self, name=None):
        """A fault of this kind, or of a random one; then waits until the executor is at work again."""
        names = list(self.kinds)
        name = name or self.random.choices(names, [self.kinds[n][0] for n in names])[0]
        try:
            begun = time.monotonic()
            done = self.kinds[name][1]()
            if done:
                self.counts[name] = self.counts.get(name, 0) + 1
            self.settle(begun if done and name in ENDING else 0)
            if name in ENDING:
                self.progress()
        except Exception as e:
            self.world.odd_faults += 1
            self.world.complain(f"fault {name} did not go as it should: {e!r}")
        return name

    def state(self):
        return self.server.request("GET", "/admin/state")[2]

    def settle(self, begun):
        """Waits until an executor's end after `begun` was noticed and nothing is being recovered; notes what the supervisor tells."""
        def settled():
            supervisor = self.state()["supervisor"]
            for r in supervisor["recoveries"]:
                self.recoveries[self.world.generation, r["epoch"]] = r
            last = supervisor["recoveries"][-1] if supervisor["recoveries"] else None
            noticed = not begun or (last and last["noticed_us"] > 1e6 * begun) or time.monotonic() > begun + 20
            return noticed and supervisor["status"] in ("ok", "degraded") and (not last or last["first_row_us"])
        wait_until(settled, 100, 0.05, "an executor at work")

    def progress(self):
        """Lets those who were interrupted get on: who dies alone of the same tokens again and again is the culprit, by the rules."""
        made = lambda: self.server.metric("troupe_generated_tokens_total") or 0
        start, end = made(), time.monotonic() + 3
        while time.monotonic() < end and made() < start + 60:
            time.sleep(0.05)

    # -- the executor --------------------------------------------------------------------------------------------------
    def signal(self, number, kind):
        pid = self.server.executor_pid()
        if not pid or not self.server.metric("troupe_running"):
            return None
        at = time.monotonic()
        if not send_signal(pid, number):
            return None
        self.moments.append((at, kind))
        return pid

    def kill(self):
        return self.signal(signal.SIGKILL, "SIGKILL")

    def kill_twice(self):
        """The successor is killed as well, somewhere while it starts and loads."""
        first = self.signal(signal.SIGKILL, "SIGKILL while loading")
        if not first:
            return False
        second = wait_until(lambda: next((p for p in [self.server.executor_pid()] if p and p != first), None), 20, 0.002, "a successor")
        time.sleep(self.random.uniform(0, 0.15))
        return send_signal(second, signal.SIGKILL)

    def pause(self):
        pid = self.server.executor_pid()
        if not pid:
            return False
        send_signal(pid, signal.SIGSTOP)
        time.sleep(self.random.uniform(0.1, 1.5))  # shorter than any deadline
        return send_signal(pid, signal.SIGCONT)

    def freeze(self):
        pid = self.signal(signal.SIGSTOP, "SIGSTOP until killed")
        return pid and wait_until(lambda: not alive(pid), 30, 0.02, "the end of a frozen executor")

    def arm(self, **fault):
        status, _, body = self.server.request("POST", "/admin/faults", fault)
        if status != 200:
            raise Lost(f"{fault}: {status} {body}")
        return True

    def marked(self, word, code, seconds=120):
        """A request that names `word` must end with exactly this error."""
        status, _, body = self.server.request("POST", "/v1/chat/completions", {
            "messages": [{"role": "user", "content": f"Here is the {word}."}], "max_tokens": 20}, timeout=seconds)
        if status != 500 or body["error"]["code"] != code:
            raise Lost(f"{word}: {status} {body}")
        return True

    def not_a_number(self):
        """Ends exactly the answer that asked for it, with its typed error."""
        word = f"nan-{time.monotonic_ns()}"
        for _ in range(4):
            restarts = self.state()["supervisor"]["restarts"]
            self.arm(kind="nan", request_contains=word)
            try:
                return self.marked(word, "non_finite_logits")
            except Lost:  # the step in which it fired died of something else: then it never happened
                if self.state()["supervisor"]["restarts"] == restarts:
                    raise
        return False

    def poison(self):
        """A request that kills the executor each time fails alone; the users beside it do not notice."""
        word = f"poison-{time.monotonic_ns()}"
        self.arm(kind="crash", times=24, request_contains=word)
        self.marked(word, "executor_poisoned")
        self.world.poisoned += 1
        while any(f["kind"] == "crash" for f in self.state()["supervisor"]["faults"]):  # what is left would hit the next marked request
            try:
                self.marked(word, "executor_poisoned")
                self.world.poisoned += 1
            except Lost:
                break  # the last of them are used up: it was answered
        return True

    def crash_session(self):
        self.world.session_crashes += 1
        return self.arm(target="session", kind="crash", after_steps=self.random.randrange(12))

    def restart(self):
        self.moments.append((time.monotonic(), "operator restart"))
        return self.server.request("POST", "/admin/executor/restart")[0] == 200

    def compact(self):
        return self.server.request("POST", "/admin/compact")[0] == 200

    # -- clients -------------------------------------------------------------------------------------------------------
    def slow_reader(self):
        """Asks for a long answer and does not read it."""
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect((self.server.host, self.server.port))
        body = b'{"messages":[{"role":"user","content":"Write."}],"stream":true,"max_tokens":60,"user":"slow"}'
        s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        threading.Timer(3, s.close).start()
        return True

    def slow_socket(self):
        """Follows a session with much to say in it, again and again, and does not read: the socket is dropped, the session stays."""
        imported = {"format": "troupe.session.v1", "id": f"ses_slow{time.monotonic_ns()}", "title": "long", "leaf": "m0",
                    "messages": [{"id": "m0", "parent": "", "role": "user", "content": "x" * 400_000, "created": 1}]}
        status, _, body = self.server.request("POST", "/v1/sessions/import", imported)
        if status != 201:
            raise Lost(f"import: {status} {body}")
        dropped = lambda: self.server.metric("troupe_slow_clients_dropped_total") or 0
        before, s = dropped(), MuteSocket(self.server, 4096)

        def ask_again():
            s.send({"type": "subscribe", "session": body["id"]})
            return dropped() > before
        try:
            wait_until(ask_again, 20, 0.02, "a reader that is too slow to be dropped")
        except OSError:
            pass  # dropped between two sends
        s.close()
        if self.server.request("DELETE", f"/v1/sessions/{body['id']}")[0] not in (200, 204):
            raise Lost("a slow reader's session is gone")
        return True

    def storm(self):
        """Sockets that come and go without a word, and some that ask for a replay first."""
        session = next((s["id"] for s in self.server.request("GET", "/v1/sessions?limit=1")[2]["data"]), None)
        for i in range(20):
            s = Socket(self.server)
            if session and i % 2:
                s.send({"type": "subscribe", "session": session, "from": i})
            s.close()
        return True

    # -- the disk ------------------------------------------------------------------------------------------------------
    def healed(self):
        degraded = lambda: [r for r in self.server.health()[1].get("reasons", []) if "persistence" in r]
        wait_until(lambda: not degraded(), 30, 0.1, "persistence to heal")
        return True

    def full_disk(self):
        """The data directory's file system (a small tmpfs) is filled for a while."""
        if not self.small_disk:
            return False
        path = os.path.join(self.server.folder, "filler")
        with open(path, "wb", buffering=0) as f:
            try:
                while True:
                    f.write(b"\0" * 4096)
            except OSError:
                pass
        time.sleep(self.random.uniform(0.3, 2))
        os.remove(path)
        return self.healed()

    def locked_database(self):
        """Somebody else holds the write lock."""
        db = sqlite3.connect(os.path.join(self.server.folder, "troupe.db"), timeout=5, isolation_level=None)
        try:
            db.execute("BEGIN IMMEDIATE")
            time.sleep(self.random.uniform(0.2, 2))
            db.execute("ROLLBACK")
        finally:
            db.close()
        return self.healed()

    # -- the front -----------------------------------------------------------------------------------------------------
    def kill_front(self):
        self.front_starts.append(self.world.kill_front())
        return True

    # -- figures -------------------------------------------------------------------------------------------------------
    def splits(self):
        """(kind of fault, seconds of each stage) for every recovery whose beginning is known, that took one attempt, and that
        somebody to whom text was being streamed has waited for."""
        streams, found, earlier = list(self.world.streams.values()), [], {}
        for (generation, epoch), r in sorted(self.recoveries.items()):
            attempts = epoch - earlier.get(generation, 1)
            earlier[generation] = epoch
            at, kind = r["fired_us"] / 1e6, r["reason"].split(" (")[0]
            known = [m for m in self.moments if m[0] <= r["noticed_us"] / 1e6 < m[0] + 40]
            if known and known[-1][0] > at:
                at, kind = known[-1]
            after = [s[i] for s in streams if s[0] < at for i in [bisect.bisect_left(s, r["first_row_us"] / 1e6)] if i < len(s)]
            if attempts != 1 or not at or not r["first_row_us"] or not after:
                continue
            t = {k: r[k + "_us"] / 1e6 for k in ("noticed", "loading", "loaded", "ready", "first_row")}
            found.append((kind, (t["noticed"] - at, t["loading"] - t["noticed"] + t["ready"] - t["loaded"], t["loaded"] - t["loading"],
                                 t["first_row"] - t["ready"], min(after) - t["first_row"])))
        return found


def stage_table(rows):
    """Markdown: how each stage, the total, and the total without the model's own work are distributed."""
    split = [list(r) + [sum(r), r[0] + r[1] + r[4]] for r in rows]
    lines = ["| stage | median | p90 | longest |", "|---|---:|---:|---:|"]
    for i, name in enumerate((*STAGES, "**total**", "**without loading and re-prefill**")):
        v = sorted(s[i] for s in split)
        lines.append(f"| {name} | {statistics.median(v):.3f} | {v[int(len(v) * 0.9)]:.3f} | {v[-1]:.3f} |")
    return lines
