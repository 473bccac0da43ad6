"""Serialise results where that holds nobody up: what is quick at once, what is large or of unknown cost in a thread."""

from __future__ import annotations

from collections.abc import Hashable
from time import perf_counter
from typing import Any

import trio

from hetsched.comm.serialize import serialize

from .sizes import Measure

__all__ = ["LARGE", "SLOW_SECONDS", "Packing"]

LARGE = 1 << 20
"""Bytes of a result from which a thread serialises it."""

SLOW_SECONDS = 0.01
"""A kind of results of which one took longer is left to threads."""

_QUICK = frozenset({type(None), bool, int, float, complex, bytes, bytearray, memoryview})
_PLAIN = frozenset({type(None), bool, int, float, str, bytes})
_FEW = 100
_CONTAINERS = frozenset({list, tuple, set, frozenset, dict})
_MOST_KINDS = 10_000


class Packing:
    """Remembers what kinds of results take their time. For one trio loop."""

    def __init__(self) -> None:
        self._seconds: dict[Hashable, float] = {}
        self._measure = Measure()

    async def pack(self, value: Any, pickle: int, devices: tuple[str, ...]) -> tuple[Any, list[Any]]:
        """See :func:`serialize`; what is quick takes no checkpoint. Cancelled, it waits for a thread."""
        kind = _kind(value)
        if kind is None:
            return serialize(value, pickle, devices)
        if self._is_slow(kind, value):
            return await trio.to_thread.run_sync(self._timed, kind, value, pickle, devices)
        return self._timed(kind, value, pickle, devices)

    def _is_slow(self, kind: Hashable, value: Any) -> bool:
        seconds = self._seconds.get(kind)
        return seconds is None or seconds > SLOW_SECONDS or self._measure(value)[0] > LARGE

    def _timed(self, kind: Hashable, value: Any, pickle: int, devices: tuple[str, ...]) -> tuple[Any, list[Any]]:
        began = perf_counter()
        try:
            return serialize(value, pickle, devices)
        finally:
            if len(self._seconds) > _MOST_KINDS:
                self._seconds.clear()
            # One that was slow once is tried again, after a while.
            self._seconds[kind] = max(perf_counter() - began, self._seconds.get(kind, 0.0) / 2)


def _kind(value: Any) -> Hashable | None:
    """What values take about as long to serialise as this one; None where that is surely quick."""
    kind = type(value)
    if kind in _QUICK or (kind is str and len(value) <= LARGE):
        return None
    if kind in _CONTAINERS:
        items = value.values() if kind is dict else value
        if len(value) <= _FEW and _PLAIN.issuperset(map(type, items)):
            return None
        return kind.__name__, id(type(next(iter(items), None)))
    if type.__getattribute__(kind, "__module__") == "numpy":  # a metaclass may answer anything
        import numpy as np

        if kind is np.ndarray and not value.dtype.hasobject:
            return None if value.nbytes <= LARGE or value.flags.forc else kind.__name__
        if issubclass(kind, np.generic) and kind is not np.void:
            return None
    return id(kind)  # which can be hashed, whatever the type is
