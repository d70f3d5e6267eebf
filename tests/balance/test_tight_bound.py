"""Compares bench/tight_bound.py with the best schedule of waves, found by exhaustive search, and with known results."""

import pathlib
import random
import sys
import unittest

try:
    import numpy as np
    import scipy  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}; launch/install-packages.sh --tests installs it")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import tight_bound  # noqa: E402


def group_times(job: tight_bound.Job, lengths: np.ndarray, size: int) -> list[float]:
    """Returns the time of each set of samples as one micro-batch of a group; infinite if the set does not fit."""
    times = []
    for chosen in range(1 << len(lengths)):
        own = np.array([length for i, length in enumerate(lengths) if chosen >> i & 1], dtype=int)
        if job.tokens(own, size).sum() > size * job.max_tokens_per_rank:
            times.append(np.inf)
            continue
        exposed = max(0, job.exposed(own, size).sum())
        times.append(job.overhead + (job.work(own).sum() + exposed) / size if len(own) else 0.0)
    return times


def best_splits(left: list[float], right: list[float], combine) -> list[float]:
    best = []
    for every in range(len(left)):
        part, least = every, np.inf
        while True:
            least = min(least, combine(left[part], right[every & ~part]))
            if part == 0:
                break
            part = (part - 1) & every
        best.append(least)
    return best


def least_end(job: tight_bound.Job, lengths: np.ndarray) -> float:
    """Returns the end of the best schedule of waves, by dynamic programming over sets of samples."""

    def block(size: int) -> list[float]:
        own = group_times(job, lengths, size) if size in job.sizes() else [0.0] + [np.inf] * (2 ** len(lengths) - 1)
        if size == 1:
            return own
        half = block(size // 2)
        return [min(pair) for pair in zip(own, best_splits(half, half, max))]

    wave = [0.0] + [np.inf] * (2 ** len(lengths) - 1)
    for power in reversed(range(job.dp.bit_length())):
        if job.dp >> power & 1:
            wave = best_splits(wave, block(1 << power), max)
    ends = wave
    for _ in lengths:
        ends = best_splits(ends, wave, lambda first, second: first + second)
    return ends[-1]


def random_job(draw: random.Random) -> tuple[tight_bound.Job, np.ndarray]:
    job = tight_bound.Job(
        dp=draw.randint(1, 7),
        max_tokens_per_rank=draw.randint(100, 130),
        linear=draw.randint(0, 100),
        quadratic=1,
        overhead=draw.randrange(3) * 500,
        inside_node=draw.randrange(200),
        between_nodes=draw.randrange(400),
        ranks_per_node=draw.randint(1, 4),
        overlap=draw.randrange(3) / 2,
        tp=draw.randint(1, 2),
    )
    most = (job.max_tokens_per_rank - 8) * job.sizes()[-1]
    drawn = [draw.randint(100, 400) if draw.randrange(2) else draw.randint(0, 100) for _ in range(draw.randint(0, 5))]
    return job, np.array([min(length, most) for length in drawn], dtype=int)


class TightBound(unittest.TestCase):
    def test_no_schedule_of_random_jobs_ends_before_it(self):
        near = better = 0
        for seed in range(60):
            job, lengths = random_job(random.Random(seed))
            end, simple = least_end(job, lengths), tight_bound.simple_bound(job, lengths)
            for known_end in (None, end):
                bound = tight_bound.tight_bound(job, lengths, known_end)
                self.assertLessEqual(bound, end * (1 + 1e-9), f"seed {seed}")
                self.assertGreaterEqual(bound, simple, f"seed {seed}")
            near += bound >= 0.9 * end
            better += bound > 1.01 * simple
        self.assertGreaterEqual(near, 40)
        self.assertGreaterEqual(better, 15)

    def test_short_samples_cannot_fill_the_wave_of_a_long_one(self):
        job = tight_bound.Job(dp=2, max_tokens_per_rank=100, linear=0, quadratic=1, inside_node=200, ranks_per_node=2,
                              overlap=0)
        bound = tight_bound.tight_bound(job, np.array([10] * 60 + [100]))
        self.assertGreaterEqual(bound, 12450)
        self.assertLessEqual(bound, 12500)

    def test_samples_that_do_not_fit_beside_each_other_need_waves_of_their_own(self):
        job = tight_bound.Job(dp=4, max_tokens_per_rank=100, linear=0, quadratic=1, inside_node=100, ranks_per_node=4,
                              overlap=0)
        lengths = np.array([200, 200, 200])
        self.assertEqual(least_end(job, lengths), 55000)
        self.assertAlmostEqual(tight_bound.tight_bound(job, lengths), 55000, delta=5)

    def test_no_samples_end_at_once(self):
        self.assertEqual(tight_bound.tight_bound(tight_bound.Job(dp=4, max_tokens_per_rank=8), np.zeros(0, int)), 0)


if __name__ == "__main__":
    unittest.main()
