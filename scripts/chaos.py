"""Faults of every kind against a server that is working, every text compared with the undisturbed run: chaos.py [options]

Writes a report with the share of each kind of fault, what was lost (nothing may be), and where recovery time goes.
Run it through scripts/chaos, which builds and finds the binary.
"""
import argparse
import os
import platform
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "black_box"))
from plots import stacked_bars  # noqa: E402
from support import Server, Socket, alive, sequence_numbers, wait_until  # noqa: E402

REQUESTS = [
    ("Write a short story about a lighthouse.", {"temperature": 0}),
    ("List ten animals and what they eat.", {"temperature": 0}),
    ("Write a poem about the sea.", {"temperature": 1.1, "seed": 41}),
    ("Explain how bread is made.", {"temperature": 0.8, "seed": 42, "top_k": 0, "repeat_penalty": 1.1}),
    ("Tell me about rivers.", {"temperature": 0}),
    ("Describe a journey by train.", {"temperature": 0.9, "seed": 7}),
]
TOKENS = 64
WORKERS = 4
NAN_MARK = "nan-victim"
STAGES = ("detection", "process start and loading", "re-prefill and first token")


class Chaos:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.faults, self.wrong, self.recoveries = {}, [], []
        self.answers = self.reconnects = 0
        self.stop = threading.Event()

    # -- what users do -------------------------------------------------------------------------------------------------
    def undisturbed(self, server):
        return [server.chat(prompt, max_tokens=TOKENS, **params)[0] for prompt, params in REQUESTS]

    def over_websocket(self, index, rng):
        """A session of its own; the socket is sometimes dropped and the answer taken up again."""
        prompt, params = REQUESTS[index]
        s = Socket(self.server)
        session = s.create()
        s.subscribe(session)
        message = s.message(session, prompt, max_tokens=TOKENS, **params)
        if rng.random() < 0.4:
            time.sleep(rng.uniform(0, 0.6))
            s.close()  # gone is not stop
            seen = [f for f in s.frames if f.get("session") == session and "seq" in f]
            again = Socket(self.server)
            again.frames.extend(seen)
            again.subscribe(session, max(f["seq"] for f in seen) if seen else None)
            s = again
            self.reconnects += 1
        done = s.finished(message, 120)
        if done["type"] != "generation.done":
            raise AssertionError(f"ended with {done}")
        numbers = sequence_numbers(s.frames, session)
        if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            raise AssertionError(f"gaps in {numbers}")
        if any(f["type"] == "snapshot" for f in s.frames[-1:]) or s.closed:
            raise AssertionError(f"the socket was closed: {s.closed}")
        stored = self.server.request("GET", f"/v1/sessions/{session}")[2]
        text = next(m["content"] for m in stored["messages"] if m["id"] == message)
        if not any(f["type"] == "snapshot" for f in s.frames) and s.text(message) != text:
            raise AssertionError("the deltas are not the stored text")
        s.close()
        return text

    def over_http(self, index, rng):
        prompt, params = REQUESTS[index]
        if rng.random() < 0.5:
            return self.server.chat(prompt, max_tokens=TOKENS, **params)[0]
        session = self.server.request("POST", "/v1/sessions", {})[2]["id"]
        status, _, body = self.server.request("POST", f"/v1/sessions/{session}/messages?wait=true",
                                              {"content": prompt, "params": {"max_tokens": TOKENS, **params}}, timeout=120)
        if status != 200:
            raise AssertionError((status, body))
        return body["message"]["content"]

    def user(self, number):
        rng = random.Random(number)
        while not self.stop.is_set():
            index = rng.randrange(len(REQUESTS))
            try:
                text = (self.over_websocket if rng.random() < 0.6 else self.over_http)(index, rng)
                with self.lock:
                    self.answers += 1
                    if text != self.expected[index]:
                        self.wrong.append(f"text {index} changed: {text[:80]!r}")
            except BaseException as e:
                with self.lock:
                    self.wrong.append(f"answer {index} lost: {e!r}"[:600])

    # -- what goes wrong -----------------------------------------------------------------------------------------------
    def count(self, kind):
        self.faults[kind] = self.faults.get(kind, 0) + 1

    def kill(self):
        pid = self.server.executor_pid()
        if not pid or not self.server.metric("troupe_running"):
            return False
        at = time.time()
        os.kill(pid, signal.SIGKILL)
        self.split(at)
        return True

    def split(self, at):
        """Where the time from a kill to the next token goes, by the supervisor's own events."""
        def next_token():
            return self.server.metric("troupe_generated_tokens_total") or 0
        events = None

        def ready():
            nonlocal events
            events = [e for e in self.server.request("GET", "/admin/state")[2]["events"] if e["time"] >= int(at * 1000)]
            return any(e["event"] == "ready" for e in events)
        before = next_token()
        wait_until(ready, 60, 0.005, "a successor")
        wait_until(lambda: next_token() > before or not self.server.metric("troupe_running"), 60, 0.005, "a token")
        end = time.time()
        first = {kind: next((e["time"] / 1000 for e in events if e["event"] == kind), None) for kind in ("fault", "ready")}
        if first["fault"] and first["ready"]:
            self.recoveries.append((max(0, first["fault"] - at), first["ready"] - first["fault"], end - first["ready"]))

    def pause(self):
        pid = self.server.executor_pid()
        if not pid:
            return False
        os.kill(pid, signal.SIGSTOP)
        time.sleep(self.random.uniform(0.1, 4))  # shorter than the deadline, or longer: then it is killed
        if alive(pid):
            os.kill(pid, signal.SIGCONT)
        return True

    def arm(self, **fault):
        status, _, body = self.server.request("POST", "/admin/faults", fault)
        if status != 200:
            raise AssertionError((fault, status, body))
        return True

    def not_a_number(self):
        """Ends exactly the answer that asked for it, with its typed error."""
        self.arm(kind="nan", request_contains=NAN_MARK)
        status, _, body = self.server.request("POST", "/v1/chat/completions", {
            "messages": [{"role": "user", "content": f"This is the {NAN_MARK}."}], "max_tokens": 20}, timeout=120)
        if status != 500 or body["error"]["code"] != "non_finite_logits":
            self.wrong.append(f"nan: {status} {body}")
        return True

    def slow_reader(self):
        """Asks for a long answer and does not read it."""
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect((self.server.host, self.server.port))
        body = b'{"messages":[{"role":"user","content":"Write."}],"stream":true,"max_tokens":60,"user":"slow"}'
        s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        threading.Timer(3, s.close).start()
        return True

    def storm(self):
        """Sockets that come and go without a word."""
        for _ in range(20):
            Socket(self.server).close()
        return True

    def full_disk(self):
        """The data directory's file system (a small tmpfs) is filled for a while."""
        if not self.small_disk:
            return False
        path = os.path.join(self.server.folder, "filler")
        with open(path, "wb") as f:
            try:
                while True:
                    f.write(b"\0" * 65536)
                    f.flush()
            except OSError:
                pass
        time.sleep(1.5)
        os.remove(path)
        return True

    def one_fault(self):
        kinds = {
            "SIGKILL": (6, self.kill), "SIGSTOP": (1, self.pause), "crash": (2, lambda: self.arm(kind="crash", after_steps=self.random.randrange(12))),
            "abort": (1, lambda: self.arm(kind="abort", after_steps=self.random.randrange(12))),
            "exit": (1, lambda: self.arm(kind="exit", after_steps=self.random.randrange(12))),
            "hang": (1, lambda: self.arm(kind="hang", after_steps=self.random.randrange(12))),
            "device_lost": (1, lambda: self.arm(kind="device_lost", after_steps=self.random.randrange(12))),
            "alloc_fail": (1, lambda: self.arm(kind="alloc_fail")), "slow": (1, lambda: self.arm(kind="slow", slow_ms=400, times=2)),
            "nan": (1, self.not_a_number), "session": (1, lambda: self.arm(target="session", kind="crash", after_steps=self.random.randrange(8))),
            "tokenizer": (1, lambda: self.arm(target="tokenizer", kind="crash")), "store": (1, lambda: self.arm(target="store", kind="crash", after_steps=3)),
            "operator restart": (1, lambda: self.server.request("POST", "/admin/executor/restart")[0] == 200),
            "slow reader": (1, self.slow_reader), "reconnect storm": (1, self.storm), "full disk": (1, self.full_disk),
        }
        names = list(kinds)
        name = self.random.choices(names, [kinds[n][0] for n in names])[0]
        if kinds[name][1]():
            self.count(name)

    def run(self, minutes, folder, small_disk):
        self.small_disk = small_disk
        with Server("--fault-injection", "--queue-limit", "256", data_dir=folder) as self.server:
            self.expected = self.undisturbed(self.server)
            front = self.server.process.pid
            end = time.monotonic() + 60 * minutes
            users = [threading.Thread(target=self.user, args=(n,), daemon=True) for n in range(WORKERS)]
            for u in users:
                u.start()
            while time.monotonic() < end:
                try:
                    self.one_fault()
                except Exception as e:
                    self.wrong.append(f"fault not answered as it should be: {e!r}"[:600])
                time.sleep(self.random.uniform(0, 1.2))
            self.stop.set()
            for u in users:
                u.join()
            self.server.wait_healthy(60)
            if self.server.process.pid != front or self.server.process.poll() is not None:
                self.wrong.append("the front is gone")
            if self.undisturbed(self.server) != self.expected:
                self.wrong.append("the texts after the run are not those before it")
            self.restarts = self.server.health()[1]["executor"]["restarts"]
            self.lost = self.server.metric("troupe_requests_lost_total")
            self.owned = self.server.metric('troupe_kv_blocks{state="owned"')
        return not self.wrong and self.lost == 0 and self.owned == 0


