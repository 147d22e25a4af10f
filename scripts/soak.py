"""Hours of mixed load with a fault now and then; a report with latencies, restarts and memory over time: soak.py HOURS [options]"""
import argparse
import os
import platform
import sys
import tempfile
import time

from chaos import commit, load_average
from faults import Faults
from plots import lines
from users import Users, World

USERS = 4
WARM_UP = 0.25  # share of the run before memory is judged: pools fill, caches reach their bound
HIDDEN = ("kill -9 of the front",)  # its memory is what is watched; front_kills.py and chaos.py kill it


def anonymous_bytes(pid):
    """RssAnon + VmSwap of a process: what it holds that no file backs."""
    try:
        with open(f"/proc/{pid}/status") as f:
            return 1024 * sum(int(line.split()[1]) for line in f if line.startswith(("RssAnon:", "VmSwap:")))
    except OSError:
        return 0


def slope(points):
    """Least squares, y units an x unit."""
    n = len(points)
    mx, my = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    spread = sum((x - mx) ** 2 for x, _ in points)
    return sum((x - mx) * (y - my) for x, y in points) / spread if spread else 0


def share(values, part):
    return sorted(values)[int(part * (len(values) - 1))] if values else 0


class Soak:
    """Users without pause but for their thinking; faults at a fixed pace; every few seconds all that should stay flat is noted."""

    def __init__(self, hours, fault_every=30, sample_every=5, seed=1, **server):
        self.hours, self.fault_every, self.sample_every = hours, fault_every, sample_every
        self.world = World("--fault-injection", "--queue-limit", "256", **server)
        self.users = Users(self.world, seed, think=0.5)
        self.faults = Faults(self.world, seed, hidden=HIDDEN)
        self.samples, self.all_latencies = [], {}

    def sample(self, start):
        with self.world.lock:
            window, self.world.latencies = self.world.latencies, {}
        for kind, values in window.items():
            self.all_latencies.setdefault(kind, []).extend(values)
        once = [v for kind in ("once", "stream") for v in window.get(kind, [])]
        server, mib = self.world.server, 2**20
        blocks = {s: server.metric(f'troupe_kv_blocks{{state="{s}"') or 0 for s in ("owned", "cached", "free")}
        self.samples.append({"hours": (time.monotonic() - start) / 3600, "front": anonymous_bytes(server.process.pid) / mib,
                             "executor": anonymous_bytes(server.executor_pid() or 0) / mib,
                             "kv": (server.metric('troupe_kv_bytes{tier="device"') or 0) / mib, **blocks,
                             "restarts": server.health()[1].get("executor", {}).get("restarts", 0),
                             "p50": 1000 * share(once, 0.5), "p99": 1000 * share(once, 0.99), "n": len(once)})

    def run(self):
        world = self.world
        world.start()
        try:
            self.users.expected = self.users.undisturbed()
            start, end = time.monotonic(), time.monotonic() + 3600 * self.hours
            self.users.start(USERS)
            next_fault, next_sample = start + self.fault_every, start
            while time.monotonic() < end:
                if time.monotonic() >= next_sample:
                    next_sample += self.sample_every
                    self.sample(start)
                if time.monotonic() >= next_fault:
                    next_fault += self.fault_every
                    self.faults.one()
                time.sleep(min(0.5, self.sample_every))
            self.users.join()
            self.sample(start)
            world.server.wait_healthy(60)
            if self.users.undisturbed() != self.users.expected:
                world.complain("the answers after the run are not those before it")
            world.count_front()
            self.owned = world.blocks_owned()
        finally:
            world.close()
        warm = [(s["hours"], s["front"]) for s in self.samples if s["hours"] >= WARM_UP * self.hours]
        self.growth = slope(warm) * (warm[-1][0] - warm[0][0]) if len(warm) > 1 else 0
        return world.good


