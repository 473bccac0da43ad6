"""How long the way from a task to the end of its graph is: the rank of list scheduling."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hetsched.core.state import TaskState

__all__ = ["longest_first", "upward"]


def upward(
    tasks: Sequence[TaskState], seconds: Callable[[TaskState], float], moving: Callable[[TaskState], float] | None =
    None
) -> dict[TaskState, float]:
    """For each task its seconds and those of the longest way to an end, with ``moving`` those between two tasks too.

    Tasks come after all they depend on. The b-level without ``moving``; the upward rank of HEFT with it.
    """
    found: dict[TaskState, float] = {}
    for ts in reversed(tasks):
        after = max((found.get(d, 0.0) for d in ts.dependents), default=0.0)
        found[ts] = seconds(ts) + after + (moving(ts) if moving is not None and ts.dependents else 0.0)
    return found


def longest_first(tasks: Sequence[TaskState], levels: dict[TaskState, float]) -> list[TaskState]:
    """The tasks by falling level; equal ones in the order they were submitted in, which keeps inputs before readers."""
    return sorted(tasks, key=lambda ts: (-levels[ts], ts.id))
