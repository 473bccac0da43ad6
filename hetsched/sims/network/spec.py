"""What a network is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["NetworkSpec", "Wire"]


@dataclass(frozen=True, slots=True)
class Wire:
    """A link between pools, one way: bytes per second (0: no limit of its own), seconds, and money per 10**9 bytes."""

    bandwidth: float = 0.0
    latency: float = 0.0
    price: float = 0.0


@dataclass(frozen=True, slots=True)
class NetworkSpec:
    """A network of workers and pools.

    ``model``: transfers take no time ("instant"), their size over the slowest link of their way whatever else there is
    ("simple"), or share every link fairly ("maxmin"), each for itself ("flow") or each pair of workers ("pair", whose
    transfers share what it gets). ``bandwidth`` is a worker's own link, bytes per second up and as many down (0: no
    limit), ``latency`` seconds before the first byte, ``overhead`` seconds a transfer takes beside its bytes.

    ``between`` are links from pool to pool, ``uplinks`` what a pool shares to all others (up and down alike).

    ``downloads`` and ``downloads_per_source`` limit how many transfers one worker takes at a time (None: no limit).
    With ``requests`` "one" a request is answered as a whole, as workers do; with "many" each result is a transfer.
    ``replica`` picks who is asked first: the "first" told, or the "nearest" (of the same pool).
    """

    model: Literal["instant", "simple", "maxmin"] = "simple"
    bandwidth: float = 125e6
    latency: float = 0.0
    overhead: float = 0.0
    fairness: Literal["flow", "pair"] = "flow"
    downloads: int | None = 8
    downloads_per_source: int | None = None
    requests: Literal["one", "many"] = "one"
    replica: Literal["first", "nearest"] = "first"
    between: Mapping[tuple[str, str], Wire] = field(default_factory=dict)
    uplinks: Mapping[str, Wire] = field(default_factory=dict)
