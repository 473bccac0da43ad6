"""What clients ask for: graphs that come, whole or in parts, and leave again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from hetsched.errors import NoWorkerError, ProtocolError

from .commands import KeysFailed
from .dispatch import Dispatcher
from .events import GraphExtended, GraphSubmitted, KeysReleased
from .graphs import build_graph, extend_graph, link_externals, unlink_graph
from .outbox import Outbox
from .recovery import leave_worker
from .state import LIVE, NOBODY, Graph, Phase, State, TaskState
from .types import ClientId

__all__ = ["Clients"]

_MEMORY: Final = Phase.MEMORY


class Clients:
    """The half of the scheduler that deals with graphs. ``replan`` plans some of them anew."""

    __slots__ = ("_dispatch", "_outbox", "_refused", "_replan", "_state", "_waits")

    def __init__(
        self,
        state: State,
        dispatch: Dispatcher,
        outbox: Outbox,
        replan: Callable[[str, float, Sequence[Graph]], None],
        waits: bool,
    ) -> None:
        self._state = state
        self._dispatch = dispatch
        self._outbox = outbox
        self._replan = replan
        self._waits = waits
        self._refused: dict[tuple[ClientId, int], KeysFailed] = {}
        """Graphs that were not taken in, until their clients let go of them."""

    def gone(self, client: ClientId, now: float) -> None:
        """Forget a client and all its graphs."""
        for number in [n for c, n in [*self._state.graphs, *self._refused] if c == client]:
            self.left(client, number, now)

    def submitted(self, event: GraphSubmitted, now: float) -> None:
        """Take a graph in, or refuse it. Raises ProtocolError, with nothing changed."""
        state = self._state
        if (event.client, event.graph) in state.graphs:
            raise ProtocolError(f"client {event.client!r} has a graph {event.graph} already")
        for number, _ in event.externals:
            if (known := self._refused.get((event.client, number))) is not None:
                self._turn_away(known._replace(graph=event.graph, failed=list(event.wanted), root=-1))
                return
        graph = build_graph(state, event, now)
        if (refused := self._refuse(graph)) is not None:
            self._turn_away(refused)
            return
        link_externals(graph)
        state.next_id += graph.total
        state.graphs[event.client, event.graph] = graph
        state.tasks.update(zip(range(graph.base, graph.base + len(graph.tasks)), graph.tasks, strict=True))
        self._dispatch.arrange(graph.tasks)
        if graph.open or graph.reads or not self._dispatch.take_whole(graph, now):
            self._start(graph, graph.tasks, now)

    def extended(self, event: GraphExtended, now: float) -> None:
        """Take more of a graph in. Raises ProtocolError, with nothing changed."""
        graph = self._state.graphs.get((event.client, event.graph))
        if (refused := self._refused.get((event.client, event.graph))) is not None and event.wanted:
            self._outbox.tell(refused._replace(failed=list(event.wanted)))
        if graph is None or graph.left:
            return  # it was given up, or refused, while this was on its way
        was_open = graph.open
        tasks = extend_graph(self._state, graph, event, now)
        for ts in tasks:
            for d in ts.dependencies:
                ts.waiting_on -= d.phase is _MEMORY
                ts.unplaced -= d.phase is _MEMORY or d.phase is Phase.ASSIGNED
        self._state.tasks.update((ts.id, ts) for ts in tasks)
        self._dispatch.arrange(tasks)
        before = graph.tasks[: len(graph.tasks) - len(tasks)] if was_open and not graph.open else []
        for ts in before:
            ts.users -= 1  # no more readers than are known now
        self._start(graph, tasks, now)
        self.drop_idle(before, "all its readers have come", now)

    def _start(self, graph: Graph, tasks: list[TaskState], now: float) -> None:
        """Queue what can run of new tasks; fail what needs a result that cannot be had."""
        failed: dict[TaskState, None] = {}
        for ts in tasks:
            bad = next((d for d in ts.dependencies if d.phase is Phase.FAILED or d in failed), None)
            if bad is not None:
                failed[ts] = None
                if graph.failure is None and bad.graph.failure is not None:
                    graph.failure = bad.graph.failure._replace(root=-1)  # it is in another graph
        if failed:
            self._state.move(list(failed), Phase.FAILED, "an input had failed", now)
            known = graph.failure
            assert known is not None
            positions = [ts.id - graph.base for ts in failed if ts.wanted]
            if positions:
                self._outbox.tell(known._replace(client=graph.client, graph=graph.number, failed=positions))
        self._dispatch.queue([ts for ts in tasks if not ts.waiting_on and ts not in failed], "submitted", now)
        if failed:
            self._replan("an input had failed", now, [graph])

    def _turn_away(self, refused: KeysFailed) -> None:
        """Tell a client that a graph is refused, and remember it: more of it, or graphs that read it, may come."""
        self._refused[refused.client, refused.graph] = refused
        self._outbox.tell(refused)

    def _refuse(self, graph: Graph) -> KeysFailed | None:
        """Tell a client at once what can never run; where workers are waited for, only what no wait would help."""
        workers = self._state.capacities()
        demands = graph.needs
        steering = self._state.steering
        if steering is not None and steering.narrows and not self._waits:
            demands = {}
            for ts in graph.tasks:
                ts.needs = steering.narrow(ts)
                demands.setdefault(ts.needs, ts)
        for needs, ts in demands.items():
            if self._waits:
                why = needs.why_never(workers)
            elif any(needs.met_by(name, capacity) for name, capacity in workers.items()):
                why = None
            else:
                why = needs.why_nobody(workers)
            if why is not None:
                error = NoWorkerError(f"no worker can run the task {ts.title}: {why}")
                return KeysFailed(graph.client, graph.number, list(graph.wanted), ts.id - graph.base, error, None, "")
        return None

    def released(self, event: KeysReleased, now: float) -> None:
        """Note that a client does not want some results any more."""
        graph = self._state.graphs.get((event.client, event.graph))
        if graph is None:
            self._refused.pop((event.client, event.graph), None)
            return
        if not graph.open and not graph.wanted.keys() - set(event.positions):
            self.left(event.client, event.graph, now)
            return
        unwanted = [graph.tasks[p] for p in dict.fromkeys(event.positions) if p in graph.wanted]
        self._unwant(graph, unwanted, now)

    def _unwant(self, graph: Graph, tasks: list[TaskState], now: float) -> None:
        """A client wants these results no more: drop those nobody else needs, do not make what is not made."""
        for ts in tasks:
            ts.wanted = False
            ts.users -= 1
            del graph.wanted[ts.id - graph.base]
        self.drop_idle(tasks, "its client wants it no more", now)

    def drop_idle(self, tasks: Iterable[TaskState], cause: str, now: float) -> None:
        """Release those that have no user left; those that are to run, perhaps again, need not."""
        idle = [ts for ts in tasks if not ts.users]
        self._outbox.release([ts for ts in idle if ts.phase is _MEMORY], now)
        unneeded = {ts.graph: None for ts in idle if ts.phase in LIVE}
        if unneeded:
            self._replan(cause, now, list(unneeded))

    def left(self, client: ClientId, number: int, now: float) -> None:
        """Forget a graph and all that was made or planned for it, but for what other graphs need of it."""
        graph = self._state.graphs.get((client, number))
        if graph is None:
            self._refused.pop((client, number), None)
            return
        if graph.readers:
            self._keep(graph, now)
            return
        read: dict[TaskState, None] = {}
        gone = [graph]
        for graph in gone:  # it grows: what only these have read from goes as well
            sources = list(graph.reads)
            read |= unlink_graph(graph)
            steering = self._state.steering
            if steering is not None:
                live = [ts for ts in graph.tasks if ts.phase is not Phase.RELEASED]
                steering.moved(live, Phase.RELEASED.name, "its client is done with its graph", now)
            self._forget(graph)
            gone += [source for source in sources if source.left and not source.readers]
        stay = [ts for ts in read if self._state.tasks.get(ts.id) is ts]
        self.drop_idle(stay, "a graph that read it is gone", now)

    def _keep(self, graph: Graph, now: float) -> None:
        """A client is done with a graph that others read from: have made what they need and no more."""
        graph.left = True
        before = graph.tasks if graph.open else []
        graph.total = len(graph.tasks)
        for ts in before:
            ts.users -= 1  # no more readers than are known now
        self._unwant(graph, [graph.tasks[position] for position in graph.wanted], now)
        self.drop_idle(before, "its client is done with it", now)

    def _forget(self, graph: Graph) -> None:
        """Strike a graph that nobody reads from off the books, and have workers drop what is theirs of it."""
        del self._state.graphs[graph.client, graph.number]
        tasks = self._state.tasks
        for ts in graph.tasks:
            del tasks[ts.id]
            if ts.processing_on is not None:
                self._outbox.cancel(ts.processing_on, [ts.id])
                leave_worker(ts)
            elif ts.who_has:
                ts.forgets = False  # those who would have read it last are being cancelled
                self._outbox.let_go(ts)
            # The graph is a ring of references; break it, so that payloads go now and not when garbage is collected.
            ts.dependents = NOBODY
            ts.dependencies = NOBODY
        graph.tasks.clear()
        graph.log.clear()
        graph.stories = None
        graph.failure = None
