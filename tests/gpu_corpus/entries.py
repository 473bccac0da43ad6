"""What the corpus consists of: callables with the right answer, and where their inputs and results live."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

__all__ = ["CPU", "DEPENDS", "ENTRIES", "GPU", "Entry", "cpu", "depends", "gpu"]

Answer = Literal["gpu", "cpu", "depends"]
Place = Literal["host", "device"]

GPU: Answer = "gpu"
CPU: Answer = "cpu"
DEPENDS: Answer = "depends"


class Entry(NamedTuple):
    """A callable and the right answer.

    ``depends`` is right where the answer is the input's: a GPU task when it is given what lives on a device, or is told
    to use one, else a CPU task. ``takes`` and ``gives`` say where inputs and result live (of a "depends" they follow
    each other), and ``seen`` whether device memory is allocated by CuPy, torch or RMM while it runs.
    """

    name: str
    func: Callable[..., Any]
    answer: Answer
    takes: Place
    gives: Place
    seen: bool


ENTRIES: list[Entry] = []


def _marker(answer: Answer) -> Callable[..., Any]:
    def mark(
        func: Callable[..., Any] | None = None,
        *,
        name: str = "",
        takes: Place = "host",
        gives: Place = "host",
        seen: bool = True,
    ) -> Any:
        def note(func: Callable[..., Any]) -> Callable[..., Any]:
            called = name or f"{func.__module__.rpartition('.')[2]}.{func.__qualname__}"
            ENTRIES.append(Entry(called, func, answer, takes, gives, seen and answer == GPU))
            return func

        return note if func is None else note(func)

    return mark


gpu = _marker(GPU)
cpu = _marker(CPU)
depends = _marker(DEPENDS)
