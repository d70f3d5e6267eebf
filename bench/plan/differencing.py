"""Times two implementations of Karmarkar and Karp's differencing method for k sets: a plain one, with a class for each
object and its order, and one tuned to Python, with tuples that the interpreter compares itself.

Sets are (sum, number of items, items in the order they were joined). A state is k sets in descending order. The state with
the largest spread between its first and its last set goes first; ties go to the state with the greater first set. Two
states are merged by joining the heaviest set of one to the lightest of the other.
"""
import heapq
import json
import statistics
import sys
import time


class Subset:
    """Items and the sum of their costs."""

    def __init__(self):
        self.total = 0
        self.items = []

    def add(self, cost, item):
        self.total += cost
        self.items.append(item)

    def absorb(self, other):
        for item in other.items:
            self.items.append(item)
        self.total += other.total

    def __lt__(self, other):
        if self.total != other.total:
            return self.total < other.total
        if len(self.items) != len(other.items):
            return len(self.items) < len(other.items)
        return self.items < other.items


class Arrangement:
    """k subsets in descending order, and the sort key in the heap."""

    def __init__(self, run, k):
        self.subsets = [Subset() for _ in range(k)]
        for subset, (cost, item) in zip(self.subsets, run):
            subset.add(cost, item)
        self.subsets.sort(reverse=True)

    def spread(self):
        return self.subsets[0].total - self.subsets[-1].total

    def absorb(self, other):
        for heavy, light in zip(self.subsets, reversed(other.subsets)):
            heavy.absorb(light)
        self.subsets.sort(reverse=True)

    def __lt__(self, other):
        if self.spread() != other.spread():
            return self.spread() > other.spread()
        return other.subsets[0] < self.subsets[0]


def partition_plainly(costs, k, equal):
    """Returns the sums of the k sets, largest first."""
    items = sorted((cost, item) for item, cost in enumerate(costs))
    step = k if equal else 1
    heap = []
    for first in range(0, len(items), step):
        heapq.heappush(heap, Arrangement(items[first:first + step], k))
    while len(heap) > 1:
        greatest = heapq.heappop(heap)
        greatest.absorb(heapq.heappop(heap))
        heapq.heappush(heap, greatest)
    return [subset.total for subset in heap[0].subsets]


class State:
    """k sets in descending order, and the sort key in the heap: the tuned version."""

    def __init__(self, sets):
        self.sets = sorted(sets, reverse=True)
        self.spread = self.sets[0][0] - self.sets[-1][0]

    def __lt__(self, other):
        if self.spread != other.spread:
            return self.spread > other.spread
        return self.sets[0] > other.sets[0]

    def merged(self, other):
        """Joins the heaviest set of one state to the lightest of the other, and so on."""
        return State([(a[0] + b[0], a[1] + b[1], a[2] + b[2])
                      for a, b in zip(self.sets, reversed(other.sets))])


def partition_tuned(costs, k, equal):
    """Like partition_plainly, with tuples."""
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


def timed(partition, case):
    """Returns the median time over the rounds, and the sums found."""
    seconds = []
    for _ in range(case["rounds"]):
        start = time.perf_counter()
        sums = partition(case["costs"], case["k"], case["equal"])
        seconds.append(time.perf_counter() - start)
    return {"seconds": statistics.median(seconds), "sums": sums}


def main():
    with open(sys.argv[1]) as file:
        question = json.load(file)
    answers = [{"plain": timed(partition_plainly, case), "tuned": timed(partition_tuned, case)}
               for case in question["cases"]]
    with open(sys.argv[2], "w") as file:
        json.dump({"version": sys.version.split()[0], "answers": answers}, file)


main()
