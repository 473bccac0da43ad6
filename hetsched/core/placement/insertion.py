"""Plan where and when each task runs, one after another, into the first gap that is long enough."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple, TypeVar

__all__ = ["Place", "plan"]

_Task = TypeVar("_Task", bound=Hashable)


class Place(NamedTuple):
    """Where a task is to run, from when to when (seconds from now); ``worker`` counts the machines."""

    worker: int
    start: float
    stop: float


class _Slot:
    """One slot of a machine: its busy times, and from when on it is free for good."""

    __slots__ = ("busy", "end")

    def __init__(self, free_at: float) -> None:
        self.busy: list[tuple[float, float]] = [(0.0, free_at)] if free_at else []
        self.end = free_at

    def earliest(self, ready: float, lasts: float) -> float:
        """The first time from ``ready`` on from which it is free for so long."""
        if ready >= self.end:
            return ready
        start = ready
        for begin, end in self.busy:
            if begin >= start + lasts:
                break
            start = max(start, end)
        return start

    def take(self, start: float, stop: float) -> None:
        insort(self.busy, (start, stop))
        self.end = max(self.end, stop)


def plan(
    tasks: Sequence[_Task],
    inputs: Callable[[_Task], Sequence[_Task]],
    slots: Sequence[int],
    seconds: Callable[[_Task, int], float],
    moving: Callable[[_Task, int, int], float],
    free_at: Sequence[float] = (),
) -> Mapping[_Task, Place]:
    """Give each task, in this order, the machine on which it ends first, the first of equal ones.

    ``slots[m]`` says how many tasks machine m runs at a time, ``seconds(task, m)`` how long one takes (infinite where
    it cannot run), ``moving(input, a, b)`` how long an input takes from a to b, ``free_at[m]`` when m is free. An input
    that is not among the tasks is there already. Every task looks at every slot of every machine.
    """
    machines = [
        [_Slot(free_at[m] if free_at else 0.0) for _ in range(count)] for m, count in enumerate(slots)
    ]
    places: dict[_Task, Place] = {}
    for task in tasks:
        made = [(i, places[i]) for i in inputs(task) if i in places]
        best: tuple[float, float, int, _Slot] | None = None
        for m, machine in enumerate(machines):
            lasts = seconds(task, m)
            if lasts == float("inf"):
                continue
            ready = max((p.stop + (moving(i, p.worker, m) if p.worker != m else 0.0) for i, p in made), default=0.0)
            for slot in machine:
                start = slot.earliest(ready, lasts)
                if best is None or start + lasts < best[0]:
                    best = start + lasts, start, m, slot
        if best is not None:
            stop, start, m, slot = best
            slot.take(start, stop)
            places[task] = Place(m, start, stop)
    return places
