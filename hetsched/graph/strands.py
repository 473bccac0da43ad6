"""Tasks of one layer that read what lies in different pools: a concatenation of that is read part by part."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

__all__ = ["NOWHERE", "Strand", "strands"]


class Strand(NamedTuple):
    """The pools that a task leads back to and, where those are several, the groups of the tasks that it reads."""

    pools: frozenset[str]
    inputs: frozenset[int]


NOWHERE = Strand(frozenset(), frozenset())


def strands(
    deps: Sequence[Sequence[int]],
    kinds: Sequence[Hashable],
    begins: Callable[[int], frozenset[str] | None],
    pools: int,
) -> list[Strand]:
    """Tell tasks of a kind apart by what they read: those of a kind and a strand are a group.

    ``deps`` are the numbers of the tasks that each reads, ``begins`` says of a task from which pools its result is,
    None where that follows from what it reads. Tasks that all lead back to one pool are alike. A kind that would come
    to more than twice as many parts as there are ``pools`` stays whole: those are the ways in which a reduction mixes.
    Takes time in proportion to the tasks and what they read.
    """
    found = [NOWHERE] * len(deps)
    groups: dict[tuple[Hashable, Strand], int] = {}
    group_of = [-1] * len(deps)
    parts: dict[Hashable, set[Strand]] = {}
    for n in _inputs_first(deps):
        kind = kinds[n]
        mine = begins(n)
        strand = _strand(deps[n], kind, kinds, found, group_of) if mine is None else Strand(mine, frozenset())
        found[n] = strand
        group_of[n] = groups.setdefault((kind, strand), len(groups))
        parts.setdefault(kind, set()).add(strand)
    many = {kind for kind, each in parts.items() if len(each) > 2 * pools}
    return [NOWHERE if kind in many else strand for kind, strand in zip(kinds, found, strict=True)] if many else found


def _strand(
    read: Sequence[int], kind: Hashable, kinds: Sequence[Hashable], found: Sequence[Strand], group_of: Sequence[int]
) -> Strand:
    if len(read) == 1 and len(found[read[0]].pools) < 2:
        return found[read[0]]
    pools: frozenset[str] = frozenset()
    for d in read:
        pools |= found[d].pools
    inputs: set[int] = set()
    if len(pools) > 1:
        for d in read:
            if kinds[d] == kind:  # one after the other in a layer: they go together
                inputs |= found[d].inputs
            else:
                inputs.add(group_of[d])
    return Strand(pools, frozenset(inputs))


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