def report(chaos, options, seconds):
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=os.path.dirname(__file__)).stdout.strip()
    total = sum(chaos.faults.values())
    lines = ["# Chaos run", "",
             f"`scripts/chaos --minutes {options.minutes:g} --seed {options.seed}` on {os.cpu_count()} cores ({platform.machine()}), commit {commit}, "
             f"{time.strftime('%Y-%m-%d')}; {WORKERS} users, SmolLM2-135M-Instruct Q4_1.", "",
             f"- {total} faults in {seconds / 60:.1f} minutes, {chaos.restarts} executor restarts; {chaos.answers} answers compared with the undisturbed run,"
             f" {chaos.reconnects} of them over a reconnect",
             f"- answers lost or changed, sockets closed without a reason: {len(chaos.wrong)}; `troupe_requests_lost_total` {chaos.lost:g}; "
             f"KV blocks still owned at the end {chaos.owned:g}", "", "| fault | times |", "|---|---:|"]
    lines += [f"| {kind} | {n} |" for kind, n in sorted(chaos.faults.items())]
    if chaos.recoveries:
        totals = sorted(sum(r) for r in chaos.recoveries)
        lines += ["", f"Recovery after SIGKILL, {len(totals)} times, seconds from the signal to the next token:", "",
                  "| stage | median | p90 | longest |", "|---|---:|---:|---:|"]
        rows = [(name, sorted(r[i] for r in chaos.recoveries)) for i, name in enumerate(STAGES)] + [("total", totals)]
        lines += [f"| {name} | {statistics.median(v):.3f} | {v[int(len(v) * 0.9)]:.3f} | {v[-1]:.3f} |" for name, v in rows]
    lines += [f"- {w}" for w in chaos.wrong]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", help="folder that gets chaos.md and chaos.svg")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="troupe-chaos-")
    small = os.geteuid() == 0 and subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "troupe-chaos", folder]).returncode == 0
    start = time.monotonic()
    chaos = Chaos(options.seed)
    try:
        good = chaos.run(options.minutes, folder, small)
    finally:
        if small:
            subprocess.run(["umount", "-l", folder])
    text = report(chaos, options, time.monotonic() - start)
    print(text)
    if options.report:
        with open(os.path.join(options.report, "chaos.md"), "w") as f:
            f.write(text.replace("Recovery after SIGKILL", "![Recovery times](chaos.svg)\n\nRecovery after SIGKILL") if chaos.recoveries else text)
        if chaos.recoveries:
            with open(os.path.join(options.report, "chaos.svg"), "w") as f:
                f.write(stacked_bars("Recovery after SIGKILL", "s", STAGES, sorted(chaos.recoveries, key=sum)))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
