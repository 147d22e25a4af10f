"""A short run of scripts/front_kills: the front is killed five times under load, and nothing that was seen is missing."""
import os
import sys
import unittest

from support import SOURCE, TINY

sys.path.insert(0, os.path.join(SOURCE, "scripts"))
import front_kills  # noqa: E402


class FrontKills(unittest.TestCase):
    def test_five(self):
        world = front_kills.run(5, model=TINY, tokens=48)
        self.assertEqual(world.complaints, [])
        self.assertTrue(world.good)
        self.assertGreater(world.reconnects, 0)
        self.assertEqual(len(world.starts), 5)


if __name__ == "__main__":
    unittest.main()
