"""See whether a task used a device while it ran, by what the libraries that the program has loaded count.

CuPy tells of each allocation on the thread that makes it. torch counts for the whole process and each device, RMM for
its current resource, the driver for the process: what they count is a task's own only where no other ran beside it,
which the caller knows. No library is imported, no context made, no device waited for.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from . import nvml

__all__ = ["Probe", "active"]

_modules = sys.modules


def active() -> bool:
    """Whether any library that uses a device is loaded; while none is, a :class:`Probe` sees nothing."""
    return (
        "cupy" in _modules
        or "torch" in _modules
        or "rmm" in _modules
        or "numba.cuda" in _modules
        or "jaxlib" in _modules
        or "tensorflow" in _modules
        or "pycuda" in _modules
    )


class Probe:
    """Watches one task at a time, on the thread that makes it; use ``start`` and ``stop`` around the task.

    After ``stop``, ``touched`` says whether the device was used at all, and ``allocated`` how many bytes were allocated
    on it, freed or not. ``process_wide`` says that other threads' use of the device may be in that.
    """

    __slots__ = ("_cupy", "_driver", "_hook", "_rmm", "_thread", "_torch", "allocated", "process_wide", "touched")

    def __init__(self, driver: bool = False) -> None:
        """With ``driver``, the driver is asked too, about a millisecond each time:

        the last resort for other libraries.
        """
        self.allocated = 0
        self.touched = False
        self.process_wide = False
        self._driver = driver
        self._hook: Any = None
        self._cupy = self._torch = self._rmm = False
        self._thread: list[int] | None = None

    def start(self) -> None:
        """Begin to watch; costs next to nothing where no library is loaded. Never raises."""
        self.allocated = 0
        self.touched = self.process_wide = False
        self._thread = None
        if not active():
            return
        self._begin()

    def stop(self) -> int:
        """End watching; returns the bytes that were allocated. Never raises."""
        before = self._thread
        if before is None:
            return 0
        self._thread = None
        self._end(before)
        return self.allocated

    def _begin(self) -> None:
        if "cupy" in _modules:
            self._hook = self._hook or _make_hook(self)
            if self._hook is not None:
                try:
                    self._hook.__enter__()
                    self._cupy = True
                except Exception:  # another hook of the same kind is there: the person's own
                    self._cupy = False
        self._thread = [_quietly(_torch_count), _quietly(_rmm_count), self._held()]

    def _end(self, before: list[int]) -> None:
        if self._cupy:
            self._cupy = False
            try:
                self._hook.__exit__()
            except Exception:  # the person's code has taken hooks away
                self._hook = None
        for count, was in zip((_torch_count, _rmm_count, self._held), before, strict=True):
            more = _quietly(count) - was
            if more > 0:
                self.process_wide = self.touched = True
                self.allocated += more

    def _held(self) -> int:
        return nvml.memory_of_process(os.getpid()) if self._driver else 0

    def note(self, nbytes: int) -> None:
        """Note an allocation on this thread."""
        self.touched = True
        self.allocated += nbytes


def _quietly(count: Callable[[], int]) -> int:
    try:
        return count()
    except Exception:  # a library's own code, perhaps in the middle of being imported
        return 0


def _torch_count() -> int:
    """Bytes that torch has allocated on devices since it started, by its own counters; making no context."""
    torch = _modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return 0
    total = 0
    for number in range(torch.cuda.device_count()):
        stats = torch.cuda.memory_stats_as_nested_dict(number)
        total += int(stats.get("allocated_bytes", {}).get("all", {}).get("allocated", 0))
    return total


def _rmm_count() -> int:
    """Bytes that RMM has allocated, if the person has had it count (``rmm.statistics.enable_statistics()``)."""
    if "rmm" not in _modules:
        return 0
    statistics = _modules.get("rmm.statistics")
    found = statistics.get_statistics() if statistics is not None else None
    return int(found.total_bytes) if found is not None else 0


_hook_class: list[Any] = []
_hook_lock = threading.Lock()


def _make_hook(probe: Probe) -> Any:
    """A hook of CuPy's memory, which tells the probe of each allocation; None where CuPy has no hooks."""
    try:
        with _hook_lock:
            if not _hook_class:
                _hook_class.append(_class_of_hooks(_modules["cupy"].cuda.memory_hook.MemoryHook))
        hook = _hook_class[0]()
        hook.probe = probe
        return hook
    except Exception:  # CuPy is being imported, or is no CuPy
        return None


def _class_of_hooks(base: Any) -> Any:
    class Hook(base):  # type: ignore[misc]
        """Tells of memory that is taken on this thread, from CuPy's pool or from the device."""

        name = "hetsched"
        probe: Probe

        def malloc_preprocess(self, **given: Any) -> None:
            """Called by CuPy before memory is taken, also where the pool has it."""
            self.probe.note(int(given.get("size", given.get("mem_size", 0))))

    return Hook
