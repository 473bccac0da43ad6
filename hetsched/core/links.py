"""Links between pools: what was said of them, what was measured, and the seconds it takes to bring bytes across."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

__all__ = ["BANDWIDTH", "LATENCY", "Link", "LinkTable", "PoolPair", "Way"]

BANDWIDTH: Final = 100e6
"""Bytes per second between two workers, until it is measured."""

LATENCY: Final = 1e-3
"""Seconds a transfer takes beside its bytes."""

PoolPair: TypeAlias = tuple[str | None, str | None]
"""Two pools; None stands for workers that are in none."""

_MEMORY: Final = 0.9  # the share of what was measured that the next transfer leaves
_SMALL: Final = 1 << 16  # bytes up to which a transfer tells of the latency
_MOST: Final = 10.0  # times what was expected of a transfer: more than that it does not count for
_PATIENCE: Final = 10.0  # seconds that each may count for, whatever was expected
_LONGEST: Final = 1e9  # seconds; nothing takes longer, nor are there more than 1e18 bytes
_LEAST: Final = 0.2  # the share of a large transfer's time that its bytes take at least


class Link(NamedTuple):
    """What a person says of a link: bytes per second, seconds, and the price of 1e9 bytes. None: nothing."""

    bandwidth: float | None = None
    latency: float | None = None
    price: float | None = None


class Way(NamedTuple):
    """What a transfer costs: seconds for the request, and for each byte."""

    latency: float
    per_byte: float


class _Measured:
    """Sums over the transfers of one pair, the old ones fading."""

    __slots__ = ("large", "nbytes", "seconds", "small", "small_seconds")

    def __init__(self) -> None:
        self.large = 0.0
        self.nbytes = 0.0
        self.seconds = 0.0
        self.small = 0.0
        self.small_seconds = 0.0


class LinkTable:
    """The links of a cluster's pools. ``seconds_per_price``: how long one would wait to save one unit of money.

    What a person said of a link holds; what was not said is measured, and until then taken to be as it is inside a
    pool. Links have no direction.
    """

    __slots__ = ("_measured", "_said", "_seconds_per_price", "_ways", "crosses")

    def __init__(self, said: Mapping[PoolPair, Link] | None = None, seconds_per_price: float = 0.0) -> None:
        self._said = {_pair(*pair): link for pair, link in (said or {}).items()}
        self._seconds_per_price = seconds_per_price
        self._measured: dict[PoolPair, _Measured] = {}
        self._ways: dict[PoolPair, Way] = {pair: self._work_out(pair) for pair in self._said}
        self.crosses = any(one != other for one, other in self._ways)
        """Whether anything is known of a link between two pools; until then all transfers are taken to be alike."""

    def way(self, one: str | None, other: str | None) -> Way:
        """What it costs to bring something from the one pool to the other."""
        return self._ways.get((one, other)) or self._ways.get((other, one)) or _DEFAULT

    def learn(self, one: str | None, other: str | None, nbytes: int, seconds: float) -> None:
        """Take note of a transfer that was measured. Small ones tell of the latency, large ones of the bandwidth.

        What took far longer than expected counts in part: a link that is taken to be bad is not used, and so never
        measured again, and one machine that was suspended for an hour must not do that. What cannot be is left out.
        """
        if not (0 <= nbytes <= 1e18 and 0 <= seconds <= _LONGEST):
            return
        pair = _pair(one, other)
        expected = self.way(*pair)
        seconds = min(seconds, max(_PATIENCE, _MOST * (expected.latency + nbytes * expected.per_byte)))
        measured = self._measured.get(pair)
        if measured is None:
            measured = self._measured[pair] = _Measured()
        if nbytes <= _SMALL:
            measured.small = measured.small * _MEMORY + 1
            measured.small_seconds = measured.small_seconds * _MEMORY + seconds
        else:
            measured.large = measured.large * _MEMORY + 1
            measured.nbytes = measured.nbytes * _MEMORY + nbytes
            measured.seconds = measured.seconds * _MEMORY + max(seconds, 1e-6)
        self._ways[pair] = self._work_out(pair)
        self.crosses = self.crosses or one != other

    def _work_out(self, pair: PoolPair) -> Way:
        said = self._said.get(pair) or Link()
        measured = self._measured.get(pair)
        latency, per_byte = said.latency, None if said.bandwidth is None else 1 / said.bandwidth
        if latency is None:
            latency = LATENCY
            if measured is not None and measured.small:
                latency = measured.small_seconds / measured.small
        if per_byte is None:
            per_byte = 1 / BANDWIDTH
            if measured is not None and measured.nbytes:
                moving = max(measured.seconds - measured.large * latency, measured.seconds * _LEAST)
                per_byte = moving / measured.nbytes
        return Way(latency, per_byte + (said.price or 0.0) * 1e-9 * self._seconds_per_price)

    def described(self) -> list[tuple[str | None, str | None, float, float]]:
        """Each link that something is known of: its pools, latency in seconds and seconds for each byte."""
        return [(one, other, way.latency, way.per_byte) for (one, other), way in sorted(self._ways.items(), key=str)]


_DEFAULT: Final = Way(LATENCY, 1 / BANDWIDTH)


def _pair(one: str | None, other: str | None) -> PoolPair:
    return (one, other) if (one or "") <= (other or "") else (other, one)
