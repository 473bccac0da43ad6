"""Tasks that fail: who is blamed, what fails with them, and who is told."""

from __future__ import annotations

from typing import Any, Final

from hetsched.errors import NoWorkerError, WorkerLostError

from .clients import Clients
from .commands import KeysFailed
from .dispatch import Dispatcher
from .events import TasksFailed, TasksStranded
from .flips import Flips
from .kinds import place_of
from .needs import Needs
from .outbox import Outbox
from .recovery import leave_worker, unassign
from .state import LIVE, Graph, Phase, State, TaskState, WorkerState

__all__ = ["Failing"]

_WAITING: Final = Phase.WAITING
_READY: Final = Phase.READY


class Failing:
    """The part of the scheduler that fails tasks, or has them tried again."""

    __slots__ = ("_clients", "_dispatch", "_flips", "_outbox", "_state")

    def __init__(self, state: State, dispatch: Dispatcher, outbox: Outbox, clients: Clients, flips: Flips) -> None:
        self._state = state
        self._dispatch = dispatch
        self._outbox = outbox
        self._clients = clients
        self._flips = flips

    def raised(self, event: TasksFailed, now: float) -> None:
        """Tasks raised on a worker: run again those that may, fail the others."""
        worker = self._state.workers.get(event.worker)
        if worker is None:
            return
        retry: dict[TaskState, None] = {}
        unread: dict[TaskState, None] = {}
        words = dict(event.device)
        on_gpu: dict[TaskState, str] = {}
        for task, attempt, error, may_retry in event.failures:
            ts = self._state.tasks.get(task)
            if ts is None or ts.processing_on is not worker or ts.attempt != attempt:
                continue
            if task in words and self._flips.may_retry(ts, words[task]):
                on_gpu[ts] = words[task]
            elif may_retry and ts.retries_left > 0:
                retry[ts] = None
            else:
                unassign(self._state, [ts], "it raised", now)
                unread |= self._fail([ts], error, worker, now)
        self._clients.drop_idle(unread, "a task failed", now)
        for ts in retry:
            if ts.processing_on is worker:
                self._retry(ts, worker, now)
        again = [(ts, word) for ts, word in on_gpu.items() if ts.processing_on is worker]
        if again:
            self._flips.failed(again, now)

    def _retry(self, ts: TaskState, worker: WorkerState, now: float) -> None:
        """Run it again: on the same worker where others there count on it, else on any."""
        leave_worker(ts)
        ts.retries_left -= 1
        ts.attempt += 1
        ts.forgets = False
        for d in ts.dependencies:
            d.forgets = False  # it may be read elsewhere now, so its worker must be told when to drop it
        for d in ts.dependents:
            d.unplaced += 1
        counted = any(d.processing_on is worker for d in ts.dependents)
        if self._state.suspects and not counted:
            ts.needs = place_of(self._state, ts)
        self._dispatch.queue([ts], "retried after an error", now)
        if counted:
            self._dispatch.assign(ts, worker, now)

    def deadly(self, tasks: list[TaskState], worker: WorkerState, allowed: int, now: float) -> None:
        """Fail those of the tasks (unassigned) with which more than ``allowed`` workers were lost, this one the last.

        A plan must follow.
        """
        for ts in tasks:
            if ts.losses > allowed and ts.phase in LIVE:
                error = WorkerLostError(
                    f"{ts.losses} workers were lost while they may have been running the task {ts.title}; "
                    f"its story: {ts.tell_story()}"
                )
                self._fail([ts], error, worker, now)

    def stranded(self, event: TasksStranded, now: float) -> None:
        """Fail tasks that no worker can run still; one error for those of a graph that demand the same."""
        workers = self._state.capacities()
        alike: dict[tuple[Graph, Needs], list[TaskState]] = {}
        for task in event.tasks:
            ts = self._state.tasks.get(task)
            if ts is not None and ts.phase is _READY:
                alike.setdefault((ts.graph, ts.needs), []).append(ts)
        unread: dict[TaskState, None] = {}
        for (_, needs), tasks in alike.items():
            stranded = [ts for ts in tasks if ts.phase is _READY]
            if stranded and not any(needs.may_meet(name, capacity) for name, capacity in workers.items()):
                error = NoWorkerError(
                    f"no worker can run the task {stranded[0].title}, and none came within {event.seconds:g} s: "
                    f"{needs.why_nobody(workers)}"
                )
                unread |= self._fail(stranded, error, None, now, "no worker came that could run it")
        self._clients.drop_idle(unread, "no worker came that could run a task", now)

    def doomed(self, tasks: list[TaskState], now: float) -> None:
        """Fail what was lost and cannot be made again: an input of it was there once, and has failed since."""
        unread: dict[TaskState, None] = {}
        for ts in tasks:
            if ts.phase is _WAITING:
                known = next(d for d in ts.dependencies if d.phase is Phase.FAILED).graph.failure
                assert known is not None
                unread |= self._fail([ts], known.error, None, now, "an input had failed")
        self._clients.drop_idle(unread, "an input had failed", now)

    def _fail(
        self, roots: list[TaskState], error: Any, worker: WorkerState | None, now: float, why: str = "it raised"
    ) -> dict[TaskState, None]:
        """Fail tasks of one graph (none of them assigned) and all that needs them, and tell the clients.

        The first is the one that is blamed. Returned are their inputs, some of which nobody may read any more.
        """
        root = roots[0]
        failed = list(roots)
        seen = set(roots)
        for ts in failed:
            for d in ts.dependents:
                if d not in seen and d.phase in LIVE:
                    seen.add(d)
                    failed.append(d)
        story = root.tell_story()
        running = [ts for ts in failed if ts.processing_on is not None]
        for ts in running:
            assert ts.processing_on is not None
            self._outbox.cancel(ts.processing_on, [ts.id])
        unassign(self._state, running, f"its input {root.key!r} failed", now)
        self._state.move(roots, Phase.FAILED, why, now)
        self._state.move(failed[len(roots) :], Phase.FAILED, f"its input {root.key!r} failed", now)
        self._tell_failed(root, failed, error, worker, story)
        inputs: dict[TaskState, None] = {}
        for ts in failed:
            for dep in ts.dependencies:
                dep.users -= 1
                inputs[dep] = None
        return inputs

    def _tell_failed(
        self, root: TaskState, failed: list[TaskState], error: Any, worker: WorkerState | None, story: str
    ) -> None:
        where = worker.id if worker is not None else None
        graphs: dict[Graph, list[int]] = {root.graph: []}
        for ts in failed:
            wanted = graphs.setdefault(ts.graph, [])
            if ts.wanted:
                wanted.append(ts.id - ts.graph.base)
        for graph, positions in graphs.items():
            # In another graph than the root's there is no place for it: the position says so.
            place = root.id - graph.base if graph is root.graph else -1
            graph.failure = KeysFailed(graph.client, graph.number, positions, place, error, where, story)
            if positions or graph is root.graph:
                self._outbox.tell(graph.failure)
