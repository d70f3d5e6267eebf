"""Karmarkar and Karp's differencing method for k sets, as a textbook has it, timed on the inputs it is given.

Sets are (sum, number of items, items in the order they were joined). A state is k sets in falling order; the
state with the largest spread between its first and its last set goes first, of equal ones the one with the
greater first set. Two states are merged by joining the heaviest set of one to the lightest of the other.
"""
import heapq
import json
import statistics
import sys
import time


class State:
    """k sets in falling order, and its place in the heap."""

    def __init__(self, sets):
        self.sets = sorted(sets, reverse=True)
        self.spread = self.sets[0][0] - self.sets[-1][0]

    def __lt__(self, other):
        if self.spread != other.spread:
            return self.spread > other.spread
        return self.sets[0] > other.sets[0]

    def merged(self, other):
        """The heaviest with the lightest, and so on."""
        return State([(a[0] + b[0], a[1] + b[1], a[2] + b[2])
                      for a, b in zip(self.sets, reversed(other.sets))])


def partition(costs, k, equal):
    """Sums of the k sets, largest first."""
    items = sorted((cost, item) for item, cost in enumerate(costs))
    step = k if equal else 1
    empty = [(0, 0, [])]
    heap = []
    for first in range(0, len(items), step):
        run = [(cost, 1, [item]) for cost, item in items[first:first + step]]
        heap.append(State(run + empty * (k - len(run))))
    heapq.heapify(heap)
    while len(heap) > 1:
        greatest = heapq.heappop(heap)
        heapq.heappush(heap, greatest.merged(heapq.heappop(heap)))
    return [s[0] for s in heap[0].sets]


def main():
    with open(sys.argv[1]) as file:
        question = json.load(file)
    answers = []
    for case in question["cases"]:
        seconds = []
        for _ in range(case["rounds"]):
            start = time.perf_counter()
            sums = partition(case["costs"], case["k"], case["equal"])
            seconds.append(time.perf_counter() - start)
        answers.append({"seconds": statistics.median(seconds), "sums": sums})
    with open(sys.argv[2], "w") as file:
        json.dump({"version": sys.version.split()[0], "answers": answers}, file)


main()
