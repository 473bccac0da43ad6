"""How many bytes a result takes, cheaply: the way to tell is remembered per type."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeAlias

from hetsched.gpu.objects import cuda_nbytes, may_live_on_device

__all__ = ["FIXED", "Measure"]

_Way: TypeAlias = "int | Callable[[Any], int]"

FIXED: dict[type, int] = {type(None): 16, bool: 28, int: 28, float: 24, complex: 32}
"""The size of an instance of types whose instances are all alike (whole numbers nearly so), in bytes."""

_KNOWN: dict[type, _Way] = {
    **FIXED,
    bytes: len,
    bytearray: len,
    str: sys.getsizeof,
    memoryview: lambda view: view.nbytes,
}


class Measure:
    """Gives ``(nbytes, cuda_nbytes)`` of a value; ``fallback`` sizes what is not known here."""

    __slots__ = ("_fallback", "_ways")

    def __init__(self, fallback: Callable[[Any], int] = sys.getsizeof) -> None:
        self._fallback = fallback
        self._ways: dict[type, tuple[_Way, bool]] = {kind: (way, False) for kind, way in _KNOWN.items()}

    def __call__(self, value: Any) -> tuple[int, int]:
        """Size a value; never raises, whatever the value's own code does."""
        kind = type(value)
        known = self._ways.get(kind)
        if known is None:
            known = self._learn(kind)
        way, device = known
        if device:
            on_device = cuda_nbytes(value)
            if on_device:
                return on_device, on_device
        if type(way) is int:
            return way, 0
        try:
            return int(way(value)), 0  # type: ignore[operator]
        except Exception:
            return 0, 0

    def _learn(self, kind: type) -> tuple[_Way, bool]:
        way: _Way = _array_nbytes if kind.__module__ == "numpy" and kind.__name__ == "ndarray" else self._fallback
        if len(self._ways) > 10_000:
            self._ways.clear()
        known = self._ways[kind] = (way, may_live_on_device(kind))
        return known


def _array_nbytes(array: Any) -> int:
    return int(array.nbytes)
