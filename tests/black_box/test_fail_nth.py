"""Fails the n-th call of a kind, once, under a running server: sockets, the disk, memory. Nothing that was seen is lost.

What fails a connection may cost that connection (the client comes back) or an executor; never a text, never the front.
"""
import mmap
import os
import random
import struct
import sys
import tempfile
import threading
import unittest

from support import SOURCE, TINY, wait_until

sys.path.insert(0, os.path.join(SOURCE, "scripts"))
from users import Users, World  # noqa: E402

# As in fail_nth.cpp; with the largest n, and whether it must be reached within the test.
KINDS = {"front_send": (60, True), "front_recv": (60, True), "front_accept": (6, True), "front_write": (10, True), "front_sync": (1, False),
         "front_truncate": (1, False), "executor_send": (40, True), "executor_recv": (40, True), "executor_map": (4, True), "executor_commit": (2, True)}
DISK = ("front_write", "front_sync", "front_truncate")
ROUNDS = int(os.environ.get("TROUPE_FAIL_ROUNDS", "4"))


class Counters:
    """The file that the preloaded library looks at."""

    def __init__(self, path):
        with open(path, "wb") as f:
            f.write(bytes(4096))
        self.file = open(path, "r+b")
        self.words = mmap.mmap(self.file.fileno(), 4096)

    def arm(self, kind, n):
        struct.pack_into("<q", self.words, 16 * list(KINDS).index(kind), n)

    def fired(self, kind):
        return struct.unpack_from("<q", self.words, 16 * list(KINDS).index(kind) + 8)[0]

    def total(self):
        return sum(self.fired(k) for k in KINDS)


class Failing(World):
    """A closed connection is excused if a call has failed since; each failure is a new generation."""

    def __init__(self, counters, *options, **more):
        super().__init__(*options, **more)
        self.counters = counters

    def before(self):
        return self.counters.total()

    def excused(self, generation):
        return self.counters.total() != generation


class FailNth(unittest.TestCase):
    def test_no_text_is_lost(self):
        rng = random.Random(1)
        with tempfile.TemporaryDirectory() as folder:
            counters = Counters(os.path.join(folder, "counters"))
            world = Failing(counters, folder=folder, model=TINY, tokens=24,
                            env={"LD_PRELOAD": os.environ["TROUPE_FAIL_NTH"], "FAIL_NTH_COUNTERS": os.path.join(folder, "counters")})
            world.start()
            try:
                users = Users(world, hidden=("cancel", "embedding", "structured"))
                users.expected = users.undisturbed()
                for kind, (largest, _) in KINDS.items():
                    for _ in range(ROUNDS):
                        self.one(world, users, counters, kind, rng.randint(1, largest), rng)
                    counters.arm(kind, 0)
                for kind, (_, must) in KINDS.items():
                    self.assertTrue(counters.fired(kind) > 0 or not must, f"{kind} never failed")
                world.server.wait_healthy()
                events = world.server.request("GET", "/admin/state")[2]["events"]
                self.assertEqual([e for e in events if e["event"] == "stuck"], [], "a lost connection is found at once, not by silence")
                self.assertEqual(users.undisturbed(), users.expected)
                world.count_front()
                self.assertEqual(world.blocks_owned(), 0)
                self.assertEqual(world.complaints, [])
                self.assertTrue(world.good)
                self.assertIsNone(world.server.process.poll(), "the front lives")
                self.assertEqual(world.server.stop(), 0)
            finally:
                world.close()

    def one(self, world, users, counters, kind, n, rng):
        """Two users while the n-th call from now on fails."""
        before = len(world.complaints)
        if kind in ("executor_map", "executor_commit"):  # a successor maps the model and its memory anew
            world.server.kill_executor()
            wait_until(world.server.executor_pid, 20)
        counters.arm(kind, n)
        kinds = [u for u in users.kinds if u not in ("once", "stream") or kind not in DISK]  # these write nothing
        threads = [threading.Thread(target=users.act, args=(u, random.Random(rng.random()))) for u in rng.sample(kinds, 2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(100)
            self.assertFalse(t.is_alive(), f"{kind} {n}: no answer")
        self.assertEqual(world.complaints[before:], [], f"{kind} {n}")


if __name__ == "__main__":
    unittest.main()
