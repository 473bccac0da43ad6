"""Maximum flow and the minimum cut that it shows."""

from __future__ import annotations

from typing import Final

__all__ = ["SINK", "SOURCE", "UNBOUNDED", "Network"]

SOURCE: Final = 0
SINK: Final = 1
UNBOUNDED: Final = -1
"""As a capacity: more than any cut."""


class Network:
    """A network of whole capacities, and Dinic's algorithm on it (Dinitz 1970), without recursion.

    Nodes are numbers, :data:`SOURCE` and :data:`SINK` two of them. An arc and its reverse are neighbours in the lists.
    """

    __slots__ = ("_arcs", "_caps", "_heads", "_sum")

    def __init__(self) -> None:
        self._arcs: list[list[int]] = [[], []]
        self._heads: list[int] = []
        self._caps: list[int] = []
        self._sum = 1

    def node(self) -> int:
        """A new node."""
        self._arcs.append([])
        return len(self._arcs) - 1

    def join(self, tail: int, head: int, forth: int, back: int = 0) -> None:
        """Add an arc with its capacities in both directions."""
        if tail == head:
            return
        number = len(self._heads)
        self._heads += (head, tail)
        self._caps += (forth, back)
        self._arcs[tail].append(number)
        self._arcs[head].append(number + 1)
        self._sum += max(forth, 0) + max(back, 0)

    def cut(self) -> list[bool]:
        """For each node whether it is on the source's side of the minimum cut that has the fewest nodes there."""
        self._caps = [self._sum if cap < 0 else cap for cap in self._caps]
        while True:
            levels = self._levels()
            if levels[SINK] < 0:
                return [level >= 0 for level in levels]
            self._fill(levels)

    def _levels(self) -> list[int]:
        levels = [-1] * len(self._arcs)
        levels[SOURCE] = 0
        heads, caps, arcs = self._heads, self._caps, self._arcs
        row = [SOURCE]
        level = 0
        while row and levels[SINK] < 0:
            level += 1
            following = []
            for node in row:
                for arc in arcs[node]:
                    head = heads[arc]
                    if levels[head] < 0 and caps[arc]:
                        levels[head] = level
                        following.append(head)
            row = following
        return levels

    def _fill(self, levels: list[int]) -> None:
        """Send along shortest ways all that they take."""
        heads, caps, arcs = self._heads, self._caps, self._arcs
        nexts = [0] * len(arcs)
        way: list[int] = []
        node = SOURCE
        while True:
            if node == SINK:
                least = min([caps[arc] for arc in way])
                stop = 0
                for place in range(len(way) - 1, -1, -1):
                    arc = way[place]
                    caps[arc] -= least
                    caps[arc ^ 1] += least
                    if not caps[arc]:
                        stop = place
                node = heads[way[stop] ^ 1]
                del way[stop:]
                continue
            mine = arcs[node]
            place = nexts[node]
            deeper = levels[node] + 1
            while place < len(mine) and not (caps[mine[place]] and levels[heads[mine[place]]] == deeper):
                place += 1
            nexts[node] = place
            if place < len(mine):
                way.append(mine[place])
                node = heads[mine[place]]
            elif way:
                node = heads[way.pop() ^ 1]
                nexts[node] += 1
            else:
                return
