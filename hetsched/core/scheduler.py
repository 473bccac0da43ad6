"""The scheduler: events in, commands out. Everything that changes its state begins in this file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, assert_never

from hetsched.errors import NoWorkerError, ProtocolError, WorkerLostError

from .commands import CancelTasks, Command, FreeKeys, KeysFailed, KeysReady
from .dispatch import Dispatcher
from .events import (
    CapacityChanged,
    ClientLeft,
    Event,
    GraphCancelled,
    GraphReleased,
    GraphSubmitted,
    InputsMissing,
    ReplicasAdded,
    TasksFailed,
    TasksFinished,
    WorkerJoined,
    WorkerLost,
)
from .graphs import build_graph
from .placement import Policy, make_policy
from .recovery import forget_holders, replan, unassign
from .results import collect
from .state import NOBODY, Graph, Phase, State, TaskState, WorkerState
from .types import ClientId, TaskId, WorkerId

__all__ = ["Options", "Scheduler"]

_WAITING: Final = Phase.WAITING
_MEMORY: Final = Phase.MEMORY
_LIVE = (Phase.WAITING, Phase.READY, Phase.ASSIGNED)


class Options(NamedTuple):
    """What a person may set. ``wait_for_workers``: a task no worker could run waits for one, or else fails at once."""

    wait_for_workers: bool = True
    allowed_losses: int = 3
    seed: int = 0


class Scheduler:
    """A pure function of its events: no clock, no sockets, no threads; ``now`` is handed in (seconds)."""

    def __init__(self, policy: Policy | str = "earliest_finish", options: Options | None = None) -> None:
        self.options = options or Options()
        self.state = State()
        chosen = make_policy(policy, self.options.seed) if isinstance(policy, str) else policy
        self._dispatch = Dispatcher(self.state, chosen)
        self._cancel: dict[WorkerState, list[TaskId]] = {}
        self._free: dict[WorkerState, list[TaskId]] = {}
        self._to_clients: list[KeysReady | KeysFailed] = []

    def handle(self, event: Event, now: float) -> list[Command]:  # noqa: C901 - one case per event
        """Take note of an event; return what is to be done.

        Raises ProtocolError, before anything is changed, where the event is not one its sender may send.
        """
        match event:
            case TasksFinished():
                self._tasks_finished(event, now)
            case GraphSubmitted():
                self._graph_submitted(event, now)
            case GraphReleased() | GraphCancelled():
                self._graph_left(event.client, event.graph)
            case TasksFailed():
                self._tasks_failed(event, now)
            case WorkerJoined():
                self._worker_joined(event)
            case CapacityChanged():
                self._capacity_changed(event)
            case WorkerLost():
                self._worker_lost(event, now)
            case InputsMissing():
                self._inputs_missing(event, now)
            case ReplicasAdded():
                self._replicas_added(event.worker, event.tasks)
            case ClientLeft():
                for client, number in [g for g in self.state.graphs if g[0] == event.client]:
                    self._graph_left(client, number)
            case _:
                assert_never(event)
        if self.state.ready:
            self._dispatch.assign_ready(now)
        return self._flush()

    def _flush(self) -> list[Command]:
        out: list[Command] = []
        if self._cancel:
            out += [CancelTasks(w.id, ids) for w, ids in self._cancel.items()]
            self._cancel = {}
        if self._free:
            out += [FreeKeys(w.id, ids) for w, ids in self._free.items()]
            self._free = {}
        out += self._dispatch.flush()
        if self._to_clients:
            out += self._to_clients
            self._to_clients = []
        return out

    # Clients

    def _graph_submitted(self, event: GraphSubmitted, now: float) -> None:
        state = self.state
        if (event.client, event.graph) in state.graphs:
            raise ProtocolError(f"client {event.client!r} has a graph {event.graph} already")
        graph = build_graph(state, event, now)
        if not self.options.wait_for_workers:
            for needs, ts in graph.needs.items():
                if not any(needs.met_by(w.id, w.capacity) for w in state.workers.values()):
                    workers = state.capacities()
                    error = NoWorkerError(f"no worker can run the task {ts.key!r}: {needs.why_nobody(workers)}")
                    root = ts.id - graph.base
                    self._to_clients.append(
                        KeysFailed(event.client, event.graph, list(graph.wanted), root, error, None, "")
                    )
                    return
        state.next_id += len(graph.tasks)
        state.graphs[event.client, event.graph] = graph
        state.tasks.update(zip(range(graph.base, state.next_id), graph.tasks, strict=True))
        if not self._dispatch.take_whole(graph, now):
            self._dispatch.queue([ts for ts in graph.tasks if not ts.waiting_on], "submitted", now)

    def _graph_left(self, client: ClientId, number: int) -> None:
        """Forget a graph and all that was made or planned for it."""
        graph = self.state.graphs.pop((client, number), None)
        if graph is None:
            return
        tasks = self.state.tasks
        for ts in graph.tasks:
            del tasks[ts.id]
            if ts.processing_on is not None:
                self._cancel.setdefault(ts.processing_on, []).append(ts.id)
                _leave_worker(ts)
            elif ts.who_has:
                ts.forgets = False  # those who would have read it last are being cancelled
                self._let_go(ts)
            # The graph is a ring of references; break it, so that payloads go now and not when garbage is collected.
            ts.dependents = NOBODY
            ts.dependencies = NOBODY
        graph.tasks.clear()
        graph.log.clear()

    def _let_go(self, ts: TaskState) -> None:
        """Free a result wherever it is; its phase is the caller's to change."""
        for w in ts.who_has:
            w.nbytes -= ts.nbytes
            w.held -= 1
            if not ts.forgets:
                self._free.setdefault(w, []).append(ts.id)
        ts.who_has = ()

    # Workers: results

    def _tasks_finished(self, event: TasksFinished, now: float) -> None:
        worker = self.state.workers.get(event.worker)
        if worker is None:
            return
        got = collect(self.state, worker, event, now)
        if got.released:
            for ts in got.released:
                self._let_go(ts)
            self.state.move(got.released, Phase.RELEASED, "nobody needs it", now)
        if got.ready:
            self._dispatch.queue(got.ready, "inputs are there", now)
        if got.wanted:
            self._announce(got.wanted)
        if got.untrue:
            self._cancel.setdefault(worker, []).extend(ts.id for ts in got.untrue)
            unassign(self.state, got.untrue, "it ran without its inputs", now)
            self._replan("a task ran without its inputs", now)

    def _announce(self, wanted: list[TaskState]) -> None:
        by_graph: dict[Graph, list[tuple[int, TaskId, tuple[WorkerId, ...]]]] = {}
        for ts in wanted:
            holders = tuple(w.id for w in ts.who_has)
            by_graph.setdefault(ts.graph, []).append((ts.id - ts.graph.base, ts.id, holders))
        for graph, ready in by_graph.items():
            self._to_clients.append(KeysReady(graph.client, graph.number, ready))

    def _tasks_failed(self, event: TasksFailed, now: float) -> None:
        worker = self.state.workers.get(event.worker)
        if worker is None:
            return
        retry: list[TaskState] = []
        broken: dict[Graph, None] = {}
        for task, attempt, error, may_retry in event.failures:
            ts = self.state.tasks.get(task)
            if ts is None or ts.processing_on is not worker or ts.attempt != attempt:
                continue
            if may_retry and ts.retries_left > 0:
                retry.append(ts)
            else:
                unassign(self.state, [ts], "it raised", now)
                self._fail(ts, error, worker, now)
                broken[ts.graph] = None
        if broken:
            self._replan("a task failed", now, list(broken))
        for ts in retry:
            if ts.processing_on is worker:
                self._retry(ts, worker, now)

    def _retry(self, ts: TaskState, worker: WorkerState, now: float) -> None:
        """Run it again: on the same worker where others there count on it, else on any."""
        _leave_worker(ts)
        ts.retries_left -= 1
        ts.attempt += 1
        ts.forgets = False
        for d in ts.dependencies:
            d.forgets = False  # it may be read elsewhere now, so its worker must be told when to drop it
        for d in ts.dependents:
            d.unplaced += 1
        self._dispatch.queue([ts], "retried after an error", now)
        if any(d.processing_on is worker for d in ts.dependents):
            self._dispatch.assign(ts, worker, now)

    def _fail(self, root: TaskState, error: Any, worker: WorkerState | None, now: float) -> None:
        """Fail a task (WAITING) and all that needs it, and tell the client; a new plan must follow."""
        failed = [root]
        seen = {root}
        for ts in failed:
            for d in ts.dependents:
                if d not in seen and d.phase in _LIVE:
                    seen.add(d)
                    failed.append(d)
        story = root.tell_story()
        running = [ts for ts in failed if ts.processing_on is not None]
        for ts in running:
            assert ts.processing_on is not None
            self._cancel.setdefault(ts.processing_on, []).append(ts.id)
        unassign(self.state, running, f"its input {root.key!r} failed", now)
        self.state.move(failed[:1], Phase.FAILED, "it raised", now)
        self.state.move(failed[1:], Phase.FAILED, f"its input {root.key!r} failed", now)
        graph = root.graph
        positions = [ts.id - graph.base for ts in failed if ts.wanted]
        where = worker.id if worker is not None else None
        self._to_clients.append(
            KeysFailed(graph.client, graph.number, positions, root.id - graph.base, error, where, story)
        )

    # Workers: coming and going

    def _worker_joined(self, event: WorkerJoined) -> None:
        if event.worker in self.state.workers:
            raise ProtocolError(f"there is a worker {event.worker!r} already")
        self.state.add_worker(event.worker, event.capacity)

    def _capacity_changed(self, event: CapacityChanged) -> None:
        worker = self.state.workers.get(event.worker)
        if worker is None:
            raise ProtocolError(f"there is no worker {event.worker!r}")
        worker.capacity = event.capacity
        for executor in event.capacity.executors:
            worker.assigned.setdefault(executor, 0)

    def _worker_lost(self, event: WorkerLost, now: float) -> None:
        worker = self.state.remove_worker(event.worker)
        if worker is None:
            return
        cause = f"lost {worker.id}: {event.reason}"
        tasks = list(self.state.tasks.values())
        forget_holders(self.state, [ts for ts in tasks if worker in ts.who_has], [worker], cause, now)
        running = [ts for ts in tasks if ts.processing_on is worker]
        for ts in running:
            ts.losses += not ts.waiting_on
        unassign(self.state, running, cause, now)
        for ts in running:
            if ts.losses > self.options.allowed_losses and ts.phase in _LIVE:
                error = WorkerLostError(
                    f"{ts.losses} workers were lost while they may have been running the task {ts.key!r}; "
                    f"its story: {ts.tell_story()}"
                )
                self._fail(ts, error, worker, now)
        self._replan(cause, now)

    def _inputs_missing(self, event: InputsMissing, now: float) -> None:
        worker = self.state.workers.get(event.worker)
        if worker is None:
            return
        found = [self.state.tasks.get(task) for task in event.inputs]
        inputs = [ts for ts in found if ts is not None]
        cause = f"{worker.id} could not get an input"
        for ts in inputs:
            for w in ts.who_has:
                self._free.setdefault(w, []).append(ts.id)
        forget_holders(self.state, inputs, list(self.state.workers.values()), cause, now)
        readers = [(self.state.tasks.get(task), attempt) for task, attempt in event.tasks]
        down = [ts for ts, n in readers if ts is not None and ts.processing_on is worker and ts.attempt == n]
        unassign(self.state, down, cause, now)
        self._replan(cause, now)

    def _replicas_added(self, name: WorkerId, replicas: Sequence[TaskId]) -> None:
        worker = self.state.workers.get(name)
        if worker is None:
            return
        for task in replicas:
            ts = self.state.tasks.get(task)
            if ts is not None and ts.processing_on is worker:
                continue  # all holders were lost since, and this worker was told to make it: it goes by that order
            if ts is None or ts.phase is not _MEMORY:
                self._free.setdefault(worker, []).append(task)
            elif worker not in ts.who_has:
                ts.who_has = (*ts.who_has, worker)
                worker.nbytes += ts.nbytes
                worker.held += 1
                if ts.forgets:
                    # Its maker drops it untold; the copy needs telling, and so an order that names them all.
                    ts.forgets = False

    def _replan(self, cause: str, now: float, graphs: Sequence[Graph] | None = None) -> None:
        plan = replan(self.state, list(self.state.graphs.values()) if graphs is None else graphs, cause, now)
        for w, revoked in plan.revoke.items():
            self._cancel.setdefault(w, []).extend(ts.id for ts in revoked)
        for w, freed in plan.free.items():
            self._free.setdefault(w, []).extend(ts.id for ts in freed)
        self.state.move(plan.wait, _WAITING, cause, now)
        self._dispatch.queue(plan.ready, cause, now)


def _leave_worker(ts: TaskState) -> None:
    """Strike an assigned task off its worker's books."""
    worker = ts.processing_on
    assert worker is not None
    worker.assigned[ts.needs.executor] -= 1
    worker.occupancy = worker.occupancy - ts.estimate if any(worker.assigned.values()) else 0.0
    ts.processing_on = None
    ts.estimate = 0.0
