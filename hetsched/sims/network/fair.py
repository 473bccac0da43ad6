"""Max-min fair shares of links, kept up to date: what starts or ends changes only the shares that depend on it.

Shares are max-min fair if and only if each has a bottleneck: a link that is full, on which none has more (Bertsekas
and Gallager, *Data Networks*, 1992, section 6.5.2). So after a change only some shares are filled anew, by progressive
filling, with all others taken to stay; then the others that have lost their bottleneck, or take more than their part
of a new one, are added, and it is tried again, until there are none. In the worst case that is all of them.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

__all__ = ["FairShares", "Share"]

_SLACK: Final = 1e-9
"""Rates that differ by less than this part are taken to be equal."""


class Share:
    """What one transfer, or all those of one pair, gets: bytes per second."""

    __slots__ = ("bottleneck", "links", "mark", "number", "rate")

    def __init__(self, number: int, links: tuple[int, ...]) -> None:
        self.number = number
        self.links = links
        self.rate = 0.0
        self.bottleneck = -1
        self.mark = 0


class FairShares:
    """Shares of links with these capacities (bytes per second); links may be appended to the list."""

    def __init__(self, capacity: list[float]) -> None:
        self.capacity = capacity
        self._on: list[dict[int, Share]] = []
        self._new: list[Share] = []
        self._dirty: dict[int, None] = {}
        self._mark = 0

    def add(self, share: Share) -> None:
        """Take a share in; it has one link at least."""
        for link in share.links:
            while link >= len(self._on):
                self._on.append({})
            self._on[link][share.number] = share
        self._new.append(share)

    def remove(self, share: Share) -> None:
        """Let a share go."""
        for link in share.links:
            del self._on[link][share.number]
            self._dirty[link] = None
        share.mark = -1

    def links_changed(self) -> None:
        """Capacities are others than before: all is computed anew."""
        for link in range(len(self._on)):
            self._dirty[link] = None
            self._new.extend(self._on[link].values())

    def settle(self) -> list[Share]:  # noqa: C901 - hot
        """Compute the rates; return the shares that were looked at, whose rates may have changed."""
        if not self._new and not self._dirty:
            return []
        self._mark += 1
        mark = self._mark
        chosen: list[Share] = []
        for share in self._new:
            if share.mark >= 0 and share.mark != mark:
                share.mark = mark
                chosen.append(share)
        for link in self._dirty:
            for share in self._on[link].values():
                if share.bottleneck == link and share.mark != mark:
                    share.mark = mark
                    chosen.append(share)
        for share in chosen:
            for link in share.links:
                self._add_greedy(link, self.capacity[link] / len(self._on[link]), mark, chosen)
        self._new = []
        self._dirty = {}
        while True:
            touched = self._fill(chosen)
            count = len(chosen)
            self._verify(touched, mark, chosen)
            if len(chosen) == count:
                return chosen

    def _add_greedy(self, link: int, level: float, mark: int, chosen: list[Share]) -> None:
        """Choose those that have more of a link than this."""
        limit = level * (1.0 + _SLACK)
        for share in self._on[link].values():
            if share.rate > limit and share.mark != mark:
                share.mark = mark
                chosen.append(share)

    def _fill(self, chosen: list[Share]) -> list[int]:  # noqa: C901 - hot
        """Share out what the others leave; returns the links of those that were chosen."""
        mark = self._mark
        left: dict[int, float] = {}
        count: dict[int, int] = {}
        for share in chosen:
            share.bottleneck = -1
            for link in share.links:
                count[link] = count.get(link, 0) + 1
        for link in count:
            free = self.capacity[link]
            for share in self._on[link].values():
                if share.mark != mark:
                    free -= share.rate
            left[link] = free if free > 0.0 else 0.0
        heap = [(left[link] / n, link) for link, n in count.items()]
        heapify(heap)
        while heap:
            level, link = heappop(heap)
            n = count[link]
            if not n:
                continue
            now = left[link] / n
            if now > level:
                heappush(heap, (now, link))
                continue
            for share in self._on[link].values():
                if share.mark == mark and share.bottleneck < 0:
                    share.bottleneck = link
                    share.rate = now
                    for other in share.links:
                        count[other] -= 1
                        rest = left[other] - now
                        left[other] = rest if rest > 0.0 else 0.0
        return list(left)

    def _verify(self, touched: list[int], mark: int, chosen: list[Share]) -> None:
        """Choose also those of the others who have lost their bottleneck or take more than their part of a new one."""
        for link in touched:
            used = most = 0.0
            level = -1.0
            for share in self._on[link].values():
                rate = share.rate
                used += rate
                if rate > most:
                    most = rate
                if share.bottleneck == link and share.mark == mark:
                    level = rate
            if level >= 0.0:
                self._add_greedy(link, level, mark, chosen)
            slack = used < self.capacity[link] * (1.0 - _SLACK)
            for share in self._on[link].values():
                if share.bottleneck == link and share.mark != mark and (slack or share.rate < most * (1.0 - _SLACK)):
                    share.mark = mark
                    chosen.append(share)
