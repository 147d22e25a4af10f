"""Hours of mixed load with a fault now and then; a report with latencies, restarts and memory over time: soak.py HOURS [options]"""
import argparse
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "black_box"))
from chaos import WORKERS, Chaos  # noqa: E402
from plots import lines  # noqa: E402
from support import Server  # noqa: E402

WARM_UP = 0.2  # share of the run before memory is judged: pools fill, caches reach their bound


def anonymous_bytes(pid):
    """RssAnon + VmSwap of a process: what it holds that no file backs."""
    try:
        with open(f"/proc/{pid}/status") as f:
            return 1024 * sum(int(line.split()[1]) for line in f if line.startswith(("RssAnon:", "VmSwap:")))
    except FileNotFoundError:
        return 0


def slope(points):
    """Least squares, y units an x unit."""
    n = len(points)
    mx, my = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    spread = sum((x - mx) ** 2 for x, _ in points)
    return sum((x - mx) * (y - my) for x, y in points) / spread if spread else 0


class Soak(Chaos):
    """Users are Chaos's; faults come at a fixed pace, and every few seconds everything that should stay flat is written down."""

    def __init__(self, options):
        super().__init__(options.seed)
        self.options = options
        self.samples = []  # (hours, front MiB, executor MiB, KV MiB, restarts, p50 ms, p99 ms)
        self.latencies = []

    def user(self, number):
        inner = self.over_http

        def timed(index, rng):
            start = time.monotonic()
            text = inner(index, rng)
            with self.lock:
                self.latencies.append(1000 * (time.monotonic() - start))
            return text
        self.over_http = timed
        super().user(number)

    def sample(self, start):
        with self.lock:
            window, self.latencies = sorted(self.latencies), []
        health = self.server.health()[1]
        at = lambda share: window[int(share * (len(window) - 1))] if window else 0
        kv = self.server.metric('troupe_kv_bytes{tier="device"') or 0
        self.samples.append(((time.monotonic() - start) / 3600, anonymous_bytes(self.server.process.pid) / 2**20,
                             anonymous_bytes(self.server.executor_pid() or 0) / 2**20, kv / 2**20,
                             health.get("executor", {}).get("restarts", 0), at(0.5), at(0.99)))

    def run(self):
        self.small_disk = False
        with Server("--fault-injection", "--queue-limit", "256", data_dir=tempfile.mkdtemp(prefix="troupe-soak-")) as self.server:
            self.expected = self.undisturbed(self.server)
            start = time.monotonic()
            users = [threading.Thread(target=self.user, args=(n,), daemon=True) for n in range(WORKERS)]
            for u in users:
                u.start()
            next_fault = start + self.options.fault_every
            while time.monotonic() < start + 3600 * self.options.hours:
                time.sleep(min(self.options.sample_every, 5))
                if time.monotonic() >= next_fault:
                    next_fault += self.options.fault_every
                    try:
                        self.one_fault()
                    except Exception as e:
                        self.wrong.append(f"fault not answered as it should be: {e!r}"[:600])
                if not self.samples or time.monotonic() - start > 3600 * self.samples[-1][0] + self.options.sample_every:
                    self.sample(start)
            self.stop.set()
            for u in users:
                u.join()
            self.server.wait_healthy(60)
            self.lost = self.server.metric("troupe_requests_lost_total")
            self.owned = self.server.metric('troupe_kv_blocks{state="owned"')
        warm = [s for s in self.samples if s[0] >= WARM_UP * self.options.hours]
        self.growth = slope([(s[0], s[1]) for s in warm]) * (warm[-1][0] - warm[0][0]) if len(warm) > 1 else 0
        return not self.wrong and self.lost == 0 and self.owned == 0


def report(soak, options):
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=os.path.dirname(__file__)).stdout.strip()
    last = soak.samples[-1]
    text = [f"# Soak of {options.hours:g} h", "",
            f"`scripts/soak {options.hours:g} --fault-every {options.fault_every:g} --seed {options.seed}` on {os.cpu_count()} cores ({platform.machine()}), "
            f"commit {commit}, {time.strftime('%Y-%m-%d')}; {WORKERS} users, SmolLM2-135M-Instruct Q4_1.", "",
            f"- {soak.answers} answers compared with the undisturbed run, lost or changed: {len(soak.wrong)}; `troupe_requests_lost_total` {soak.lost:g}",
            f"- {sum(soak.faults.values())} faults, {last[4]} executor restarts",
            f"- front's own memory (RssAnon + VmSwap): {soak.samples[0][1]:.1f} MiB at first, {last[1]:.1f} MiB at the end; fitted growth after warm-up {soak.growth:+.2f} MiB",
            f"- KV blocks owned at the end: {soak.owned:g}", "", "![Memory](soak-memory.svg)", "![Latency](soak-latency.svg)"]
    return "\n".join(text + [f"- {w}" for w in soak.wrong]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("hours", type=float)
    parser.add_argument("--fault-every", type=float, default=30, help="seconds")
    parser.add_argument("--sample-every", type=float, default=10, help="seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", help="folder that gets soak.md and its plots")
    options = parser.parse_args()
    soak = Soak(options)
    good = soak.run()
    text = report(soak, options)
    print(text)
    if options.report:
        column = lambda i: [(s[0], s[i]) for s in soak.samples]
        for name, content in (("soak.md", text),
                              ("soak-memory.svg", lines("Memory no file backs", "MiB", {"front": column(1), "executor": column(2), "KV pool": column(3)})),
                              ("soak-latency.svg", lines("HTTP answer of 64 tokens", "ms", {"median": column(5), "p99": column(6)}))):
            with open(os.path.join(options.report, name), "w") as f:
                f.write(content)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
