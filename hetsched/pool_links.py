"""What the configuration says of pools: the links between them, and from which saving on a restriction is worth it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hetsched import config
from hetsched.core.links import Link, PoolPair
from hetsched.core.quantities import read_bytes, read_seconds

__all__ = ["links", "min_saving", "prices", "seconds_per_price"]

_FORM = "write {between: [A, B], bandwidth: 100MB/s, latency: 50ms, price: 0.09}"
_FIELDS = frozenset({"between", "bandwidth", "latency", "price"})


def links() -> dict[PoolPair, Link]:
    """The links of ``hetsched.pools.links``, by their two pools. Raises ValueError that says what to write."""
    told = config.get("pools.links") or ()
    if not isinstance(told, list | tuple):
        raise ValueError(f"hetsched.pools.links is a list of links, not {told!r}: {_FORM}")
    found: dict[PoolPair, Link] = {}
    for entry in told:
        pair, link = _read(entry)
        if pair in found or pair[::-1] in found:
            raise ValueError(f"hetsched.pools.links has two entries for the pools {pair[0]} and {pair[1]}")
        found[pair] = link
    return found


def prices() -> dict[tuple[str, str], float]:
    """The prices of 1e9 bytes on the links that have one."""
    return {
        (one, other): link.price
        for (one, other), link in links().items()
        if link.price is not None and one is not None and other is not None
    }


def min_saving() -> float:
    """``hetsched.pools.min-saving``. Raises ValueError where that is no part of one."""
    value = config.get("pools.min-saving")
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise ValueError(f"hetsched.pools.min-saving is {value!r}: write a part of the bytes read, 0.1 say")
    return float(value)


def seconds_per_price() -> float:
    """``hetsched.pools.seconds-per-price``. Raises ValueError where that is no number."""
    value = config.get("pools.seconds-per-price")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ValueError(f"hetsched.pools.seconds-per-price is {value!r}: write how long to wait rather than pay 1")
    return float(value)


def _read(entry: Any) -> tuple[PoolPair, Link]:
    where = f"a link of hetsched.pools.links is {entry!r}"
    if not isinstance(entry, Mapping) or not entry.keys() <= _FIELDS:
        raise ValueError(f"{where}: {_FORM}")
    between = entry.get("between")
    if not isinstance(between, list | tuple) or len(between) != 2 or between[0] == between[1]:
        raise ValueError(f"{where}, and does not say between which two pools: {_FORM}")
    for pool in between:
        if pool is not None and (isinstance(pool, bool) or not isinstance(pool, str | int) or pool == ""):
            raise ValueError(f"{where}, and {pool!r} is no pool's name (null: workers in no pool): {_FORM}")
    one, other = (None if pool is None else str(pool) for pool in between)
    bandwidth, latency, price = entry.get("bandwidth"), entry.get("latency"), entry.get("price")
    try:
        link = Link(
            None if bandwidth is None else float(read_bytes(str(bandwidth).removesuffix("/s"))),
            None if latency is None else read_seconds(latency, "the latency"),
            None if price is None else float(price),
        )
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}, and {error}: {_FORM}") from None
    if one == other:
        raise ValueError(f"{where}, and does not say between which two pools: {_FORM}")
    paid = link.price is None or (0 <= link.price < float("inf") and not isinstance(price, bool))
    if link.bandwidth == 0 or not paid:
        raise ValueError(f"{where}, with a bandwidth or price that cannot be: {_FORM}")
    return (one, other), link
