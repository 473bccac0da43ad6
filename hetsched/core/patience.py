"""Whether a long task had better wait for a worker without room than queue behind what another has been given."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final

from .costs import duration_of, transfer_seconds, wait_seconds
from .shares import has_room, starts_at_once
from .state import State, TaskState, WorkerState

__all__ = ["Patience"]

_LONG: Final = 1.0
"""Seconds from which on it costs a task nothing to be given to a worker only when that has a free slot."""

_LOOK: Final = 5e-6
"""The more workers there are the longer a look at all of them takes, and the more slots the more often one is free:
tasks have to last so many seconds, times the square of the number of workers, times the slots of one, for the looks to
take a few per cent at most."""

_GAIN: Final = 1.5
"""So many times as long it would have to wait here as there: what is expected of either is seldom exact."""


class Patience:
    """Keeps ready tasks back for workers that have no room, where those would come to them clearly sooner.

    A worker's room is for work ahead of time, that it may fetch inputs and need not wait for orders. Behind a task that
    takes an hour the next would wait for an hour there, whoever has a free slot meanwhile. A slot is never kept empty.
    Where a person wishes for workers, it is theirs to say that the task waits for them.

    A task waits at most for as long as it was expected to wait where it could have gone. For it may be in vain: what
    the other worker is at may take longer than expected, or wait for this very task; or others may come before it.
    """

    __slots__ = ("_due", "_state")

    def __init__(self, state: State) -> None:
        self._state = state
        self._due = inf

    @property
    def due(self) -> float | None:
        """When the first of the tasks that were kept back has waited as long as it may (seconds, as ``now``)."""
        return self._due if self._due < inf and self._state.ready else None

    def begin(self) -> None:
        """All ready tasks are looked at anew."""
        self._due = inf

    def keep(self, ts: TaskState, worker: WorkerState, offered: Sequence[WorkerState], now: float) -> bool:
        """Keep a ready task back if it should not go to ``worker``, chosen of those ``offered``, which have room; tell
        whether it was kept."""
        if 0.0 < ts.waits_until <= now or not self._is_long(ts, worker):
            return False
        needs = ts.needs
        if any(starts_at_once(one, needs) for one in offered):
            return False
        seconds = max(wait_seconds(worker, needs), transfer_seconds(ts, worker))
        if not self._comes_sooner(ts, seconds / _GAIN):
            return False
        if ts.waits_until <= 0.0:
            ts.waits_until = now + seconds
        self._due = min(self._due, ts.waits_until)
        return True

    def _is_long(self, ts: TaskState, worker: WorkerState) -> bool:
        needs = ts.needs
        slots = worker.capacity.executors.get(needs.executor, 0)
        return needs.workers is None and duration_of(ts) >= max(_LONG, _LOOK * slots * len(self._state.workers) ** 2)

    def _comes_sooner(self, ts: TaskState, seconds: float) -> bool:
        """Whether a worker without room would come to a task within so many seconds."""
        needs = ts.needs
        return any(
            not has_room(other, needs)
            and other.copying is None
            and needs.met_by(other.id, other.capacity)
            and wait_seconds(other, needs) + transfer_seconds(ts, other) < seconds
            for other in self._state.workers.values()
        )
