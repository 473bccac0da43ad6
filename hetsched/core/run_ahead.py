"""Which tasks may go to a worker before their inputs exist: those that read what that worker is making."""

from __future__ import annotations

from typing import Final

from .costs import duration_of, mostly_elsewhere
from .needs import Needs
from .shares import has_room, rows_of
from .state import Phase, State, TaskState, WorkerState

__all__ = ["RunAhead"]

_WAITING: Final = Phase.WAITING
_MEMORY: Final = Phase.MEMORY


class RunAhead:
    """Finds the tasks that follow their inputs to a worker. ``patient``: large inputs elsewhere are waited for."""

    __slots__ = ("_patient", "_state")

    def __init__(self, state: State, patient: bool) -> None:
        self._state = state
        self._patient = patient

    def readers(self, ts: TaskState, worker: WorkerState) -> list[TaskState]:
        """The readers of a task given to a worker whose inputs are all there or placed, as many as are best there too.

        Of more than it can start at once those go no further that would have to wait, if another worker may start them
        sooner once their inputs are there; unless they are so short that it makes no difference.
        """
        found = [d for d in ts.dependents if not d.unplaced and d.phase is _WAITING]
        executors = worker.capacity.executors
        if len(self._state.workers) < 2:
            return found
        if len(found) <= min(executors.values(), default=0) and not any(d.needs.resources for d in found):
            return found
        count: dict[str, int] = {}
        wait: dict[str, float] = {}
        elsewhere: dict[Needs, bool] = {}
        best: list[TaskState] = []
        for d in found:
            executor = d.needs.executor
            slots = rows_of(worker, d.needs) if d.needs.resources else executors.get(executor, 0)
            if count.get(executor, 0) >= slots and wait.get(executor, 0.0) > worker.capacity.ahead:
                others = elsewhere.get(d.needs)
                if others is None:
                    others = elsewhere[d.needs] = self._may_go_elsewhere(d.needs, worker)
                if others:
                    continue
            if self.follows(d, worker):
                best.append(d)
                count[executor] = count.get(executor, 0) + 1
                wait[executor] = wait.get(executor, 0.0) + duration_of(d) / max(slots, 1)
        return best

    def _may_go_elsewhere(self, needs: Needs, worker: WorkerState) -> bool:
        others = self._state.workers.values()
        return any(w is not worker and w.copying is None and needs.met_by(w.id, w.capacity) for w in others)

    def follows(self, ts: TaskState, worker: WorkerState) -> bool:
        """Whether a task may go to a worker that has, or makes, all inputs that are not in memory."""
        if (
            ts.phase is not _WAITING
            or not has_room(worker, ts.needs)
            or not all(d.processing_on is worker or d.phase is _MEMORY for d in ts.dependencies)
            or (self._patient and mostly_elsewhere(ts, worker))
        ):
            return False
        steering = self._state.steering
        if steering is not None and steering.narrows and steering.again:
            ts.needs = steering.narrow(ts)
        needs = ts.needs
        if needs.others and needs.workers is not None and worker.id not in needs.workers:
            return False  # it may, but it is wished elsewhere, and whoever has room there is known when it is ready
        return needs.met_by(worker.id, worker.capacity)
