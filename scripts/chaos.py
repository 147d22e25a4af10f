"""Faults of every kind against a server that is working, every text compared with the undisturbed run: chaos.py [options]

Writes a report with the share of each kind of fault, what was lost (nothing may be), and where recovery time goes.
Run it through scripts/chaos, which builds and finds the binary.
"""
import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time

from plots import stacked_bars
from users import Users, World, sabotage
from faults import DEADLINES, STAGES, Faults, stage_table

USERS = 5


def commit():
    if "TROUPE_COMMIT" in os.environ:  # of a binary that was copied out of its checkout
        return os.environ["TROUPE_COMMIT"]
    return subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, cwd=os.path.dirname(__file__)).stdout.strip()


def load_average():
    return f"load average {os.getloadavg()[1]:.1f}"


class Chaos:
    def __init__(self, seed, folder, small_disk, **server):
        self.world = World("--fault-injection", "--queue-limit", "256", folder=folder, **server)
        self.users = Users(self.world, seed)
        self.faults = Faults(self.world, seed, small_disk)

    def run(self, minutes):
        world, users = self.world, self.users
        world.start()
        try:
            users.expected = users.undisturbed()
            self.sabotaged, unnoticed = sabotage(users)
            for u in unnoticed:
                world.complain(f"sabotage went unnoticed: {u}")
            end, self.began = time.monotonic() + 60 * minutes, time.monotonic()
            users.start(USERS)
            while time.monotonic() < end:
                self.faults.one()
                time.sleep(self.faults.random.uniform(0, 0.6))
            self.seconds = time.monotonic() - self.began
            users.join()
            world.server.wait_healthy(60)
            if users.undisturbed() != users.expected:
                world.complain("the answers after the run are not those before it")
            world.count_front()
            self.owned = world.blocks_owned()
        finally:
            world.close()
        return world.good


def report(chaos, options):
    world, faults = chaos.world, chaos.faults
    total, splits = sum(faults.counts.values()), faults.splits()
    deaths = sorted((s for kind, s in splits if kind not in DEADLINES), key=sum)
    lines = ["# Chaos run", "",
             f"`scripts/chaos --minutes {options.minutes:g} --seed {options.seed}` on {os.cpu_count()} cores ({platform.machine()}), commit {commit()}, "
             f"{time.strftime('%Y-%m-%d %H:%M')} UTC, {load_average()} at its end; {USERS} users, SmolLM2-135M-Instruct Q4_1. {options.note}".rstrip(), "",
             f"- {total} faults of {len(faults.counts)} kinds in {chaos.seconds / 60:.1f} minutes; {world.restarts:g} executor restarts",
             f"- {sum(world.answers.values())} answers compared with the undisturbed run ("
             + ", ".join(f"{k} {n}" for k, n in sorted(world.answers.items())) + f"); {world.reconnects} reconnects, "
             f"{world.retried} plain requests asked again because the front had been killed",
             f"- answers lost or changed: {len(world.complaints) - world.closed - world.odd_faults}; faults that did not go as they should: {world.odd_faults}; sockets closed without a reason the contract names: {world.closed}; "
             f"`troupe_requests_lost_total` {world.lost_metric:g} (poisoned on purpose: {world.poisoned}); plain requests that a dying session actor ended "
             f"with its typed error: {world.typed_errors} (session actors crashed on purpose: {world.session_crashes}); KV blocks owned at the end {chaos.owned:g}",
             f"- the comparison can fail: {len(chaos.sabotaged)} acts of sabotage before the run were all reported ({'; '.join(chaos.sabotaged)})", ""]
    if faults.front_starts:
        opened = sorted(o for o, _ in faults.front_starts)
        healthy = sorted(h for _, h in faults.front_starts)
        lines += [f"After kill -9 of the front ({len(opened)} times, same port): port open again after {opened[len(opened) // 2]:.2f} s (median; longest "
                  f"{opened[-1]:.2f}), health 200 after {healthy[len(healthy) // 2]:.2f} s ({healthy[-1]:.2f}).", ""]
    lines += ["| fault | times |", "|---|---:|"] + [f"| {kind} | {n} |" for kind, n in sorted(faults.counts.items())]
    if deaths:
        lines += ["", f"## Recovery", "", "![Recovery times](plots/chaos.svg)", "",
                  f"{len(deaths)} deaths (SIGKILL, crash, abort, exit, lost device, operator) while text was being streamed to somebody, seconds from the "
                  "fault to the next piece that one of these clients gets. Process start: fork to the beginning of loading, and the handshake after it. Re-prefill: until the first token is "
                  "sampled. First token: journal, event and socket.", ""] + stage_table(deaths)
    stuck = [s for kind, s in splits if kind in DEADLINES]
    if stuck:
        lines += ["", f"{len(stuck)} times hung or frozen (found by the progress deadline, 8 x the measured step and at least 2 s):", ""] + stage_table(stuck)
    lines += [""] * bool(world.complaints) + [f"- {w}" for w in world.complaints]
    return "\n".join(lines) + "\n", deaths


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", help="folder that gets chaos.md and plots/chaos.svg")
    parser.add_argument("--note", default="", help="a sentence for the report")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="troupe-chaos-")
    small = os.geteuid() == 0 and subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "troupe-chaos", folder]).returncode == 0
    chaos = Chaos(options.seed, folder, small)
    try:
        good = chaos.run(options.minutes)
    finally:
        if small:
            subprocess.run(["umount", "-l", folder])
    text, deaths = report(chaos, options)
    print(text)
    if options.report:
        os.makedirs(os.path.join(options.report, "plots"), exist_ok=True)
        with open(os.path.join(options.report, "chaos.md"), "w") as f:
            f.write(text)
        if deaths:
            with open(os.path.join(options.report, "plots", "chaos.svg"), "w") as f:
                f.write(stacked_bars("Fault to next token, one bar a recovery", "s", STAGES, deaths))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
