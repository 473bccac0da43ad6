"""A table that forgets what was not asked for in a long time, so that it does not grow for ever."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

__all__ = ["MOST_REMEMBERED", "Remembered"]

V = TypeVar("V")

MOST_REMEMBERED = 10_000
"""So many entries are kept for certain, those asked for last; up to twice as many may be there."""


class Remembered(Generic[V]):
    """A mapping of names to what is known by them, with the entries that were used last.

    There are two halves. What is found in the old one moves to the young one; when that is full it becomes the old one,
    and what was still in the old one is forgotten. So looking up what is used costs no bookkeeping. What is forgotten
    lives on with those that hold it, and others get a new one under the same name.
    """

    __slots__ = ("_most", "_old", "_young")

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        self._young: dict[Hashable, V] = {}
        self._old: dict[Hashable, V] = {}

    def get(self, name: Hashable) -> V | None:
        """What is known by a name, None if nothing is."""
        found = self._young.get(name)
        if found is None and self._old:
            found = self._old.pop(name, None)
            if found is not None:
                self[name] = found
        return found

    def __getitem__(self, name: Hashable) -> V:
        found = self.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def __setitem__(self, name: Hashable, value: V) -> None:
        if len(self._young) >= self._most and name not in self._young:
            self._old = self._young
            self._young = {}
        self._young[name] = value
        self._old.pop(name, None)

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def __iter__(self) -> Iterator[Hashable]:
        return iter([*self._old, *self._young])

    def items(self) -> list[tuple[Hashable, V]]:
        """All there is, those that were not asked for of late first."""
        return [*self._old.items(), *self._young.items()]

    def values(self) -> list[V]:
        """What is known, in the same order."""
        return [*self._old.values(), *self._young.values()]