def report(soak, options):
    world, first, last = soak.world, soak.samples[0], soak.samples[-1]
    n = sum(world.answers.values())
    text = [f"# Soak of {60 * options.hours:g} minutes", "",
            f"`scripts/soak {options.hours:g} --fault-every {options.fault_every:g} --seed {options.seed}` on {os.cpu_count()} cores ({platform.machine()}), "
            f"commit {commit()}, {time.strftime('%Y-%m-%d %H:%M')} UTC, {load_average()} at its end; {USERS} users, SmolLM2-135M-Instruct Q4_1. {options.note}".rstrip(), "",
            f"- {n} answers compared with the undisturbed run; lost or changed: {len(world.complaints) - world.closed - world.odd_faults}; faults that did not go as they should: {world.odd_faults}; sockets closed without a reason: "
            f"{world.closed}; `troupe_requests_lost_total` {world.lost_metric:g} (poisoned on purpose: {world.poisoned}); plain requests that a dying session actor ended "
             f"with its typed error: {world.typed_errors} (session actors crashed on purpose: {world.session_crashes}); {world.reconnects} reconnects",
            f"- {sum(soak.faults.counts.values())} faults, {last['restarts']} executor restarts",
            f"- front's own memory (RssAnon + VmSwap): {first['front']:.1f} MiB at first, {last['front']:.1f} MiB at the end; fitted growth after the first "
            f"{100 * WARM_UP:g} % of the run {soak.growth:+.2f} MiB",
            f"- executor's own memory: {share([s['executor'] for s in soak.samples], 0.5):.0f} MiB (median), "
            f"{max(s['executor'] for s in soak.samples):.0f} MiB at most; KV pool at most {max(s['kv'] for s in soak.samples):.0f} MiB; "
            f"KV blocks owned at the end {soak.owned:g}", "",
            "![Memory](plots/soak-memory.svg)", "![Latency](plots/soak-latency.svg)", "![KV blocks](plots/soak-kv.svg)", "![Restarts](plots/soak-restarts.svg)", "",
            "| what users did | times | median s | p90 s | p99 s | longest s |", "|---|---:|---:|---:|---:|---:|"]
    for kind, v in sorted(soak.all_latencies.items()):
        text.append(f"| {kind} | {len(v)} | {share(v, 0.5):.2f} | {share(v, 0.9):.2f} | {share(v, 0.99):.2f} | {max(v):.2f} |")
    text += ["", "| fault | times |", "|---|---:|"] + [f"| {kind} | {n} |" for kind, n in sorted(soak.faults.counts.items())]
    text += [""] * bool(world.complaints) + [f"- {w}" for w in world.complaints]
    return "\n".join(text) + "\n"


def plots(soak):
    column = lambda name, rows=soak.samples: [(60 * s["hours"], s[name]) for s in rows]
    some = [s for s in soak.samples if s["n"]]
    return {"soak-memory": lines("Memory no file backs, over minutes", "MiB", {n: column(n) for n in ("front", "executor", "kv")}),
            "soak-latency": lines("HTTP answer of 64 tokens, over minutes", "ms", {"median": column("p50", some), "p99": column("p99", some)}),
            "soak-kv": lines("KV blocks, over minutes", "", {n: column(n) for n in ("owned", "cached", "free")}),
            "soak-restarts": lines("Executor restarts, over minutes", "", {"restarts": column("restarts")})}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("hours", type=float)
    parser.add_argument("--fault-every", type=float, default=30, help="seconds")
    parser.add_argument("--sample-every", type=float, default=5, help="seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", help="folder that gets soak.md and plots/soak-*.svg")
    parser.add_argument("--note", default="", help="a sentence for the report")
    options = parser.parse_args()
    soak = Soak(options.hours, options.fault_every, options.sample_every, options.seed, folder=tempfile.mkdtemp(prefix="troupe-soak-"))
    good = soak.run()
    text = report(soak, options)
    print(text)
    if options.report:
        os.makedirs(os.path.join(options.report, "plots"), exist_ok=True)
        for name, content in [("soak.md", text)] + [(f"plots/{n}.svg", svg) for n, svg in plots(soak).items()]:
            with open(os.path.join(options.report, name), "w") as f:
                f.write(content)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
