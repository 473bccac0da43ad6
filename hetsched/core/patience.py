"""Whether a long task had better wait for a worker without room than queue behind what another has been given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .costs import duration_of, transfer_seconds, wait_seconds
from .shares import has_room, starts_at_once
from .state import State, TaskState, WorkerState

__all__ = ["is_better_kept"]

_LONG: Final = 1.0
"""Seconds from which on it costs a task nothing to be given to a worker only when that has a free slot."""

_LOOK: Final = 5e-6
"""The more workers there are the longer a look at all of them takes, and the more often one has a free slot: tasks have
to last so many seconds, times the square of the number of workers, for the looks to take a few per cent at most."""

_GAIN: Final = 1.5
"""So many times as long it would have to wait here as there: what is expected of either is seldom exact."""


def is_better_kept(state: State, ts: TaskState, worker: WorkerState, offered: Sequence[WorkerState]) -> bool:
    """Tell whether a worker that has no room would come to a ready task clearly sooner than ``worker``, chosen of those
    ``offered``, which have.

    A worker's room is for work ahead of time, that it may fetch inputs and need not wait for orders. Behind a task that
    takes an hour the next would wait for an hour there, whoever has a free slot meanwhile. A slot is never kept empty.
    Where a person wishes for workers, it is theirs to say that the task waits for them.
    """
    workers = state.workers
    needs = ts.needs
    if needs.workers is not None or duration_of(ts) < max(_LONG, _LOOK * len(workers) ** 2):
        return False
    if any(starts_at_once(one, needs) for one in offered):
        return False
    least = max(wait_seconds(worker, needs), transfer_seconds(ts, worker)) / _GAIN
    return any(
        not has_room(other, needs)
        and other.copying is None
        and needs.met_by(other.id, other.capacity)
        and wait_seconds(other, needs) + transfer_seconds(ts, other) < least
        for other in workers.values()
    )
