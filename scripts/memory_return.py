"""Measures what issue "memory that is given back" promises, with SmolLM2; exits 1 if one figure is out of its bound.

burst: a burst fills the KV pool beside one stream; the executor's memory falls back while the stream goes on.
prompts: 1,000 different prompts; the slope of the executor's memory.
pieces: sessions long and short in turn, every second one stopped; one request that needs 90 % of the free blocks.
disk: a 2,000-token session demoted, the server restarted; its next turn against one that is computed, and damaged images.
"""
import argparse
import datetime
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "black_box"))
from support import Server, Socket, wait_until  # noqa: E402

MIB = 1 << 20
MOST_DELTAS = 4000  # of the stream, by the end of the burst's part
BYTES_A_TOKEN = 23040  # of SmolLM2-135M's keys and values in f16
WORDS = "river stone lamp garden winter letter copper engine harbor window forest silver thunder basket candle mirror".split()


def memory(pid):
    """RssAnon + RssShmem in bytes: what is not mapped from files."""
    total = 0
    with open(f"/proc/{pid}/status") as f:
        for line in f:
            if line.startswith(("RssAnon:", "RssShmem:")):
                total += int(line.split()[1]) * 1024
    return total


def state(server):
    status, _, body = server.request("GET", "/admin/state")
    assert status == 200, body
    return body


def text_of(n, salt):
    """n words that no other salt has in this order."""
    return " ".join(f"{WORDS[(salt * 7 + i * (3 + salt % 5)) % len(WORDS)]}{(salt * 131 + i) % 97}" for i in range(n))


class Report:
    def __init__(self):
        self.lines, self.bad = [], []

    def say(self, text):
        self.lines.append(text)
        print(text, flush=True)

    def figure(self, what, value, bound, good):
        self.say(f"| {what} | {value} | {bound} | {'yes' if good else '**no**'} |")
        if not good:
            self.bad.append(what)

    def table(self, title):
        self.say(f"\n## {title}\n\n| what | measured | bound | holds |\n|---|---|---|---|")


class Stream(threading.Thread):
    """One long answer over the WebSocket; when each delta came."""

    def __init__(self, server, n):
        super().__init__(daemon=True)
        self.socket = Socket(server)
        self.session = self.socket.create(temperature=0)
        self.socket.subscribe(self.session)
        self.times, self.texts, self.n = [], [], n
        self.message = self.socket.message(self.session, "Write a very long story.", max_tokens=n, ignore_eos=True)
        self.start()

    def run(self):
        at = 0
        while not self.socket.closed and len(self.times) < self.n:
            with self.socket.changed:
                self.socket.changed.wait_for(lambda: len(self.socket.frames) > at or self.socket.closed, 30)
                frames, now = self.socket.frames[at:], time.monotonic()
                at += len(frames)
            for f in frames:
                if f["type"] == "delta" and f["message"] == self.message:
                    self.times.append(now)
                    self.texts.append(f["text"])

    def text(self):
        return "".join(self.texts)


def stream_alone(n_deltas, *options):
    """When the same stream's deltas come with nobody beside it."""
    with Server(*options) as server:
        s = Stream(server, n_deltas)
        wait_until(lambda: len(s.times) >= n_deltas, 600, what="the stream alone")
        return s.times, s.text()


