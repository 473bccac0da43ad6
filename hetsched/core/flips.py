"""What follows from evidence on GPU tasks: tasks that are still to run are given to another executor.

A task of which no person has said where it runs is placed anew when the verdict on its kind changes, when an input of
it turns out to be on a device, when it failed on a CPU with an error of a device, and when the workers change: where no
worker that it may run on has a GPU lane it runs on a CPU. Tasks that run already stay where they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from heapq import heappush
from typing import Final

from .events import GraphExtended, GraphSubmitted, TasksFinished, TasksReturned
from .evidence import Evidence
from .gpu import Run
from .kinds import case_of, is_near, is_open, judge, place_of
from .needs import Needs
from .outbox import Outbox
from .recovery import unassign
from .results import Collected
from .shares import claim
from .state import LIVE, Phase, State, TaskState, WorkerState
from .types import TaskId

__all__ = ["Flips"]

_READY: Final = Phase.READY
_NONE_THERE: Final = re.compile(
    r"no CUDA-capable device|cudaErrorNoDevice|CUDA_ERROR_NO_DEVICE|No CUDA GPUs are available|Found no NVIDIA driver|"
    r"CUDA driver version is insufficient|cudaErrorInsufficientDriver"
)


class Flips:
    """The part of the scheduler that finds GPU tasks. ``replan`` plans all graphs anew."""

    __slots__ = ("_outbox", "_replan", "_state")

    def __init__(self, state: State, outbox: Outbox, replan: Callable[[str, float], None]) -> None:
        self._state = state
        self._outbox = outbox
        self._replan = replan

    # Evidence

    def finished(self, event: TasksFinished, got: Collected, now: float) -> None:
        """Learn from tasks that have run, and place those anew that read their results."""
        if got.on_device:
            self._state.suspects = True
        seen = dict(event.seen)
        on_gpu = event.executor == "gpu"
        for n, ts in enumerate(got.finished):
            if ts.prefix.case is None and self._is_sign(ts, seen):
                later = sum(other.prefix is ts.prefix for other in got.finished[n:])
                case_of(self._state, ts.prefix, later)
            if ts.prefix.case is not None:
                self._learn(ts, on_gpu, event.watched, seen.get(ts.id), now)
        readers = {d: None for ts in got.on_device for d in ts.dependents}
        self._place(readers, "an input of it is on a device", now, tell=False)

    @staticmethod
    def _is_sign(ts: TaskState, seen: dict[TaskId, Evidence]) -> bool:
        return bool(ts.cuda_nbytes) or ts.id in seen or _was_near(ts)

    def _learn(self, ts: TaskState, on_gpu: bool, watched: bool, ran: Evidence | None, now: float) -> None:
        case = case_of(self._state, ts.prefix)
        case.ran(Run(on_gpu, _was_near(ts), ts.cuda_nbytes, watched, ran), now)
        judge(self._state, ts.prefix)

    def may_retry(self, ts: TaskState, word: str) -> bool:
        """Tell whether a task that failed with an error of a device, this ``word``, is worth a try on a GPU lane.

        Where there is no device at all, only the lane of another worker is.
        """
        whole = ts.needs.whole or ts.needs
        twin = self._state.on_gpu(whole) if whole.free else whole
        if twin is whole or not _NONE_THERE.search(word):
            return twin is not whole
        others = (w for w in self._state.workers.values() if w is not ts.processing_on)
        return any(twin.may_meet(w.id, w.capacity) for w in others)

    def failed(self, tasks: Iterable[tuple[TaskState, str]], now: float) -> None:
        """Have these, which failed on a CPU with an error of a device, run once more, on a GPU lane."""
        again = []
        for ts, word in tasks:
            case_of(self._state, ts.prefix).failed(word, now)
            judge(self._state, ts.prefix)
            again.append(ts)
        cause = "an error of a device: once more, on a GPU lane"
        unassign(self._state, again, cause, now)
        for ts in again:
            whole = ts.needs.whole or ts.needs
            if whole.free:
                self._change(ts, self._state.on_gpu(whole))
        self._replan(cause, now)

    def returned(self, event: TasksReturned, now: float) -> None:
        """A worker has put down tasks that it has no executor for, or no slot for now."""
        worker = self._state.workers.get(event.worker)
        if worker is None:
            return
        found = [(self._state.tasks.get(task), attempt) for task, attempt in dict.fromkeys(event.tasks)]
        tasks = [ts for ts, n in found if ts is not None and ts.processing_on is worker and ts.attempt == n]
        lacks = any(ts.executor not in worker.capacity.executors for ts in tasks)
        cause = f"{worker.id} has no {'executor' if lacks else 'free slot'} for it"
        unassign(self._state, tasks, cause, now)
        self._replan(cause, now)

    # Consequences

    def workers_changed(self, now: float) -> None:
        """Place all tasks anew: there may be GPU lanes where there were none, or none any more."""
        if self._state.suspects:
            self._place(self._state.tasks.values(), "the workers have changed", now)

    def arrived(self, event: GraphSubmitted | GraphExtended, now: float) -> None:
        """Place new tasks whose inputs were there before they came."""
        graph = self._state.graphs.get((event.client, event.graph))
        if self._state.suspects and graph is not None and (graph.reads or isinstance(event, GraphExtended)):
            self._place(graph.tasks[-len(event.tasks) :], "an input of it is on a device", now)

    def carry_out(self, now: float) -> None:
        """Tell all workers of the verdicts that have changed, and move the tasks they concern."""
        flipped, self._state.flipped = self._state.flipped, {}
        kinds = [(kind.kind, kind.gpu) for kind in flipped]
        for worker in self._state.workers.values():
            self._outbox.move(worker, [], kinds)
        for kind in flipped:
            assert kind.case is not None
            why = kind.case.flips[-1].cause if kind.case.flips else "what was learned of it was forgotten"
            verdict = "thought a GPU task" if kind.gpu else "thought no GPU task"
            tasks = [ts for ts in self._state.tasks.values() if ts.prefix is kind]
            self._place(tasks, f"{verdict}: {why}", now)

    def _place(self, tasks: Iterable[TaskState], cause: str, now: float, tell: bool = True) -> None:
        """Give tasks that are still to run the demands that follow from what is known now.

        ``tell``: workers are told to move those they were given. (Of a result on a device they knew before.)
        """
        moved: list[TaskState] = []
        orders: dict[WorkerState, list[tuple[TaskId, str]]] = {}
        for ts in tasks:
            if ts.phase not in LIVE or not is_open(ts):
                continue
            needs = place_of(self._state, ts)
            if needs is ts.needs:
                continue
            worker = ts.processing_on
            if worker is not None and tell:
                orders.setdefault(worker, []).append((ts.id, needs.executor))
            if worker is None or needs.executor in worker.capacity.executors:
                self._change(ts, needs)
                moved.append(ts)
        for worker, moves in orders.items():
            self._outbox.move(worker, moves, [])
        self._write(moved, cause, now)

    def _change(self, ts: TaskState, needs: Needs) -> None:
        worker = ts.processing_on
        if worker is not None:
            worker.assigned[ts.needs.executor] -= 1
            worker.assigned[needs.executor] += 1
            for demands, count in ((ts.needs, -1), (needs, 1)):
                if demands.resources:
                    claim(worker, demands, count)
        ts.needs = needs
        ts.graph.needs.setdefault(needs, ts)
        if ts.phase is _READY:
            steering = self._state.steering
            if steering is not None and steering.narrows and steering.again:
                ts.needs = needs = steering.narrow(ts)
            heappush(self._state.ready.setdefault(needs, []), (ts.rank, ts.id))

    def _write(self, moved: list[TaskState], cause: str, now: float) -> None:
        """Write it into the tasks' stories, an entry for those of a graph that are in one phase."""
        entries: dict[tuple[int, Phase], list[TaskState]] = {}
        for ts in moved:
            key = ts.graph.base, ts.phase
            known = entries.get(key)
            if known is None:
                known = entries[key] = []
                ts.graph.log.append((now, ts.phase, f"on executor {ts.needs.executor!r}: {cause}", known))
            known.append(ts)


def _was_near(ts: TaskState) -> bool:
    """Tell whether an input was on a device, also of one that is not there any more."""
    return any(d.cuda_nbytes for d in ts.dependencies) or is_near(ts)
