"""Wait for the work that a task has given to a device, which goes on after the task's function has returned.

A kernel is only queued by the call that launches it. Without waiting, a task would be said to have taken microseconds,
and the next one, or the transfer of its result, would be blamed for the time of its kernels.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

__all__ = ["register", "synchronise", "unregister"]

_registered: list[Callable[[], object]] = []
_usable: dict[str, bool] = {}


def register(call: Callable[[], object]) -> None:
    """Have ``call()`` called after each task on a GPU lane, on its thread, to wait for what that has begun.

    For libraries other than CuPy and torch, which are known. What it raises is the task's error.
    """
    if call not in _registered:
        _registered.append(call)


def unregister(call: Callable[[], object]) -> None:
    """Undo :func:`register`; nothing if it was not."""
    if call in _registered:
        _registered.remove(call)


def synchronise() -> None:
    """Wait until this thread's current device has done what its current streams were given; raises a kernel's error.

    Does nothing where no library is loaded, or none has used a device: it makes no context.
    """
    cupy = sys.modules.get("cupy")
    if cupy is not None and _can(cupy):
        cupy.cuda.get_current_stream().synchronize()
    torch = sys.modules.get("torch")
    if torch is not None:
        cuda = getattr(torch, "cuda", None)
        if cuda is not None and cuda.is_initialized():
            cuda.current_stream().synchronize()
    for call in tuple(_registered):
        call()


def _can(cupy: Any) -> bool:
    """Whether CuPy has a device to work with; it can be loaded without."""
    known = _usable.get("cupy")
    if known is None:
        try:
            known = bool(cupy.cuda.is_available())
        except Exception:
            known = False
        _usable["cupy"] = known
    return known
