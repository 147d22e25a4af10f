"""kill -9 of the front process under load, again and again on the same port: front_kills.py [TIMES] [--report docs]

Sessions on WebSockets come back with the last sequence number they have seen; what was begun on the session routes is
only looked at: it must go on by itself. Nothing that a client has seen may be missing, and every text must be the one of
the undisturbed run.
"""
import argparse
import os
import platform
import random
import sys
import time

from chaos import commit, load_average
from users import Users, World, sabotage

KINDS_LEFT_OUT = ("structured", "embedding", "cancel")  # their requests end with the front; chaos.py asks them
USERS = 5


def run(kills, seed=1, prove=True, **options):
    """The world after `kills` deaths of its front; world.starts = [(port open again, health good again)], in seconds."""
    world, rng = World("--queue-limit", "256", **options), random.Random(seed)
    users = Users(world, seed, hidden=KINDS_LEFT_OUT)
    world.start()
    try:
        users.expected = users.undisturbed()
        world.sabotaged, unnoticed = sabotage(users) if prove else ([], [])
        for u in unnoticed:
            world.complain(f"sabotage went unnoticed: {u}")
        users.start(USERS)
        world.starts = []
        while len(world.starts) < kills:
            time.sleep(rng.uniform(0.02, 3))
            world.starts.append(world.kill_front())
            if sys.stdout.isatty():
                print(len(world.starts), "kills", end="\r", flush=True)
        users.join()
        if users.undisturbed() != users.expected:
            world.complain("the answers after the run are not those before it")
        world.count_front()
        code = world.server.stop()
        if code != 0:
            world.complain(f"the last front ended with {code}")
    finally:
        world.close()
    return world


def report(world, options):
    column = lambda i: sorted(s[i] for s in world.starts)
    row = lambda name, v: f"| {name} | {v[len(v) // 2]:.2f} | {v[int(len(v) * 0.9)]:.2f} | {v[-1]:.2f} |"
    lines = ["# kill -9 of the front", "",
             f"`scripts/front_kills {options.kills} --seed {options.seed}` on {os.cpu_count()} cores ({platform.machine()}), commit {commit()}, "
             f"{time.strftime('%Y-%m-%d %H:%M')} UTC, {load_average()} at its end; {USERS} users, SmolLM2-135M-Instruct Q4_1. {options.note}".rstrip(), "",
             f"- {len(world.starts)} times killed and started again on the same port under load; the port was free every time, no executor outlived its front",
             f"- {sum(world.answers.values())} answers compared with the undisturbed run ("
             + ", ".join(f"{k} {n}" for k, n in sorted(world.answers.items())) + f"): {world.reconnects} reconnects with the last sequence number, "
             f"{world.retried} plain requests asked again; answers of the session routes were looked at, not asked for again",
             f"- seen and missing afterwards, lost or changed: {len(world.complaints)}; `troupe_requests_lost_total` {world.lost_metric:g}",
             f"- the comparison can fail: {len(world.sabotaged)} acts of sabotage before the run were all reported ({'; '.join(world.sabotaged)})", "",
             "| seconds after the kill | median | p90 | longest |", "|---|---:|---:|---:|",
             row("port open", column(0)), row("health 200", column(1))]
    lines += [""] * bool(world.complaints) + [f"- {w}" for w in world.complaints]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kills", type=int, nargs="?", default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", help="folder that gets front-kills.md")
    parser.add_argument("--note", default="", help="a sentence for the report")
    options = parser.parse_args()
    world = run(options.kills, options.seed)
    text = report(world, options)
    print(text)
    if options.report:
        with open(os.path.join(options.report, "front-kills.md"), "w") as f:
            f.write(text)
    sys.exit(0 if world.good else 1)


if __name__ == "__main__":
    main()
