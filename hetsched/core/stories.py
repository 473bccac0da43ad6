"""Find the entries of a graph's log that are about one task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

__all__ = ["SCANS", "Entry", "Stories"]

Entry = tuple[float, Any, str, Sequence[Any]]
"""When, to which phase, why, and which tasks moved."""

SCANS: Final = 16
"""So many stories of a graph are looked up by going through its log; for more an index is worth its while."""


class Stories:
    """Looks up stories, of a few tasks or of all, in about the time that their own entries take, all in all.

    Writing the log is what must be quick, so it is not sorted by task. One going through it is quicker than to make an
    index by some twenty times; but where every task of a large graph fails on its own account each has its story told.
    """

    __slots__ = ("_asked", "_index", "_known")

    def __init__(self) -> None:
        self._asked = 0
        self._known = 0
        """How many entries the index covers."""
        self._index: dict[Any, list[int]] = {}

    def about(self, task: object, log: list[Entry]) -> list[Entry]:
        """The entries about a task, in their order. The log may have grown since it was last asked about."""
        self._asked += 1
        if self._asked <= SCANS:
            return [entry for entry in log if task in entry[3]]
        last = len(log) - 1  # which may be being written
        for place in range(self._known, last):
            for ts in log[place][3]:
                places = self._index.get(ts)
                if places is None:
                    self._index[ts] = [place]
                else:
                    places.append(place)
        self._known = max(self._known, last)
        found = [log[place] for place in self._index.get(task, ())]
        return found + [entry for entry in log[self._known :] if task in entry[3]]
