"""Tasks of one layer that lead back to different pools: a concatenation of what lies in two is read part by part."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias

__all__ = ["Strand", "strands"]

Strand: TypeAlias = frozenset[str]
"""The pools from which what a task reads comes."""

_NOWHERE: Strand = frozenset()


def strands(
    deps: Sequence[Sequence[int]],
    kinds: Sequence[Hashable],
    begins: Callable[[int], Strand | None],
    pools: int,
) -> list[Strand]:
    """For each task the pools it leads back to, alike for all tasks of a kind where that would make too many parts.

    ``deps`` are the numbers of the tasks that each reads, ``begins`` says of a task from which pools its result is,
    None where that follows from what it reads. More than twice as many parts as there are ``pools`` are too many: they
    are the ways in which a reduction mixes. Takes time in proportion to the tasks and what they read.
    """
    found: list[Strand] = [_NOWHERE] * len(deps)
    known: dict[Strand, Strand] = {_NOWHERE: _NOWHERE}
    parts: dict[Hashable, set[Strand]] = {}
    for n in _inputs_first(deps):
        strand = begins(n)
        if strand is None:
            strand = _NOWHERE
            for d in deps[n]:
                if found[d] is not strand:
                    strand = known.setdefault(both := strand | found[d], both)
        found[n] = strand
        parts.setdefault(kinds[n], set()).add(strand)
    many = {kind for kind, mine in parts.items() if len(mine) > 2 * pools}
    return [_NOWHERE if kind in many else strand for kind, strand in zip(kinds, found, strict=True)] if many else found


def _inputs_first(deps: Sequence[Sequence[int]]) -> list[int]:
    """The tasks, each after those it reads; those in rings are left out."""
    readers: list[list[int]] = [[] for _ in deps]
    left = [0] * len(deps)
    for n, mine in enumerate(deps):
        left[n] = len(mine)
        for d in mine:
            readers[d].append(n)
    order = [n for n, count in enumerate(left) if not count]
    for n in order:
        for reader in readers[n]:
            left[reader] -= 1
            if not left[reader]:
                order.append(reader)
    return order
