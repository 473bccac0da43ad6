"""The scheduler: events in, commands out. Everything that changes its state begins in this file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, assert_never

from hetsched.errors import ProtocolError

from .claims import check_capacity, check_outcomes
from .clients import Clients
from .commands import Command, KeysReady
from .dispatch import Dispatcher
from .events import (
    AskedAgain,
    CapacityChanged,
    ClientLeft,
    Event,
    GraphCancelled,
    GraphExtended,
    GraphReleased,
    GraphSubmitted,
    InputsMissing,
    KeysReleased,
    LessonsForgotten,
    ReplicasAdded,
    ResultsMissing,
    TasksFailed,
    TasksFinished,
    TasksReturned,
    TasksStranded,
    TimePassed,
    TransfersMeasured,
    WorkerJoined,
    WorkerLost,
    WorkerRetiring,
)
from .failing import Failing
from .flips import Flips
from .forgetting import forget
from .jobs import Jobs
from .links import Link, LinkTable, PoolPair
from .outbox import Outbox
from .placement import Policy, make_policy
from .plugins import Plugins
from .recovery import forget_holders, replan, unassign
from .replicas import Replicas
from .results import collect
from .retiring import Retiring
from .state import Graph, Phase, State, TaskState
from .types import TaskId, WorkerId

__all__ = ["Options", "Scheduler"]

_WAITING: Final = Phase.WAITING
_MEMORY: Final = Phase.MEMORY
_OTHER_WORKERS: Final = (CapacityChanged, WorkerJoined, WorkerLost, WorkerRetiring)


class Options(NamedTuple):
    """What a person may set. ``wait_for_workers``: a task no worker could run waits for one, or else fails at once.

    ``links`` and ``seconds_per_price`` are for :class:`hetsched.core.links.LinkTable`.
    """

    wait_for_workers: bool = True
    allowed_losses: int = 3
    seed: int = 0
    links: Mapping[PoolPair, Link] = {}
    seconds_per_price: float = 0.0


class Scheduler:
    """A pure function of its events: no clock, no sockets, no threads; ``now`` is handed in (seconds)."""

    def __init__(
        self,
        policy: Policy | str = "earliest_finish",
        options: Options | None = None,
        plugins: Plugins | None = None,
    ) -> None:
        self.options = options or Options()
        self.state = State(LinkTable(self.options.links, self.options.seconds_per_price))
        chosen = make_policy(policy, self.options.seed) if isinstance(policy, str) else policy
        self._dispatch = Dispatcher(self.state, chosen)
        self._outbox = Outbox(self.state)
        waits = self.options.wait_for_workers
        self._clients = Clients(self.state, self._dispatch, self._outbox, self._replan, waits)
        self._flips = Flips(self.state, self._outbox, self._replan)
        self._retiring = Retiring(self.state, self._outbox)
        self._failing = Failing(self.state, self._dispatch, self._outbox, self._clients, self._flips)
        self._replicas = Replicas(self.state, self._outbox)
        self.jobs = Jobs()
        self.plugins = Plugins() if plugins is None else plugins
        self.plugins.steer(self.state, again=waits)

    def handle(self, event: Event, now: float) -> list[Command]:  # noqa: C901 - one case per event
        """Take note of an event; return what is to be done.

        Raises ProtocolError, before anything is changed, where the event is not one its sender may send.
        """
        match event:
            case TasksFinished():
                self._tasks_finished(event, now)
            case GraphSubmitted():
                self._clients.submitted(event, now)
                self._flips.arrived(event, now)
            case GraphReleased() | GraphCancelled():
                self._clients.left(event.client, event.graph, now)
            case GraphExtended():
                self._clients.extended(event, now)
                self._flips.arrived(event, now)
            case ResultsMissing():
                self._results_missing(event, now)
            case KeysReleased():
                self._clients.released(event, now)
            case TasksFailed():
                self._failing.raised(event, now)
            case TasksReturned():
                self._flips.returned(event, now)
            case WorkerJoined():
                self._worker_joined(event)
                self._flips.workers_changed(now)
            case CapacityChanged():
                self._capacity_changed(event)
                self._flips.workers_changed(now)
            case WorkerRetiring():
                self._worker_retiring(event.worker)
            case WorkerLost():
                self._worker_lost(event, now)
                self._flips.workers_changed(now)
            case InputsMissing():
                self._inputs_missing(event, now)
            case ReplicasAdded():
                self._replicas_added(event.worker, event.tasks)
            case ClientLeft():
                self._clients.gone(event.client, now)
            case TransfersMeasured():
                self._transfers_measured(event)
            case TasksStranded():
                self._failing.stranded(event, now)
            case AskedAgain():
                self._ask_plugins()
            case LessonsForgotten():
                forget(self.state, event.patterns, now)
            case TimePassed():
                pass
            case _:
                assert_never(event)
        if isinstance(event, _OTHER_WORKERS):
            self._replicas.review()
            self._ask_plugins()
        if self.state.flipped:
            self._flips.carry_out(now)
        if self.state.ready or self.state.held or self._dispatch.moves:
            self._dispatch.assign_ready(now)
        steering = self.state.steering
        if steering is not None:
            steering.tell()
        return self._flush()

    @property
    def due(self) -> float | None:
        """When :class:`TimePassed` has to be told, unless something else happens (seconds, as ``now`` of ``handle``).

        None: not at all. It may change with every event.
        """
        return self._dispatch.due

    def _ask_plugins(self) -> None:
        """Tell plugins of other workers, if there are, and ask them again about tasks that wait for one."""
        steering = self.state.steering
        if steering is not None:
            steering.changed(self.state.capacities())
            self._dispatch.reconsider()

    def _flush(self) -> list[Command]:
        out = self._outbox.orders()
        out += self._dispatch.flush()
        out += self._outbox.news()
        return out

    # Workers: results

    def _tasks_finished(self, event: TasksFinished, now: float) -> None:
        worker = self.state.workers.get(event.worker)
        if worker is None:
            return
        check_outcomes(worker.id, event.outcomes)
        if event.executor not in worker.assigned:
            raise ProtocolError(f"{worker.id} ran tasks on an executor {event.executor!r}, which it has not got")
        got = collect(self.state, worker, event, now)
        if got.on_device or event.seen or self.state.suspects:
            self._flips.finished(event, got, now)
        self._outbox.release(got.released, now)
        if got.ready:
            self._dispatch.queue(got.ready, "inputs are there", now)
        if got.wanted:
            self._announce(got.wanted)
        self._retiring.made(worker, [outcome[0] for outcome in event.outcomes] if worker.copying is not None else ())
        if got.jobs:
            self.jobs.ran(got.jobs, now)
        if got.copied:
            self._replicas.made(got.copied)
        if got.untrue:
            self._outbox.cancel(worker, [ts.id for ts in got.untrue])
            unassign(self.state, got.untrue, "it ran without its inputs", now)
            self._replan("a task ran without its inputs", now)

    def _announce(self, wanted: list[TaskState]) -> None:
        by_graph: dict[Graph, list[tuple[int, TaskId, tuple[WorkerId, ...]]]] = {}
        for ts in wanted:
            holders = tuple(w.id for w in ts.who_has)
            by_graph.setdefault(ts.graph, []).append((ts.id - ts.graph.base, ts.id, holders))
        for graph, ready in by_graph.items():
            self._outbox.tell(KeysReady(graph.client, graph.number, ready))

    # Workers: coming and going

    def _worker_joined(self, event: WorkerJoined) -> None:
        if event.worker in self.state.workers:
            raise ProtocolError(f"there is a worker {event.worker!r} already")
        check_capacity(event.worker, event.capacity)
        self.state.add_worker(event.worker, event.capacity)
        self._retiring.ask()

    def _capacity_changed(self, event: CapacityChanged) -> None:
        worker = self.state.workers.get(event.worker)
        if worker is None:
            raise ProtocolError(f"there is no worker {event.worker!r}")
        check_capacity(event.worker, event.capacity)
        self.state.change_capacity(worker, event.capacity)

    def _worker_retiring(self, name: WorkerId) -> None:
        worker = self.state.workers.get(name)
        if worker is not None:
            self._retiring.begin(worker)

    def _worker_lost(self, event: WorkerLost, now: float) -> None:
        worker = self.state.remove_worker(event.worker)
        if worker is None:
            return
        cause = f"lost {worker.id}: {event.reason}"
        tasks = list(self.state.tasks.values())
        held = [ts for ts in tasks if worker in ts.who_has]
        forget_holders(self.state, held, [worker], cause, now)
        # Clients know of no copies: they would take what this worker held for lost, and have it made again.
        self._announce([ts for ts in held if ts.wanted and ts.who_has])
        running = [ts for ts in tasks if ts.processing_on is worker]
        for ts in running:
            ts.losses += not ts.waiting_on
        unassign(self.state, running, cause, now)
        self._failing.deadly(running, worker, self.options.allowed_losses, now)
        self._replan(cause, now)
        self._retiring.lost(held)

    def _inputs_missing(self, event: InputsMissing, now: float) -> None:
        worker = self.state.workers.get(event.worker)
        if worker is None:
            return
        found = [self.state.tasks.get(task) for task in event.inputs]
        inputs = [ts for ts in found if ts is not None]
        cause = f"{worker.id} could not get an input"
        self._disbelieve(inputs, cause, now)
        readers = [(self.state.tasks.get(task), attempt) for task, attempt in dict.fromkeys(event.tasks)]
        down = [ts for ts, n in readers if ts is not None and ts.processing_on is worker and ts.attempt == n]
        unassign(self.state, down, cause, now)
        self._replan(cause, now)

    def _results_missing(self, event: ResultsMissing, now: float) -> None:
        graph = self.state.graphs.get((event.client, event.graph))
        if graph is not None:
            cause = f"{event.client} could not get it"
            self._disbelieve([graph.tasks[p] for p in event.positions if p in graph.wanted], cause, now)
            self._replan(cause, now)

    def _disbelieve(self, tasks: list[TaskState], cause: str, now: float) -> None:
        """Take results for lost, whoever is said to hold them; a plan must follow."""
        for ts in tasks:
            for w in ts.who_has:
                self._outbox.free(w, [ts.id])
        forget_holders(self.state, tasks, list(self.state.workers.values()), cause, now)

    def _replicas_added(self, name: WorkerId, replicas: Sequence[TaskId]) -> None:
        worker = self.state.workers.get(name)
        if worker is None:
            return
        self._replicas.came(worker, replicas)
        for task in replicas:
            ts = self.state.tasks.get(task)
            if ts is not None and ts.processing_on is worker:
                continue  # all holders were lost since, and this worker was told to make it: it goes by that order
            if ts is None or ts.phase is not _MEMORY:
                self._outbox.free(worker, [task])
            elif worker not in ts.who_has:
                ts.who_has = (*ts.who_has, worker)
                worker.fetching.pop(ts, None)
                worker.nbytes += ts.nbytes
                worker.held += 1
                if ts.forgets:
                    # Its maker drops it untold; the copy needs telling, and so an order that names them all.
                    ts.forgets = False

    def _transfers_measured(self, event: TransfersMeasured) -> None:
        worker = self.state.workers.get(event.worker)
        for name, nbytes, seconds in event.transfers if worker is not None else ():
            peer = self.state.workers.get(name)
            if peer is not None and worker is not None:
                self.state.learn_link(worker, peer, nbytes, seconds)

    def _replan(self, cause: str, now: float, graphs: Sequence[Graph] | None = None) -> None:
        plan = replan(self.state, list(self.state.graphs.values()) if graphs is None else graphs, cause, now)
        for w, revoked in plan.revoke.items():
            self._outbox.cancel(w, [ts.id for ts in revoked])
        for w, freed in plan.free.items():
            self._outbox.free(w, [ts.id for ts in freed])
        self.state.move(plan.wait, _WAITING, cause, now)
        self._dispatch.queue(plan.ready, cause, now)
        self._failing.doomed(plan.doomed, now)
