"""Plans end no later than the alternatives of bench/never_later.py, on lengths with real distributions.

The distributions are length quantiles of Mooncake's conversations, ProLong's documents and Wikipedia's articles. Usage:
test_never_later.py PROGRAM
"""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import never_later  # noqa: E402

PROGRAM = sys.argv.pop()

QUANTILES = {
    "conversations": [895, 1030, 1193, 1319, 1453, 1636, 1910, 2234, 2693, 3259, 3917, 4459, 4940, 5397, 5969, 6573,
                      7255, 8044, 8858, 9701, 10649, 11837, 12982, 14325, 15657, 17165, 18959, 21236, 24754, 28496,
                      34601, 51967, 126527],
    "documents": [630, 759, 847, 903, 967, 1018, 1065, 1128, 1180, 1285, 1339, 1402, 1506, 1587, 1674, 1822, 1917,
                  2001, 2114, 2349, 2524, 2823, 2992, 3262, 3538, 3857, 4240, 4807, 5396, 6267, 7717, 12347, 28092],
    "articles": [35, 59, 80, 88, 93, 107, 114, 141, 153, 174, 191, 215, 232, 255, 270, 306, 358, 412, 429, 465, 548,
                 614, 648, 777, 895, 1049, 1211, 1457, 1926, 2435, 3737, 7965, 16815],
}


def interpolated(quantiles: list[int], count: int) -> list[int]:
    lengths = []
    for i in range(count):
        place = i * (len(quantiles) - 1) / (count - 1)
        below = min(int(place), len(quantiles) - 2)
        share = place - below
        lengths.append(round(quantiles[below] * (1 - share) + quantiles[below + 1] * share))
    return lengths


class NeverLater(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.files = [self.written(name, 1000) for name in QUANTILES]

    def written(self, name: str, count: int) -> str:
        path = self.folder / f"{name}-{count}.csv"
        path.write_text("length\n" + "\n".join(map(str, interpolated(QUANTILES[name], count))) + "\n")
        return str(path)

    def compare(self, *options: str) -> int:
        return never_later.main([PROGRAM, *self.files, *options])

    def test_plans_end_at_most_a_thousandth_after_the_best_alternative(self):
        self.assertEqual(self.compare("--draws", "40", "--most-samples", "1024", "--free-counts"), 0)

    def test_ranks_with_one_or_two_micro_batches_end_at_most_a_thousandth_later(self):
        files = [self.written("documents", 206)]  # need 11 micro-batches of 65536 tokens on 8 ranks
        self.assertEqual(never_later.main([PROGRAM, *files, "--whole", "8:65536", "--free-counts"]), 0)

    def test_trees_end_at_most_a_hundredth_after_waves(self):
        self.assertEqual(self.compare("--flexible", "--draws", "10", "--tolerance", "0.01"), 0)

    def test_a_plan_above_the_cap_is_refused(self):
        case = never_later.Case("two samples", [6, 5], dp=1, cap=10, overhead_tokens=0, meet="step")
        with self.assertRaisesRegex(ValueError, "above the cap"):
            never_later.end_of(case, [[[0, 1]]])

    def test_a_plan_without_a_sample_is_refused(self):
        case = never_later.Case("two samples", [6, 5], dp=1, cap=10, overhead_tokens=0, meet="step")
        with self.assertRaisesRegex(ValueError, "each sample once"):
            never_later.end_of(case, [[[0]]])

    def test_a_later_plan_is_reported(self):
        self.assertEqual(self.compare("--draws", "1", "--tolerance", "-1"), 1)


if __name__ == "__main__":
    unittest.main()
