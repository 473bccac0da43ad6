"""How much of its devices' memory a worker's results may take."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from .memory import memory_limit

__all__ = ["DeviceLimit", "loaded_memory"]

_ANY, _OTHER = 1 << 61, 1 << 62  # bytes; a limit that comes to the same for both is no part of them


class DeviceLimit:
    """A limit for the results on ``count`` devices: ``target`` bytes together, None for none or while it is not known.

    Where there are several devices ``each`` holds the limit of each. ``value`` is a size, as ``4e9`` or ``"4GB"``, of
    which each device has an equal share; a part of each device's memory, as ``0.8`` or ``"80%"``; 0, None or False for
    no limit. How much memory the devices have is asked of the GPU library that a task has loaded, when there
    is a first result on a device: this loads none. Where none tells, a part is no limit. Raises ValueError for anything
    else.
    """

    def __init__(self, value: str | float | None, count: int) -> None:
        self.target: int | None = None
        self.each: tuple[int, ...] = ()
        self._part: str | float | None = None
        self._count = count
        self._learning = threading.Lock()
        if not value:
            return
        size = memory_limit(value, 1, _ANY)
        if size == memory_limit(value, 1, _OTHER):
            self.target = size or None
            self.each = (size // count,) * count if size and count > 1 else ()
        else:
            self._part = value

    @property
    def waits(self) -> bool:
        """Whether the limit is a part of what is not known yet, so that :meth:`learn` is to be called first."""
        return self._part is not None

    def learn(self) -> None:
        """There is a result on a device: find out what the limit comes to.

        Safe in any thread. That may take a while, in which other threads come with results, which are to be counted
        too: so whoever calls this returns when it is known, and until then it :attr:`waits`.
        """
        with self._learning:
            part = self._part
            memory = loaded_memory(self._count) if part is not None else ()
            if memory:
                each = tuple(memory_limit(part, 1, total) for total in memory)
                self.target = sum(each)
                self.each = each if len(each) > 1 else ()
            self._part = None


def loaded_memory(count: int) -> Sequence[int]:
    """The bytes of memory of the first ``count`` devices, by a GPU library that is loaded; () where none can tell."""
    cupy: Any = sys.modules.get("cupy")
    torch: Any = sys.modules.get("torch")
    ways: list[tuple[Any, Callable[[int], Any]]] = [
        (cupy, lambda n: cupy.cuda.runtime.getDeviceProperties(n)["totalGlobalMem"]),
        (torch, lambda n: torch.cuda.get_device_properties(n).total_memory),
    ]
    for library, total in ways:
        if library is not None:
            with suppress(Exception):  # a library's own troubles
                return [int(total(n)) for n in range(count)]
    return ()
