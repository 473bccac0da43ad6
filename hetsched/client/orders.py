"""The graphs a client has ordered: what becomes of their results, and what the scheduler is told of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hetsched.core.commands import KeysFailed, KeysReady
from hetsched.core.events import GraphCancelled, GraphReleased, KeysReleased, ResultsMissing
from hetsched.errors import ConnectionLost, TaskCancelled

from .blame import blame
from .results import Ordered, Result

__all__ = ["Orders"]


class Orders:
    """All graphs of which something is wanted; belongs to the loop's thread. ``say`` tells the scheduler something."""

    def __init__(self, say: Callable[[Any], None]) -> None:
        self._say = say
        self._all: dict[Ordered, None] = {}
        self._numbered: dict[int, Ordered] = {}
        """Those that are on their way, or there."""
        self._number = 0
        self._released: deque[Result] = deque()

    # Any thread

    def add(self, graph: Ordered) -> None:
        """Take up a graph that is about to be sent; for any thread."""
        self._all[graph] = None

    def release(self, result: Result) -> int:
        """Note that nobody wants a result; for any thread, and finalizers. Returns how many are not told yet."""
        self._released.append(result)
        return len(self._released)

    # Letting go

    def drop(self, graph: Ordered, cancel: bool) -> None:
        """Nothing of a graph is wanted any more; ``cancel``: its tasks that run are asked to stop."""
        if graph.over:
            return
        graph.over = True
        self._all.pop(graph, None)
        if graph.number is not None:
            self._numbered.pop(graph.number, None)
            kind = GraphCancelled if cancel else GraphReleased
            self._say(kind("", graph.number))
        for result in graph.results.values():
            result.cancel()

    def cancel(self, results: Sequence[Result]) -> None:
        """Give results up: whoever waits for them gets TaskCancelled."""
        for result in results:
            result.cancel()
        self._let_go(results, cancel=True)

    def before_packet(self) -> None:
        """Tell what was released; part of the sender's work."""
        taken = []
        while self._released:
            taken.append(self._released.popleft())
        if taken:
            self._let_go(taken, cancel=False)

    def _let_go(self, results: Iterable[Result], cancel: bool) -> None:
        by_graph: dict[Ordered, list[int]] = {}
        for result in results:
            graph = result.graph
            if not graph.over and graph.results.pop(result.position, None) is not None:
                by_graph.setdefault(graph, []).append(result.position)
                if not cancel:
                    result.cancel()
        for graph, positions in by_graph.items():
            if not graph.results:
                self.drop(graph, cancel)
            else:
                graph.unsaid += positions
                self._say_released(graph)

    def _say_released(self, graph: Ordered) -> None:
        """Tell what is released of a graph that is all there: of one that still comes, more may be wanted later."""
        if graph.unsaid and graph.shipped and not graph.over:
            assert graph.number is not None
            positions, graph.unsaid = graph.unsaid, []
            self._say(KeysReleased("", graph.number, positions))

    # News

    def ready(self, message: KeysReady) -> None:
        """Results can be fetched."""
        graph = self._numbered.get(message.graph)
        if graph is not None:
            for position, task, holders in message.ready:
                if (result := graph.results.get(position)) is not None:
                    result.ready(task, holders)

    def failed(self, message: KeysFailed) -> None:
        """Results will not be there."""
        graph = self._numbered.get(message.graph)
        if graph is None:
            return
        waiting = [graph.results[position] for position in message.failed if position in graph.results]
        if waiting:
            error = blame(message, graph.tasks)
            if message.root >= 0:
                graph.culprit = graph.culprit or (error, message.root)
            for result in waiting:
                result.fail(error)

    def missing(self, results: Sequence[Result]) -> None:
        """Nobody who is said to hold these has them: have them made again."""
        by_graph: dict[Ordered, list[int]] = {}
        for result in results:
            by_graph.setdefault(result.graph, []).append(result.position)
        for graph, positions in by_graph.items():
            if graph.number is not None and not graph.over:
                self._say(ResultsMissing("", graph.number, positions))

    # Sending

    def admit(self, graph: Ordered, externals: Sequence[Result]) -> int | None:
        """The number for a graph that is to be sent now; None where what it needs cannot be named, so that it fails."""
        for result in externals:
            if result.status in ("error", "lost"):
                self.refuse(graph, result.raised())
                return None
            if result.graph.over or result.position not in result.graph.results:
                self.refuse(graph, TaskCancelled(f"{result.key!r} is needed, and it was cancelled or released"))
                return None
        self._number += 1
        self._numbered[self._number] = graph
        return self._number

    def shipped(self, graph: Ordered) -> None:
        """All of a graph has been sent."""
        graph.shipped = True
        self._say_released(graph)

    def refuse(self, graph: Ordered, error: BaseException) -> None:
        """A graph cannot be sent."""
        for result in list(graph.results.values()):
            result.fail(error)
        self.drop(graph, cancel=True)

    # The end

    def end(self, why: str) -> None:
        """The connection is no more."""
        for graph in list(self._all):
            for result in list(graph.results.values()):
                result.fail(ConnectionLost(why), "lost")
