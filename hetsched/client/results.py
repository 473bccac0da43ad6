"""Results that were asked for: what became of each, and who waits for it. All of it belongs to the loop's thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Literal, TypeAlias

import trio

from hetsched.core.types import Key, TaskId, TaskSpec
from hetsched.errors import TaskCancelled

__all__ = ["Ordered", "Result", "Status", "Waiting"]

Status: TypeAlias = Literal["pending", "finished", "error", "cancelled", "lost"]
"""What may be said of a result; "lost" is one whose scheduler is gone."""


class Ordered:
    """A graph that was ordered: its number once it is on its way, and its wanted results by position."""

    __slots__ = ("culprit", "number", "over", "results", "shipped", "tasks", "unsaid", "unsettled")

    def __init__(self, tasks: Sequence[TaskSpec], wanted: Iterable[int]) -> None:
        self.number: int | None = None
        self.culprit: tuple[BaseException, int] | None = None
        """The error of a task of its own, and the task's position."""
        self.over = False
        """Nothing of it is wanted any more."""
        self.shipped = False
        """All of it has been sent."""
        self.unsaid: list[int] = []
        """Positions of results that were let go, and the scheduler was not told yet."""
        self.tasks: Sequence[TaskSpec] = tasks
        """For what is said of errors; dropped once all results are settled."""
        self.results = {position: Result(self, position, tasks[position].key) for position in wanted}
        self.unsettled = len(self.results)

    def settled(self) -> None:
        """Note that one more result has become something."""
        self.unsettled -= 1
        if self.unsettled <= 0:
            self.tasks = ()


class Result:
    """One result: ``holders`` are the addresses of those who have it, where it is finished."""

    __slots__ = ("_settled", "error", "graph", "holders", "key", "position", "status", "task", "traceback", "tries",
                 "watchers")  # fmt: skip

    def __init__(self, graph: Ordered, position: int, key: Key) -> None:
        self.graph = graph
        self.position = position
        self.key = key
        self.status: Status = "pending"
        self.task: TaskId = -1
        self.holders: Sequence[str] = ()
        self.error: BaseException | None = None
        self.traceback: TracebackType | None = None
        self.tries = 0
        """How often it could not be had from those who were said to have it."""
        self.watchers: list[Callable[[Result], None]] = []
        self._settled = False

    def ready(self, task: TaskId, holders: Sequence[str]) -> None:
        """It is there, or there again."""
        if self.status in ("pending", "finished"):
            self.task = task
            self.holders = holders
            self._become("finished")

    def fail(self, error: BaseException, status: Status = "error") -> None:
        """It will not be there."""
        if self.status in ("pending", "finished"):
            self.error = error
            self.traceback = error.__traceback__
            self.holders = ()
            self._become(status)

    def cancel(self) -> None:
        """Nobody is to wait for it any more."""
        if self.status in ("pending", "finished"):
            self.holders = ()
            self._become("cancelled")

    def again(self) -> None:
        """It is being made once more."""
        if self.status == "finished":
            self.holders = ()
            self.status = "pending"

    def _become(self, status: Status) -> None:
        self.status = status
        if not self._settled:
            self._settled = True
            self.graph.settled()
        for call in self.watchers[:]:
            call(self)

    def raised(self) -> BaseException:
        """Its error, as it came: where it was raised before is not part of its traceback."""
        if self.error is None:
            return TaskCancelled(f"{self.key!r} was cancelled, or released")
        return self.error.with_traceback(self.traceback)


class Waiting:
    """Waits until enough of some results have become something: all, one, or all unless one fails."""

    def __init__(self, results: Iterable[Result], until: Literal["all", "first", "error"] = "all") -> None:
        self._results = dict.fromkeys(results)
        self._left = len(self._results) if until != "first" else min(1, len(self._results))
        self._stops = until == "error"
        self._enough = trio.Event()

    async def wait(self) -> None:
        """Wait. Safe to cancel."""
        pending = [result for result in self._results if result.status == "pending"]
        self._left -= len(self._results) - len(pending)
        failed = self._stops and any(result.status not in ("pending", "finished") for result in self._results)
        if self._left <= 0 or failed:
            await trio.lowlevel.checkpoint()
            return
        for result in pending:
            result.watchers.append(self._changed)
        try:
            await self._enough.wait()
        finally:
            for result in pending:
                result.watchers.remove(self._changed)

    def _changed(self, result: Result) -> None:
        if result in self._results:
            del self._results[result]
            self._left -= 1
            if self._left <= 0 or (self._stops and result.status != "finished"):
                self._enough.set()


