"""Feeds the embedded cluster's scheduler, from one inbox and by one thread at a time, and carries its commands out."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import Any, NamedTuple, assert_never

import trio

from hetsched.core.commands import CancelTasks, FetchKeys, FreeKeys, KeysFailed, KeysReady, MoveTasks, RunTasks
from hetsched.core.events import Event, GraphCancelled, GraphReleased, GraphSubmitted, TasksFinished
from hetsched.core.scheduler import Scheduler
from hetsched.worker.collector import collector_paused
from hetsched.worker.engine import Engine

from .call import LOOK_SECONDS, Call, Run

__all__ = ["CLIENT", "Errand", "Feeder", "Item", "Submission"]

CLIENT = "here"
"""What the scheduler knows all callers by."""


class Submission(NamedTuple):
    """A graph on its way to the loop, with the call that waits for it."""

    event: GraphSubmitted
    call: Call


class Errand(NamedTuple):
    """Something to be done with the scheduler by the thread that feeds it; what comes of it goes into ``answer``."""

    do: Callable[[Scheduler], Any]
    answer: SimpleQueue[tuple[Any, BaseException | None]]


Item = Event | Submission | Errand
"""What comes into the inbox."""


class Feeder:
    """The scheduler with its inbox, the calls under way, and the loop's thread, which feeds it when no other does.

    What the engine tells the scheduler goes into the ``inbox``, and after that it has to call :meth:`pump`.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.calls: dict[int, Call] = {}
        """Those under way, by their numbers."""
        self.inbox: deque[Item] = deque()
        self._pumping = threading.Lock()
        self._pumper: int | None = None
        self._token: trio.lowlevel.TrioToken | None = None

    def start(self, engine: Engine) -> None:
        """Begin to feed, with the engine that will carry orders out; returns when the loop's thread runs."""
        self._engine = engine
        started = threading.Event()
        self._thread = threading.Thread(target=self._run_loop, args=(started,), name="hetsched-loop", daemon=True)
        self._thread.start()
        started.wait()

    def is_here(self) -> bool:
        """Tell whether this very thread is feeding the scheduler: a finalizer may have interrupted it."""
        return self._pumper == threading.get_ident()

    def _run_loop(self, started: threading.Event) -> None:
        async def main() -> None:
            self._token = trio.lowlevel.current_trio_token()
            self._stop = trio.Event()
            started.set()
            await self._stop.wait()

        trio.run(main)

    def stop(self) -> None:
        """Have the loop end."""
        if self._token is not None:
            try:
                self._token.run_sync_soon(self._stop.set)
            except trio.RunFinishedError:
                return

    def post(self, item: Item, lane: str = "cpu") -> None:
        """Put something into the inbox and see to it that some thread, never the caller's, looks there."""
        self.inbox.append(item)
        if not self._engine.nudge(lane):
            assert self._token is not None
            # No flag of ours to spare a second wake-up: an interrupt could strike between flag and wake-up.
            self._token.run_sync_soon(self.pump, idempotent=True)

    def ask(self, do: Callable[[Scheduler], Any]) -> Any:
        """Have something looked up in the scheduler, between two events; return what comes of it, or raise that."""
        if self.is_here():
            raise RuntimeError("the scheduler was asked something in the middle of scheduling")
        answer: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self.post(Errand(do, answer))
        while True:
            try:
                found, error = answer.get(timeout=LOOK_SECONDS)
            except Empty:
                continue
            if error is not None:
                raise error
            return found

    def pump(self) -> None:
        """Feed the scheduler all that has come, in order: by one thread at a time, whichever comes first.

        A worker's thread does it right after a batch, so that a short graph costs no hand-off to the loop. A caller's
        thread never does: KeyboardInterrupt may strike the main thread anywhere, also in the middle of a change.
        """
        garbage: list[Any] = []
        while self.inbox and self._pumping.acquire(blocking=False):
            try:
                self._pumper = threading.get_ident()
                while self.inbox:
                    self._take(self.inbox.popleft(), garbage)
            finally:
                self._pumper = None
                self._pumping.release()
            # Whoever found the lock taken relies on the inbox being looked at again after its release.
        del garbage

    def _take(self, item: Item, garbage: list[Any]) -> None:
        if isinstance(item, Errand):
            try:
                item.answer.put((item.do(self.scheduler), None))
            except Exception as error:
                item.answer.put((None, error))
            return
        if isinstance(item, Submission):
            self._submit(item, garbage)
            return
        try:
            self._feed(item, garbage)
        except BaseException as error:
            self._crash(list(self.calls.values()), error)

    def _submit(self, submission: Submission, garbage: list[Any]) -> None:
        event, call = submission
        self.calls[call.number] = call
        call.base = self.scheduler.state.next_id
        try:
            with collector_paused(call.count):
                self._feed(event, garbage)
        except BaseException as error:
            self._crash([call], error)

    def _feed(self, event: Event, garbage: list[Any]) -> None:
        if isinstance(event, TasksFinished):
            self._record(event)
        elif isinstance(event, GraphCancelled):
            self.calls.pop(event.graph, None)
        for command in self.scheduler.handle(event, perf_counter()):
            match command:
                case RunTasks() | MoveTasks() | CancelTasks() | FreeKeys() | FetchKeys():
                    garbage += self._engine.order(command)
                case KeysReady():
                    self._keys_ready(command)
                case KeysFailed():
                    self._finish(command.graph, command)
                case _:
                    assert_never(command)

    def _record(self, event: TasksFinished) -> None:
        """Give each call what ran of its own."""
        alone = len(self.calls) == 1
        for call in self.calls.values():
            end = call.base + call.count
            outcomes = event.outcomes if alone else [o for o in event.outcomes if call.base <= o[0] < end]
            if outcomes:
                call.runs.append(Run(event.executor, outcomes))

    def _keys_ready(self, command: KeysReady) -> None:
        call = self.calls.get(command.graph)
        if call is None:
            return
        store = self._engine.store
        if call.add_results({position: store[task] for position, task, _ in command.ready}):
            self._finish(command.graph, None)

    def _finish(self, number: int, failure: KeysFailed | None) -> None:
        call = self.calls.pop(number, None)
        if call is None:
            return
        call.failure = failure
        call.finish()
        self.inbox.append(GraphReleased(CLIENT, number) if failure is None else GraphCancelled(CLIENT, number))

    def _crash(self, calls: list[Call], error: BaseException) -> None:
        """A bug of ours, or a graph the scheduler refused: the callers are told, rather than left waiting."""
        for call in calls:
            self.calls.pop(call.number, None)
            call.crash = error
            call.finish()
