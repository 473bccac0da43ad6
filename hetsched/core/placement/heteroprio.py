"""Devices take what they speed up most, cores what they speed up least; who idles takes over what others began."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hetsched.core.state import Phase, TaskState, WorkerState

from .expected import class_of, seconds_on, stand_ins, typical_seconds
from .given import can_move
from .levels import upward

__all__ = ["Heteroprio"]


class Heteroprio:
    """HeteroPrio with spoliation.

    Ready tasks are sorted by what a device speeds them up; a free device takes from one end, a free core from the
    other, of equal ones that with the longest way to an end. E. Agullo, B. Bramas, O. Coulaud, E. Darve, M. Messner and
    T. Takahashi, "Task-based FMM for heterogeneous architectures", Concurrency and Computation 28 (2016). Where a class
    has nothing left to start, it takes over the task of the other that is to end last, if it would end it sooner (O.
    Beaumont, L. Eyraud-Dubois and S. Kumar, "Approximation proofs of a fast and efficient list scheduling algorithm for
    task-based runtime systems on multicores and GPUs", IPDPS 2017).

    A thread cannot be stopped: a task that was taken over goes on in its old slot, to no avail, and the slot is counted
    as taken until it should be through. Every ready task is looked at after every event.
    """

    name = "heteroprio"
    runs_ahead = False

    def __init__(self) -> None:
        self._levels: dict[int, float] = {}
        self._gains: dict[int, float] = {}
        self._began: dict[TaskState, float] = {}
        self._lost: list[tuple[float, WorkerState]] = []
        """Until when a slot is busy with what was taken over."""

    def order(self, tasks: Sequence[TaskState], workers: Sequence[WorkerState]) -> Sequence[TaskState]:
        """Learn how urgent tasks are, and how much devices gain; the order stays."""
        kinds = stand_ins(workers)
        levels = upward(tasks, lambda ts: min((typical_seconds(ts, (k,)) for k in kinds), default=0.0))
        self._levels.update((ts.id, level) for ts, level in levels.items())
        of_class: dict[str, WorkerState] = {}
        for worker, _ in kinds:
            of_class.setdefault(class_of(worker, "cpu"), worker)
        if len(of_class) > 1:
            cpu, gpu = of_class["cpu"], of_class["gpu"]
            self._gains.update((ts.id, seconds_on(ts, cpu) / max(seconds_on(ts, gpu), 1e-12)) for ts in tasks)
        return tasks

    def expects(self, task: TaskState, worker: WorkerState) -> float:
        """Seconds the task is expected to run there."""
        return seconds_on(task, worker)

    def choose(self, task: TaskState, workers: Sequence[WorkerState]) -> WorkerState:
        """Pick the first: :meth:`match` is what is asked."""
        assert task.phase is Phase.READY
        return workers[0]

    def match(
        self, ready: Sequence[TaskState], workers: Sequence[WorkerState], now: float
    ) -> Iterator[tuple[TaskState, WorkerState]]:
        """Give free slots what suits them best, devices first."""
        gains, levels = self._gains, self._levels
        by_gain = sorted(ready, key=lambda ts: (-gains.get(ts.id, 1.0), -levels.get(ts.id, 0.0), ts.rank))
        by_loss = sorted(ready, key=lambda ts: (gains.get(ts.id, 1.0), -levels.get(ts.id, 0.0), ts.rank))
        self._forget(now)
        for kind, best in (("gpu", by_gain), ("cpu", by_loss)):
            for ts in best:
                if ts.phase is not Phase.READY:
                    continue
                worker = self._free(ts, workers, kind, now)
                if worker is not None:
                    self._began[ts] = now
                    yield ts, worker

    def _free(self, ts: TaskState, workers: Sequence[WorkerState], kind: str, now: float) -> WorkerState | None:
        executor = ts.needs.executor
        for w in workers:
            if class_of(w, executor) == kind and self._room(w, executor) > 0 and ts.needs.met_by(w.id, w.capacity):
                return w
        return None

    def _room(self, worker: WorkerState, executor: str) -> int:
        slots = worker.capacity.executors.get(executor, 0)
        return slots - worker.assigned.get(executor, 0) - sum(w is worker for _, w in self._lost)

    def _forget(self, now: float) -> None:
        self._lost = [(until, w) for until, w in self._lost if until > now]
        self._began = {ts: t for ts, t in self._began.items() if ts.phase is Phase.ASSIGNED}

    def moves(self, workers: Sequence[WorkerState], now: float) -> Iterator[tuple[TaskState, WorkerState]]:
        """Have idle slots take over what the other class would end later."""
        self._forget(now)
        ends: list[tuple[float, TaskState]] = []
        for ts, began in self._began.items():
            if ts.processing_on is not None:
                ends.append((began + seconds_on(ts, ts.processing_on), ts))
        ends.sort(key=lambda end: (-end[0], end[1].rank))
        for thief in workers:
            for end, ts in ends:
                victim = ts.processing_on
                executor = ts.needs.executor
                if victim is None or self._room(thief, executor) <= 0:
                    continue
                if class_of(victim, executor) == class_of(thief, executor) or not can_move(ts, thief):
                    continue
                if now + seconds_on(ts, thief) < end:
                    self._lost.append((end, victim))
                    self._began[ts] = now
                    yield ts, thief
