"""Karmarkar and Karp's method in plain Python, as in verl, slime and MindSpeed-RL: the baseline for the C++ implementation.
Gives the same result, including ties."""

from __future__ import annotations

import functools
import heapq
from collections.abc import Sequence


@functools.total_ordering
class Group:
    __slots__ = ("sum", "items")

    def __init__(self) -> None:
        self.sum = 0
        self.items: list[tuple[int, int]] = []

    def merge(self, other: Group) -> None:
        self.sum += other.sum
        self.items.extend(other.items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Group) and (self.sum, self.items) == (other.sum, other.items)

    def __lt__(self, other: Group) -> bool:
        return (self.sum, len(self.items), self.items) < (other.sum, len(other.items), other.items)


class State:
    """A partial partition: k groups, the heaviest first."""

    __slots__ = ("groups",)

    def __init__(self, items: Sequence[tuple[int, int]], k: int) -> None:
        self.groups = [Group() for _ in range(k)]
        for group, (item, cost) in zip(self.groups, items):
            group.items.append((item, cost))
            group.sum += cost
        self.groups.sort(reverse=True)

    @property
    def spread(self) -> int:
        return self.groups[0].sum - self.groups[-1].sum

    def merge(self, other: State) -> None:
        for mine, theirs in zip(self.groups, reversed(other.groups)):
            mine.merge(theirs)
        self.groups.sort(reverse=True)

    def __lt__(self, other: State) -> bool:
        if self.spread != other.spread:
            return self.spread > other.spread
        return self.groups[0] > other.groups[0]


def karmarkar_karp(costs: Sequence[int], k: int, equal_count: bool = False) -> list[list[int]]:
    ascending = sorted((cost, item) for item, cost in enumerate(costs))
    size = k if equal_count else 1
    states = [
        State([(item, cost) for cost, item in ascending[begin : begin + size]], k)
        for begin in range(0, len(ascending), size)
    ]
    heapq.heapify(states)
    while len(states) > 1:
        first = heapq.heappop(states)
        first.merge(heapq.heappop(states))
        heapq.heappush(states, first)
    return [[item for item, _ in group.items] for group in states[0].groups]
