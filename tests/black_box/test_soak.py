"""A short soak: every kind of user, a fault every two seconds, every text compared, nothing lost and nothing left behind."""
import os
import sys
import tempfile
import unittest

from support import SOURCE, TINY

sys.path.insert(0, os.path.join(SOURCE, "scripts"))
import soak  # noqa: E402

SECONDS = float(os.environ.get("TROUPE_SOAK_SECONDS", "16"))


class ShortSoak(unittest.TestCase):
    def test_nothing_is_lost(self):
        with tempfile.TemporaryDirectory() as folder:
            run = soak.Soak(SECONDS / 3600, fault_every=2, sample_every=1, folder=folder, model=TINY, tokens=32)
            good = run.run()
            self.assertEqual(run.world.complaints, [])
            self.assertTrue(good)
            self.assertGreater(sum(run.world.answers.values()), 12, run.world.answers)
            self.assertGreater(sum(run.faults.counts.values()), 4, run.faults.counts)
            self.assertGreater(run.samples[-1]["restarts"], 0)


if __name__ == "__main__":
    unittest.main()