def burst(report, idle_shrink=15):
    # Small enough to be filled before what was cached first gets cold, long before the stream's context is full.
    options = ("--kv-memory", "160M", "--idle-shrink-after", str(idle_shrink), "--max-seqs", "24", "--kv-disk", "0")
    # The same tokens of the same stream with nobody beside it (their depth costs the same), before and after: a machine's
    # speed drifts by more than what is to be seen.
    first_alone, _ = stream_alone(MOST_DELTAS, *options)
    with Server(*options) as server:
        pid = server.executor_pid()
        s = Stream(server, 100_000)
        wait_until(lambda: len(s.times) > 60, 120, what="a running stream")
        before, at_before = memory(pid), len(s.times)

        def without_growth():
            """The stream goes on, and its own new keys and values are no memory that could be given back."""
            return memory(pid) - (len(s.times) - at_before) * BYTES_A_TOKEN

        fullest, done = [0.0], threading.Event()

        def watch():
            while not done.wait(0.2):
                kv = state(server)["kv"]
                group = kv["groups"][0]
                blocks = kv["segments"]["max"] * (kv["segment_bytes"] // group["block_bytes"])
                fullest[0] = max(fullest[0], (group["owned"] + group["cached"]) / blocks)

        def ask(i):
            server.chat(text_of(150, i), max_tokens=8, temperature=0)
        watcher = threading.Thread(target=watch)
        watcher.start()
        threads, i = [], 0
        while fullest[0] < 0.97 and i < 60:
            threads = [t for t in threads if t.is_alive()]
            if len(threads) < 6:
                threads.append(threading.Thread(target=ask, args=(i,)))
                threads[-1].start()
                i += 1
            else:
                time.sleep(0.05)
        for t in threads:
            t.join()
        done.set()
        watcher.join()
        peak, end = memory(pid), time.monotonic()
        at_end = len(s.times)
        fell = None
        while time.monotonic() < end + idle_shrink + 5:
            if fell is None and without_growth() <= 1.1 * before:
                fell = time.monotonic() - end
            time.sleep(0.1)
        after, at_after = without_growth(), len(s.times)
        moved = server.metric("troupe_kv_blocks_compacted_total")
        times, text = list(s.times[:at_after]), "".join(s.texts[:at_after])
    second_alone, alone_text = stream_alone(at_after, *options)
    rate = lambda t: (at_after - 1 - at_end) / (t[at_after - 1] - t[at_end])
    alone = (rate(first_alone) + rate(second_alone)) / 2
    report.table("A burst beside a stream")
    report.figure("KV pool in use at its fullest", f"{100 * fullest[0]:.0f} % of 160 MiB ({i} requests)", ">= 95 %", fullest[0] >= 0.95)
    report.figure("executor's memory before / at the end of the burst / after, without what the stream added itself", f"{before / MIB:.0f} / {peak / MIB:.0f} / {after / MIB:.0f} MiB",
                  "after <= 1.1 x before", after <= 1.1 * before)
    report.figure("time until within 10 %", f"{fell:.1f} s" if fell is not None else "never", f"< {idle_shrink + 5} s (idle-shrink-after {idle_shrink} s + 5 s)",
                  fell is not None)
    report.figure("the stream's speed meanwhile, against the same tokens alone", f"{rate(times):.1f} / {rate(first_alone):.1f} before and {rate(second_alone):.1f} after, tokens/s: {rate(times) / alone:.3f}",
                  ">= 0.95", rate(times) >= 0.95 * alone)
    report.figure("the stream's text, against alone", f"{len(text)} characters", "equal", text == alone_text)
    report.say(f"\nBlocks moved: {moved:.0f}. The stream made {at_after - at_before} tokens from \"before\" to \"after\", whose own keys and values "
               f"({(at_after - at_before) * BYTES_A_TOKEN / MIB:.1f} MiB) come on top of \"after\".")


def prompts(report, n=1000):
    with Server("--kv-memory", "128M", "--kv-disk", "0") as server:
        pid = server.executor_pid()
        points, lock, todo = [], threading.Lock(), iter(range(n))
        finished = [0]

        def work():
            while True:
                with lock:
                    i = next(todo, None)
                if i is None:
                    return
                server.chat(text_of(40, 1000 + i), max_tokens=4, temperature=0)
                with lock:
                    finished[0] += 1
                    points.append((finished[0], memory(pid)))
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    late = [p for p in points if p[0] > n // 5]  # the pool is at its bound by then
    mean_x, mean_y = (sum(p[k] for p in late) / len(late) for k in (0, 1))
    slope = sum((x - mean_x) * (y - mean_y) for x, y in late) / sum((x - mean_x) ** 2 for x, _ in late)
    report.table(f"{n} different prompts")
    report.figure(f"slope of the executor's memory from request {n // 5} on (KV pool of 128 MiB)", f"{slope * 100 / MIB:.3f} MiB per 100 requests", "< 1",
                  slope * 100 / MIB < 1)
    report.say(f"\nMemory after request {n // 5} / {n}: {late[0][1] / MIB:.1f} / {late[-1][1] / MIB:.1f} MiB.")


def pieces(report):
    with Server("--kv-memory", "96M", "--max-seqs", "16", "--kv-disk", "0") as server:
        streams = []
        for i in range(12):
            s = Socket(server)
            session = s.create(temperature=0)
            s.subscribe(session)
            message = s.message(session, text_of(60 if i % 4 < 2 else 8, i), max_tokens=3000, ignore_eos=True)
            streams.append((s, session, message))
        for s, _, message in streams:
            s.wait(lambda f: f["type"] == "delta" and f["message"] == message, 120)
        time.sleep(2)
        for i, (s, session, message) in enumerate(streams):
            if i % 2 or i < 8:  # all but two of those that stay end as well, once their places are mixed
                s.ask({"type": "stop", "session": session})
                s.finished(message)
        kv = state(server)["kv"]
        group, per = kv["groups"][0], kv["segment_bytes"] // kv["groups"][0]["block_bytes"]
        free = group["free"] + group["cached"] + kv["segments"]["unallocated"] * per
        wanted = int(free * 0.9) * 16
        before = server.metric("troupe_preemptions_total")
        start = time.monotonic()
        status, _, body = server.request("POST", "/v1/completions", {"prompt": [1000 + (i * 37) % 20000 for i in range(wanted - 8)],
                                                                     "max_tokens": 4, "temperature": 0, "ignore_eos": True}, timeout=300)
        took = time.monotonic() - start
        report.table("One request for 90 % of what is free in pieces")
        report.figure(f"request of {wanted} tokens, {free} blocks of 16 free or reclaimable", f"status {status} after {took:.1f} s", "200", status == 200)
        report.say(f"\nPreemptions meanwhile: {server.metric('troupe_preemptions_total') - before:.0f} (two answers go on growing beside it).")


def turn(server, session, content, n=4):
    start = time.monotonic()
    status, _, body = server.request("POST", f"/v1/sessions/{session}/messages?wait=true",
                                     {"content": content, "params": {"max_tokens": n, "temperature": 0, "ignore_eos": True}}, timeout=300)
    assert status == 200, body
    return time.monotonic() - start, body


def cached(body):
    return body["usage"]["prompt_tokens_details"]["cached_tokens"]


def images(folder):
    return [os.path.join(d, f) for d, _, files in os.walk(os.path.join(folder, "kv")) for f in files if f.endswith(".kv")]


def damage(kind, folder):
    for path in images(folder):
        with open(path, "r+b") as f:
            data = f.read()
            if kind == "bit-flipped":
                f.seek(len(data) // 2)
                f.write(bytes([data[len(data) // 2] ^ 4]))
            elif kind == "truncated":
                f.truncate(len(data) * 2 // 3)
            elif kind == "foreign":  # made by another model, under the right name
                f.seek(0)
                f.write(foreign_image())
                f.truncate()


_foreign = []


def foreign_image():
    if not _foreign:
        with Server("--idle-shrink-after", "1", "--kv-type", "f32") as server:
            session = server.request("POST", "/v1/sessions", {})[2]["id"]
            turn(server, session, text_of(40, 3))
            wait_until(lambda: images(server.folder), 30, what="an image")
            with open(images(server.folder)[0], "rb") as f:
                _foreign.append(f.read())
    return _foreign[0]


def disk(report):
    base = tempfile.mkdtemp(prefix="troupe-disk-")
    options = ("--idle-shrink-after", "2")
    with Server(*options, data_dir=base) as server:
        session = server.request("POST", "/v1/sessions", {})[2]["id"]
        first_time, first = turn(server, session, text_of(700, 1))
        n = first["usage"]["prompt_tokens"]
        wait_until(lambda: state(server)["tiers"]["disk"]["images"] > 0 and state(server)["kv"]["segments"]["committed"] == 0, 30,
                   what="the session on the disk")
        bytes_on_disk = state(server)["tiers"]["disk"]["bytes"]
        server.stop()
    results = {}
    for kind in ("promoted", "recomputed", "bit-flipped", "truncated", "foreign"):
        folder = tempfile.mkdtemp(prefix=f"troupe-{kind}-")
        shutil.copytree(base, folder, dirs_exist_ok=True)
        if kind == "recomputed":
            shutil.rmtree(os.path.join(folder, "kv"))
        elif kind != "promoted":
            damage(kind, folder)
        with Server(*options, data_dir=folder) as server:
            seconds, body = turn(server, session, "And now?")
            counters = state(server)["scheduler"]["counters"]
            results[kind] = (seconds, cached(body), body["message"]["content"], counters["images_refused"])
        shutil.rmtree(folder)
    shutil.rmtree(base)
    fast, slow = results["promoted"], results["recomputed"]
    report.table(f"A session of {n} tokens from the disk ({bytes_on_disk / MIB:.0f} MiB) after a restart")
    report.figure("cached_tokens of the next turn", fast[1], f">= 1900 (the prompt before had {n})", fast[1] >= 1900)
    report.figure("next turn promoted / computed again", f"{fast[0]:.2f} s / {slow[0]:.2f} s: {slow[0] / fast[0]:.1f} x faster", "> 1", slow[0] > fast[0])
    report.figure("its text", repr(fast[2])[:40], "equal", fast[2] == slow[2])
    for kind in ("bit-flipped", "truncated", "foreign"):
        r = results[kind]
        report.figure(f"{kind} image", f"refused {r[3]}, cached_tokens {r[1]}, {r[0]:.2f} s", "refused, computed again, same text",
                      r[3] >= 1 and r[1] == 0 and r[2] == slow[2])


def header(report):
    with open("/proc/cpuinfo") as f:
        cpu = next((line.split(":")[1].strip() for line in f if line.startswith("model name")), platform.machine())
    commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    report.say("# Memory that is given back\n")
    report.say(f"Written by `scripts/memory_return`: SmolLM2-135M, {os.cpu_count()} cores of {cpu}, {datetime.date.today()}, commit {commit}, "
               f"load average at the start {os.getloadavg()[0]:.1f}.")
    report.say("Memory is the executor's RssAnon + RssShmem: without the weights, which are mapped.")


def main():
    parts = {"burst": burst, "prompts": prompts, "pieces": pieces, "disk": disk}
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("parts", nargs="*", help=" ".join(parts))
    p.add_argument("--report", help="write the tables to this file as well")
    a = p.parse_args()
    report = Report()
    header(report)
    for name in a.parts or parts:
        parts[name](report)
    if report.bad:
        report.say("\nOut of bounds: " + "; ".join(report.bad))
    if a.report:
        with open(a.report, "w") as f:
            f.write("\n".join(report.lines) + "\n")
    return 1 if report.bad else 0


if __name__ == "__main__":
    sys.exit(main())
