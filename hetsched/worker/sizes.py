"""How many bytes a result takes, cheaply: the way to tell is remembered per type."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import islice
from typing import Any, TypeAlias

from hetsched.gpu.objects import cuda_nbytes, may_hold_device

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

_CONTAINERS = frozenset({list, tuple, set, frozenset, dict})
_SAMPLE = 10
_DEPTH = 4


class Measure:
    """Gives ``(nbytes, cuda_nbytes)`` of a value; ``fallback`` sizes what is not known here."""

    __slots__ = ("_fallback", "_ways")

    def __init__(self, fallback: Callable[[Any], int] = sys.getsizeof) -> None:
        self._fallback = fallback
        self._ways: dict[type, tuple[_Way, bool]] = {kind: (way, False) for kind, way in _KNOWN.items()}
        # dask samples containers at random, from the program's own generator, whose state is not ours to change.
        self._ways.update((kind, (self._container, True)) for kind in _CONTAINERS)

    def _container(self, items: Any, depth: int = 0) -> int:
        sample = list(islice(items.items() if isinstance(items, dict) else items, _SAMPLE))
        total = sys.getsizeof(items)
        if sample:
            total += int(sum(self._inside(item, depth + 1) for item in sample) / len(sample) * len(items))
        return total

    def _inside(self, item: Any, depth: int) -> int:
        """Size what a container holds, down to a depth that a ring of containers cannot make costly."""
        if type(item) in _CONTAINERS:
            return self._container(item, depth) if depth < _DEPTH else sys.getsizeof(item)
        return self(item)[0]

    def __call__(self, value: Any) -> tuple[int, int]:
        """Size a value; never raises, whatever the value's own code does."""
        try:
            way, device = self._ways.get(type(value)) or self._learn(type(value))
            if device:
                on_device = cuda_nbytes(value)
                if on_device and type(value) in _CONTAINERS:
                    return max(on_device, self._container(value)), on_device
                if on_device:
                    return on_device, on_device
            return (way if type(way) is int else int(way(value))), 0  # type: ignore[operator]
        except BaseException:  # user code, even at this point
            return 0, 0

    def _learn(self, kind: type) -> tuple[_Way, bool]:
        way: _Way = self._fallback
        if kind.__module__ == "numpy" and kind.__name__ == "ndarray":
            way = _array_nbytes
        elif kind.__module__.partition(".")[0] == "pandas" and hasattr(kind, "memory_usage"):
            way = _frame_nbytes
        if len(self._ways) > 10_000:
            self._ways.clear()
        known = self._ways[kind] = (way, may_hold_device(kind))
        return known


def _frame_nbytes(frame: Any) -> int:
    # Not deep: that looks at every object, and dask's estimate of it draws random numbers.
    used = frame.memory_usage(deep=False)
    return int(used if isinstance(used, int) else used.sum())


def _array_nbytes(array: Any) -> int:
    return int(array.nbytes)
