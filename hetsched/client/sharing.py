"""Large values that several tasks of a graph are given: each is sent once, as the result of a task of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hetsched.core.types import EACH, Ref, TaskSpec
from hetsched.worker.sizes import Measure

from .futures import BaseFuture
from .joining import LOOKED_INTO, MAKERS, inside

__all__ = ["LEAST_BYTES", "SPARED_BYTES", "shared_values"]

LEAST_BYTES = 1 << 14
"""A value that is smaller than this is sent along with each task."""

SPARED_BYTES = 1 << 20
"""What sending a value once must spare."""

_SMALL = frozenset({Ref, int, float, bool, type(None), complex, slice, type, type(lambda: None)})
_LONGEST = 1000  # a container with more items is taken for a value, and not looked into


def shared_values(tasks: Sequence[TaskSpec]) -> list[Any]:
    """The values that are worth sending once; looks at all arguments."""
    found = _Shared()
    see, small, looked_into = found.see, _SMALL, LOOKED_INTO
    for spec in tasks:
        if spec.args is not EACH:
            for arg in spec.args:
                if type(arg) not in small:
                    see(arg)
        if spec.kwargs:
            for arg in spec.kwargs.values():
                see(arg)
        if type(spec.func) in looked_into:
            see(spec.func)
    return list(found.worth_it()) if found.again else []


class _Shared:
    def __init__(self) -> None:
        self.again: dict[int, int] = {}
        """How often an object was seen after the first time."""
        self._seen: dict[int, Any] = {}

    def see(self, obj: Any) -> None:
        kind = type(obj)
        if kind in _SMALL or ((kind is str or kind is bytes) and len(obj) < LEAST_BYTES):
            return
        known = id(obj)
        if known in self._seen:
            self.again[known] = self.again.get(known, 0) + 1
            return
        self._seen[known] = obj
        if kind in LOOKED_INTO or (kind in MAKERS and len(obj) <= _LONGEST):
            for part in inside(obj):
                self.see(part)

    def worth_it(self) -> Iterator[Any]:
        measure = Measure()
        for known, more in self.again.items():
            obj = self._seen[known]
            # A callable that several tasks share is sent once as it is.
            if type(obj) in LOOKED_INTO or callable(obj) or isinstance(obj, BaseFuture):
                continue
            nbytes, cuda_nbytes = measure(obj)
            if not cuda_nbytes and nbytes >= LEAST_BYTES and nbytes * more >= SPARED_BYTES:
                yield obj
