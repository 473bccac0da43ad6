"""What dask.distributed would do, as far as its rules can be followed here: to compare with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, inf

from hetsched.core.costs import is_known, transfer_seconds
from hetsched.core.state import TaskState, WorkerState

from .expected import seconds_on
from .given import Given, can_move

__all__ = ["DaskLike"]


class DaskLike:
    """The placement of dask.distributed, after its documentation ("Scheduling policies", "Work stealing").

    *Root-ish tasks* (those of a kind that has more than two tasks for each thread of the cluster, and fewer than five
    inputs altogether) stay with the scheduler and go, one by one, to the least busy worker that has fewer than
    ``saturation`` tasks a thread. With ``saturation`` infinite they are dealt out at once instead, neighbours to the
    same worker (co-assignment). Other tasks go, at once, to the one among the workers that hold inputs of theirs where
    occupancy and transfer are least. With ``stealing`` idle workers take from busy ones what would be done sooner
    there.

    Unknown durations are taken for half a second, as there. Left out: restrictions by a group's mean transfer cost, the
    interval at which stealing is looked at, and everything about memory. A kind is what the name of a task says, so a
    simulation has to let names through: knowledge "learned".
    """

    name = "dask_like"
    offers_all = True
    runs_ahead = False

    def __init__(self, saturation: float = 1.1, stealing: bool = True) -> None:
        self._saturation = saturation
        self._steals = stealing
        self._given = Given()
        self._left: dict[str, int] = {}
        self._last: dict[str, tuple[WorkerState, int]] = {}
        self._rootish: dict[str, int] = {}

    def order(self, tasks: Sequence[TaskState], workers: Sequence[WorkerState]) -> Sequence[TaskState]:
        """Find the kinds of root-ish tasks; the order stays."""
        threads = sum(w.capacity.executors.get("cpu", 0) for w in workers)
        kinds: dict[str, list[TaskState]] = {}
        for ts in tasks:
            kinds.setdefault(ts.prefix.name, []).append(ts)
        for name, group in kinds.items():
            inputs = {d for ts in group[: 5 * 64] for d in ts.dependencies}
            if len(group) > 2 * threads and len(inputs) < 5:
                self._rootish[name] = len(group)
            else:
                self._rootish.pop(name, None)
        return tasks

    def expects(self, task: TaskState, worker: WorkerState) -> float:
        """Seconds the task is expected to run there."""
        return seconds_on(task, worker) if is_known(task) else 0.5

    def choose(self, task: TaskState, workers: Sequence[WorkerState]) -> WorkerState | None:
        """Pick a worker, or none for a root-ish task while all are saturated."""
        if task.prefix.name not in self._rootish or task.needs.executor != "cpu":
            worker: WorkerState | None = self._by_objective(task, workers)
        elif self._saturation == inf:
            worker = self._together(task, workers)
        else:
            worker = self._least_busy(workers)
        if worker is not None:
            self._given.add(task, worker)
        return worker

    def _by_objective(self, task: TaskState, workers: Sequence[WorkerState]) -> WorkerState:
        executor = task.needs.executor
        holders = [w for w in workers if any(w in d.who_has for d in task.dependencies)]
        if not task.dependencies or not holders:
            return min(workers, key=lambda w: (w.occupancy / w.capacity.executors[executor], w.nbytes))
        return min(
            holders,
            key=lambda w: (w.occupancy / w.capacity.executors[executor] + transfer_seconds(task, w), w.nbytes),
        )

    def _least_busy(self, workers: Sequence[WorkerState]) -> WorkerState | None:
        open_ = [w for w in workers if w.assigned["cpu"] < max(1, ceil(self._saturation * w.capacity.executors["cpu"]))]
        return min(open_, key=lambda w: w.assigned["cpu"] / w.capacity.executors["cpu"], default=None)

    def _together(self, task: TaskState, workers: Sequence[WorkerState]) -> WorkerState:
        """Keep to one worker until it has its share of the kind."""
        name = task.prefix.name
        last, left = self._last.get(name, (None, 0))
        if last is None or not left or last not in workers:
            last = self._by_objective(task, workers)
            threads = sum(w.capacity.executors["cpu"] for w in workers)
            left = max(1, self._rootish[name] * last.capacity.executors["cpu"] // threads)
        self._last[name] = last, left - 1
        return last

    def moves(self, workers: Sequence[WorkerState], now: float) -> Iterator[tuple[TaskState, WorkerState]]:
        """Have idle workers steal."""
        if not self._steals or not any(_surplus(w) > 0 for w in workers):
            return
        for thief in workers:
            slots = thief.capacity.executors.get("cpu", 0)
            while thief.assigned.get("cpu", 0) < slots:
                before = thief.assigned["cpu"]
                stolen = self._steal(thief, workers)
                if stolen is None:
                    break
                self._given.add(stolen, thief)
                yield stolen, thief
                if thief.assigned["cpu"] == before:
                    break

    def _steal(self, thief: WorkerState, workers: Sequence[WorkerState]) -> TaskState | None:
        busy = [w for w in workers if _surplus(w) > 0]
        for victim in sorted(busy, key=lambda w: -w.occupancy / w.capacity.executors["cpu"]):
            for ts in self._given.queued(victim, "cpu"):
                lasts = self.expects(ts, thief)
                here = thief.occupancy / thief.capacity.executors["cpu"] + transfer_seconds(ts, thief) + lasts
                if here <= victim.occupancy / victim.capacity.executors["cpu"] - lasts / 2 and can_move(ts, thief):
                    return ts
        return None


def _surplus(worker: WorkerState) -> int:
    """How many tasks a worker has that its threads cannot be running."""
    threads = worker.capacity.executors.get("cpu", 0)
    return worker.assigned.get("cpu", 0) - threads if threads else 0
