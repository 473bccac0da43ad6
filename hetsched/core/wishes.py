"""What a placement policy may want beside choosing among workers that have room, read from optional attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from .needs import level_of
from .placement import Policy
from .state import TaskState, WorkerState

__all__ = ["Wishes", "arrange", "swap"]

_URGENCY: Final = 1 << 32
_ID_BITS: Final = 44
_MOST_PLACES: Final = (1 << 30) - 1


class Wishes:
    """The wishes of a policy, as :class:`hetsched.core.placement.Policy` names them; None or False: no wish."""

    __slots__ = ("expects", "last", "match", "moves", "offers_all", "order", "runs_ahead")

    def __init__(self, policy: Policy) -> None:
        self.order: Callable[..., Sequence[TaskState]] | None = _hook(policy, "order")
        self.last: Callable[..., Sequence[TaskState]] | None = _hook(policy, "last")
        self.expects: Callable[[TaskState, WorkerState], float] | None = _hook(policy, "expects")
        self.match: Callable[..., Iterable[tuple[TaskState, WorkerState]]] | None = _hook(policy, "match")
        self.moves: Callable[..., Iterable[tuple[TaskState, WorkerState]]] | None = _hook(policy, "moves")
        self.offers_all = bool(getattr(policy, "offers_all", False))
        self.runs_ahead = bool(getattr(policy, "runs_ahead", True))


def _hook(policy: Policy, name: str) -> Any:
    found = getattr(policy, name, None)
    return found if callable(found) else None


def arrange(tasks: Sequence[TaskState]) -> None:
    """Give tasks of one graph ranks, none of them queued yet, so that they start in this order, on every worker too.

    Higher priorities still go before lower ones. Each task is on a level of its own: workers start what has just become
    ready first within a level, and by rank between levels.
    """
    urgency = tasks[0].graph.urgency
    first = min(ts.id for ts in tasks)
    for place, ts in enumerate(sorted(tasks, key=lambda ts: level_of(ts.rank)), first):
        ts.rank = (-urgency * _URGENCY + (place & _MOST_PLACES) << _ID_BITS) + ts.id


def swap(tasks: Sequence[TaskState]) -> None:
    """Have tasks of one graph, none of them queued yet, change places so that they start in this order.

    They take each other's ranks, so nothing changes for other tasks. Higher priorities still go before lower ones.
    """
    ranks = sorted(ts.rank for ts in tasks)
    for ts, rank in zip(sorted(tasks, key=lambda ts: level_of(ts.rank)), ranks, strict=True):
        ts.rank = rank
