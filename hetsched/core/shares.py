"""How much of its resources a worker was given tasks for: a task that would only wait for them takes nobody's place."""

from __future__ import annotations

from .needs import Needs
from .state import WorkerState
from .types import MOST_AHEAD

__all__ = ["claim", "has_room", "rows_of", "starts_at_once"]

_ROUNDING = 1e-9


def has_room(worker: WorkerState, needs: Needs) -> bool:
    """Tell whether a worker wants to be given one more task of these needs.

    Of tasks that share out a resource it wants as many in a row as of those that share out slots: ``window`` times what
    it can run at once, more while they are short.
    """
    if worker.room_for(needs.executor) <= 0:
        return False
    capacity = worker.capacity
    if not worker.claims or not needs.resources or not capacity.window:
        return True
    few = worker.occupancy < capacity.executors.get(needs.executor, 0) * capacity.ahead
    rows = MOST_AHEAD if few else capacity.window
    for name, amount in needs.resources:
        if amount and worker.claimed.get(name, 0.0) + amount > rows * capacity.resources.get(name, 0.0) + _ROUNDING:
            return False
    return True


def rows_of(worker: WorkerState, needs: Needs) -> int:
    """How many tasks of these needs a worker runs at once, one at least."""
    capacity = worker.capacity
    most = capacity.executors.get(needs.executor, 0)
    for name, amount in needs.resources:
        there = capacity.resources.get(name, 0.0) + _ROUNDING
        if amount * most > there:  # so that it is no division that ends beyond all numbers
            most = int(there / amount)
    return max(most, 1)


def starts_at_once(worker: WorkerState, needs: Needs) -> bool:
    """Tell whether a worker has a free slot, and of each resource as much as a task of these needs takes."""
    if worker.assigned.get(needs.executor, 0) >= worker.capacity.executors.get(needs.executor, 0):
        return False
    there = worker.capacity.resources
    for name, amount in needs.resources:
        if amount and worker.claimed.get(name, 0.0) + amount > there.get(name, 0.0) + _ROUNDING:
            return False
    return True


def claim(worker: WorkerState, needs: Needs, count: int) -> None:
    """Note that a worker was given ``count`` tasks more, or that fewer than nothing: it is done with them."""
    worker.claims += count
    if not worker.claims:
        worker.claimed = {}
        return
    claimed = worker.claimed
    for name, amount in needs.resources:
        claimed[name] = claimed.get(name, 0.0) + count * amount
