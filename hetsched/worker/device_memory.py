"""How much of its devices' memory a worker's results may take."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .memory import memory_limit

__all__ = ["DeviceLimit", "loaded_total"]

_ANY, _OTHER = 1 << 61, 1 << 62  # bytes; a limit that comes to the same for both is no part of them


class DeviceLimit:
    """A limit for the results of ``count`` devices together: ``target`` bytes, None for none or while it is not known.

    ``value`` is a size, as ``4e9`` or ``"4GB"``; a part of the devices' memory, as ``0.8`` or ``"80%"``; 0, None or
    False for no limit. How much memory the devices have is asked of the GPU library that a task has loaded, when there
    is a first result on a device: this loads none. Where none tells, a part is no limit. Raises ValueError for anything
    else.
    """

    def __init__(self, value: str | float | None, count: int) -> None:
        self.target: int | None = None
        self._part: str | float | None = None
        self._count = count
        if not value:
            return
        size = memory_limit(value, 1, _ANY)
        if size == memory_limit(value, 1, _OTHER):
            self.target = size or None
        else:
            self._part = value

    @property
    def waits(self) -> bool:
        """Whether the limit is a part of what is not known yet."""
        return self._part is not None

    def learn(self) -> None:
        """There is a result on a device: find out what the limit comes to. Safe in any thread."""
        part, self._part = self._part, None
        total = loaded_total(self._count) if part is not None else None
        if part is not None and total:
            self.target = memory_limit(part, 1, total)


def loaded_total(count: int) -> int | None:
    """The bytes of the first ``count`` devices' memory, by a GPU library that is loaded; None where none can tell."""
    cupy: Any = sys.modules.get("cupy")
    torch: Any = sys.modules.get("torch")
    ways: list[tuple[Any, Callable[[int], Any]]] = [
        (cupy, lambda n: cupy.cuda.runtime.getDeviceProperties(n)["totalGlobalMem"]),
        (torch, lambda n: torch.cuda.get_device_properties(n).total_memory),
    ]
    for library, total in ways:
        if library is not None:
            with suppress(Exception):  # a library's own troubles
                return sum(int(total(n)) for n in range(count))
    return None
