"""A network whose links are shared max-min fairly, by transfers or by pairs of workers."""

from __future__ import annotations

from collections.abc import Callable

from hetsched.sims.clock import Clock

from .fair import FairShares, Share
from .topology import Topology
from .transfer import Transfer

__all__ = ["MaxMin"]


class MaxMin:
    """Transfers that share links.

    After each instant the rates are settled once; a transfer whose rate has changed gets a new forecast of its end,
    and the old one is void.
    """

    def __init__(self, topology: Topology, clock: Clock, done: Callable[[Transfer], None]) -> None:
        self._clock = clock
        self._done = done
        self._pairs = topology.spec.fairness == "pair"
        self._fair = FairShares(topology.capacity)
        self._serial = 0
        self._share_of: dict[tuple[str, str, tuple[int, ...]], Share] = {}
        """Of a pair and links: what comes from a device has a share of its own, which crosses the bus."""
        self._members: dict[int, list[Transfer]] = {}
        """The transfers of each share, by its number."""
        self._whose: dict[int, Share] = {}
        """The share of each transfer, by its number."""
        self._changed: dict[int, Share] = {}
        """Shares that have another number of transfers than before."""

    def start(self, transfer: Transfer) -> None:
        """Let its bytes flow."""
        now = self._clock.now
        way, nbytes = transfer.legs[transfer.leg]
        links = way.links
        transfer.remaining = float(nbytes)
        transfer.since = now
        transfer.rate = 0.0
        if not links or not nbytes:
            self._clock.at(now, self._end, transfer, transfer.version)
            return
        pair = (transfer.source, transfer.target, links)
        share = self._share_of.get(pair) if self._pairs else None
        if share is None:
            self._serial += 1
            share = Share(self._serial, links)
            self._fair.add(share)
            self._members[share.number] = []
            if self._pairs:
                self._share_of[pair] = share
        self._members[share.number].append(transfer)
        self._whose[transfer.number] = share
        self._changed[share.number] = share

    def stop(self, transfer: Transfer) -> None:
        """Let no more of its bytes flow."""
        transfer.version += 1
        transfer.rate = 0.0
        self._leave(transfer)

    def links_changed(self) -> None:
        """Links have got faster or slower."""
        self._fair.links_changed()

    def is_idle(self) -> bool:
        """Whether no link is taken."""
        return not self._members

    def _leave(self, transfer: Transfer) -> None:
        share = self._whose.pop(transfer.number, None)
        if share is None:
            return
        members = self._members[share.number]
        members.remove(transfer)
        if members:
            self._changed[share.number] = share
        else:
            del self._members[share.number]
            self._changed.pop(share.number, None)
            self._fair.remove(share)
            if self._pairs:
                del self._share_of[transfer.source, transfer.target, share.links]

    def _end(self, transfer: Transfer, version: int) -> None:
        if transfer.version == version:
            self._leave(transfer)
            self._done(transfer)

    def settle(self) -> None:
        """Compute the rates after all that has happened at this instant."""
        shares = self._fair.settle()
        if self._changed:
            numbers = {share.number for share in shares}
            shares += [share for number, share in self._changed.items() if number not in numbers]
            self._changed = {}
        for share in shares:
            members = self._members.get(share.number)
            if members:
                self._forecast(members, share.rate / len(members))

    def _forecast(self, members: list[Transfer], rate: float) -> None:
        clock = self._clock
        now = clock.now
        for transfer in members:
            if transfer.rate == rate:
                continue
            transfer.remaining -= transfer.rate * (now - transfer.since)
            transfer.since = now
            transfer.rate = rate
            transfer.version += 1
            left = transfer.remaining
            if rate > 0.0:
                clock.at(now + (left / rate if left > 0.0 else 0.0), self._end, transfer, transfer.version)
