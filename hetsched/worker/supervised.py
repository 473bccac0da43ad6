"""Run a task where a device may be used: watch its memory, wait for its kernels, try again when it was full."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from hetsched.core.evidence import RAN, Evidence
from hetsched.core.types import TaskId, TaskSpec
from hetsched.gpu import probes
from hetsched.gpu.errors import is_out_of_device_memory
from hetsched.gpu.streams import synchronise

__all__ = ["Supervisor", "supervisor"]


def supervisor(executor: str, store: Any, device: int | None = None) -> Supervisor | None:
    """Give what runs the tasks of a batch on this executor, in a lane of this ``device`` if any.

    None where no device can be used: they are just called.
    """
    on_gpu = executor == "gpu"
    watches = probes.active()
    return Supervisor(on_gpu, watches, store, device) if on_gpu or watches else None


class Supervisor:
    """Runs tasks of one batch, on one thread.

    ``seen`` collects what the probes saw of device memory that tasks took; ``watched`` says whether they were at work
    and would have seen any. On a GPU lane a task has ended when its kernels have, and one that finds the device full is
    run once more after what can be freed was: pools of freed blocks, and results that the store can bring to the host,
    but for those on other devices than the lane's ``device``.
    """

    __slots__ = ("_device", "_on_gpu", "_probe", "_store", "seen", "watched")

    def __init__(self, on_gpu: bool, watches: bool, store: Any, device: int | None) -> None:
        self._device = device
        self._on_gpu = on_gpu
        self._store = store
        self._probe = probes.Probe() if watches else None
        self.watched = watches and not any(name in sys.modules for name in _UNSEEN)
        self.seen: list[tuple[TaskId, Evidence]] = []

    def run(self, task: TaskId, spec: TaskSpec, inputs: Sequence[Any]) -> Any:
        """Run a task; raises what it raises, that of its second try if there is one."""
        probe = self._probe
        if probe is None:
            return self._run(spec, inputs)
        company = _company.enter()
        probe.start()
        try:
            return self._run(spec, inputs)
        finally:
            allocated = probe.stop()
            alone = _company.leave(company)
            if probe.process_wide and not alone:
                self.watched = False  # whose memory it was cannot be told
            elif probe.touched:
                self.seen.append((task, Evidence(RAN, 0.9, _words(allocated))))

    def _run(self, spec: TaskSpec, inputs: Sequence[Any]) -> Any:
        if not self._on_gpu:
            return spec(inputs)
        try:
            value = spec(inputs)
            synchronise()
        except Exception as error:
            if not is_out_of_device_memory(error):
                raise
        else:
            return value
        # Out of the handler, so that the traceback keeps no array of the first try alive.
        free_device_memory(self._store, self._device)
        value = spec(inputs)
        synchronise()
        return value


class _Company:
    """Counts the tasks of this process that are watched, so that one can tell whether another ran beside it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._begun = 0

    def enter(self) -> int:
        """Begin; returns a number for :meth:`leave`, negative where others are at it already."""
        with self._lock:
            self._running += 1
            self._begun += 1
            return self._begun if self._running == 1 else -1

    def leave(self, entered: int) -> bool:
        """End; tells whether no other ran meanwhile."""
        with self._lock:
            self._running -= 1
            return entered == self._begun


_company = _Company()
_UNSEEN = ("numba.cuda", "jaxlib", "tensorflow", "pycuda")
"""Libraries whose use of a device no probe sees."""


def _words(allocated: int) -> str:
    return "it took memory of a device while it ran" if allocated else "it used a device while it ran"


def free_device_memory(store: Any, device: int | None = None) -> None:
    """Free what can be freed on the device: results go to the host, libraries give back what they keep for later."""
    spill = getattr(store, "spill_device", None)
    if spill is not None:
        spill(device=device)
    gc.collect()
    cupy = sys.modules.get("cupy")
    if cupy is not None:
        with suppress(Exception):
            cupy.get_default_memory_pool().free_all_blocks()
    torch = sys.modules.get("torch")
    if torch is not None:
        with suppress(Exception):
            torch.cuda.empty_cache()
