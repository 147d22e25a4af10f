"""What embedding does to DOMPurify: deb12u1's misplaced guard is moved, other versions stay untouched, unknown mixtures are refused."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["TROUPE_SOURCE_DIR"], "scripts"))
import embed_assets as e  # noqa: E402

WRONG = f"function shadow() {{ {e.UNGUARDED} remove(); }} }}\n{e.MISPLACED}\n"
RIGHT = f"function shadow() {{ {e.GUARDED} remove(); }} }}\n{e.PLACED}\n"


class Repair(unittest.TestCase):
    def test_the_mistake_is_undone(self):
        self.assertEqual(e.repair_dompurify(WRONG), RIGHT)

    def test_other_versions_stay(self):
        for text in (RIGHT, "", "anything"):
            self.assertEqual(e.repair_dompurify(text), text)

    def test_unknown_mixture_is_refused(self):
        with self.assertRaises(SystemExit):
            e.repair_dompurify(e.MISPLACED)
