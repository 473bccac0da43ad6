"""Bytes on their way between pools, by link: as a graph would run with what was said alone, and as it is planned."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple, TypeAlias

from hetsched.core.pools.layers import Problem

__all__ = ["ELSEWHERE", "Crossing", "Link", "elsewhere", "expected", "names", "planned", "total"]

ELSEWHERE = "(elsewhere)"
"""Stands for all other workers where a graph speaks of one pool alone."""

Link: TypeAlias = tuple[str, str]


class Crossing(NamedTuple):
    """Bytes that cross a link, and the layers of unknown size whose results do too."""

    nbytes: float
    unknown: int


def names(problem: Problem) -> list[str]:
    """The pools, two at least."""
    return [*problem.pools] if len(problem.pools) > 1 else [*problem.pools, ELSEWHERE]


def planned(problem: Problem, places: Sequence[int]) -> dict[Link, Crossing]:
    """What crosses where every layer is where it was put; those that nothing pulls follow their data."""
    sums = _Sums(problem)
    for n, here in enumerate(places):
        if here >= 0:
            for there in sorted({places[reader] for reader in problem.readers[n]} - {-1, here}):
                sums.add(n, here, there, 1.0)
    return sums.by_link


def expected(problem: Problem) -> dict[Link, Crossing]:
    """What crosses if layers of which no pool was said run in every pool alike, as far as they touch one that was."""
    sums = _Sums(problem)
    count = len(sums.names)
    said = [layer.pools is not None for layer in problem.layers]
    for n, here_said in enumerate(said):
        readers = problem.readers[n]
        into = {problem.allowed[reader][0] for reader in readers if said[reader]}
        loose = any(not said[reader] for reader in readers)
        heres = [problem.allowed[n][0]] if here_said else range(count)
        for here in heres:
            part = 1.0 if here_said else 1 / count
            for there in range(count):
                if there == here:
                    continue
                if there in into:
                    sums.add(n, here, there, part)
                elif here_said and loose:
                    sums.add(n, here, there, 1 / count)
    return sums.by_link


def total(links: dict[Link, Crossing]) -> float:
    """All bytes of known size that cross."""
    return sum(crossing.nbytes for crossing in links.values())


def elsewhere(problem: Problem, places: Sequence[int], n: int) -> dict[str, int | None]:
    """The bytes that would cross because of a layer in each pool it may be in, all others staying; None: unknown."""
    found: dict[str, int | None] = {}
    choice = [*problem.allowed[n]]
    if len(problem.pools) == 1:
        choice.append(1)
    shown = names(problem)
    for pool in choice:
        crossing = [
            d
            for d in problem.inputs[n]
            if places[d] not in (-1, pool) and not any(places[r] == pool for r in problem.readers[d] if r != n)
        ]
        crossing += [n] * len({places[reader] for reader in problem.readers[n]} - {-1, pool})
        known = not any(problem.unknown[d] for d in crossing)
        found[shown[pool]] = sum(problem.weights[d] for d in crossing) if known else None
    return found


class _Sums:
    def __init__(self, problem: Problem) -> None:
        self.names = names(problem)
        self._problem = problem
        self.by_link: dict[Link, Crossing] = {link: Crossing(0.0, 0) for link in combinations(self.names, 2)}
        self._unknown: dict[tuple[Link, int], None] = {}

    def add(self, n: int, here: int, there: int, part: float) -> None:
        link = (self.names[min(here, there)], self.names[max(here, there)])
        nbytes, unknown = self.by_link[link]
        if not self._problem.unknown[n]:
            self.by_link[link] = Crossing(nbytes + self._problem.weights[n] * part, unknown)
        elif (link, n) not in self._unknown:
            self._unknown[link, n] = None
            self.by_link[link] = Crossing(nbytes, unknown + 1)
