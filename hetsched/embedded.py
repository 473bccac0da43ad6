"""The embedded cluster: a scheduler and one worker in this process, nothing serialised between them.

The scheduler is fed by one thread at a time: a trio loop in a daemon thread, or a worker's thread that has just ended a
batch and would otherwise have to wake the loop. The worker's threads run the tasks. Callers wait on a lock, so
they may be anywhere: in the main thread, in a notebook's running loop, in many threads at once, inside a task.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import Any, NamedTuple, assert_never

import trio

from hetsched.core.commands import CancelTasks, FetchKeys, FreeKeys, KeysFailed, KeysReady, MoveTasks, RunTasks
from hetsched.core.costs import measured_sizes
from hetsched.core.events import (
    CapacityChanged,
    Event,
    GraphCancelled,
    GraphReleased,
    GraphSubmitted,
    LessonsForgotten,
    TasksFinished,
    WorkerJoined,
)
from hetsched.core.gpu import Case
from hetsched.core.makers import Maker
from hetsched.core.plugins import Plugins
from hetsched.core.scheduler import Options, Scheduler
from hetsched.core.types import ANY_POOL, Capacity, Outcome, TaskId, TaskSpec
from hetsched.core.verdicts import cases_of
from hetsched.gpu.learned import moment
from hetsched.worker.collector import collector_paused
from hetsched.worker.current import current_batch
from hetsched.worker.engine import Engine
from hetsched.worker.sizes import Measure

__all__ = ["LOOK_SECONDS", "WORKER", "Call", "Embedded", "Run"]

WORKER = "embedded"
"""The name of the one worker."""

LOOK_SECONDS = 0.5
"""How often a thread that waits looks up."""

_CLIENT = "here"


class Run(NamedTuple):
    """A batch of finished tasks as the report wants it: executor and outcomes, ids counted from the scheduler's."""

    executor: str
    outcomes: Sequence[Outcome]


class Call:
    """One graph on its way; waits in the caller's thread."""

    def __init__(
        self, number: int, count: int, wanted: int, depth: int, follow: Callable[[Call], None] | None = None
    ) -> None:
        self.number = number
        self.count = count
        self.depth = depth
        self.results: dict[int, Any] = {}
        self.failure: KeysFailed | None = None
        self.crash: BaseException | None = None
        self.base = 0
        self.runs: list[Run] = []
        """What ran of this call."""
        self._follow = follow
        self._wanted = wanted
        self._over = threading.Lock()
        self._over.acquire()
        self._then: list[Callable[[], None]] = []
        self._is_over = False

    def wait(self) -> None:
        """Block until the results are there or cannot be had; an exception such as KeyboardInterrupt passes through."""
        if self._follow is not None:
            self._follow(self)
        # In turns: a signal that comes just before an endless wait would not be looked at until its end.
        while not self._is_over and not self._over.acquire(timeout=LOOK_SECONDS):
            pass

    def finished(self) -> bool:
        """Tell whether it is over."""
        return self._is_over

    def on_finish(self, call: Callable[[], None]) -> None:
        """Have something called in the loop's thread when it is over, at once if it is."""
        self._then.append(call)
        if self._is_over:
            call()

    def add_results(self, results: dict[int, Any]) -> bool:
        """Take results by position; tells whether these were the last."""
        self.results.update(results)
        return len(self.results) >= self._wanted

    def finish(self) -> None:
        """Let the caller go on."""
        if not self._is_over:
            self._is_over = True
            self._over.release()
            for call in self._then:
                call()


class Submission(NamedTuple):
    """A graph on its way to the loop, with the call that waits for it."""

    event: GraphSubmitted
    call: Call


class Errand(NamedTuple):
    """Something to be done with the scheduler by the thread that feeds it; what comes of it goes into ``answer``."""

    do: Callable[[Scheduler], Any]
    answer: SimpleQueue[tuple[Any, BaseException | None]]


class Embedded:
    """The cluster inside this process. Made once; any thread may submit to it."""

    def __init__(
        self, cpus: int, gpus: int, sizeof: Callable[[Any], int], plugins: Plugins | None = None,
        policy: str = "earliest_finish",
    ) -> None:
        self.cpus = cpus
        self.pretends = gpus == 0
        self.told = moment()
        """The last forgetting that the scheduler was told of: whatever it knows it has learned since."""
        lanes = max(gpus, 1)
        self._capacity = Capacity(
            executors={"cpu": cpus, "gpu": lanes, "io": max(16, 4 * cpus), "process": cpus},
            resources={"GPU": float(lanes)},
            pool=ANY_POOL,
            window=0,
        )
        self._scheduler = Scheduler(policy, Options(wait_for_workers=False), plugins=plugins)
        self._scheduler.handle(WorkerJoined(WORKER, self._capacity), perf_counter())
        self._inbox: deque[Event | Submission | Errand] = deque()
        capacity = self._capacity
        self._engine = Engine(
            WORKER, capacity.executors, capacity.resources, Measure(sizeof), self._inbox.append, self._pump, gpus
        )
        self._pumping = threading.Lock()
        self._pumper: int | None = None
        self._calls: dict[int, Call] = {}
        self._next_graph = 0
        self._lock = threading.Lock()
        self._token: trio.lowlevel.TrioToken | None = None
        started = threading.Event()
        self._thread = threading.Thread(target=self._run_loop, args=(started,), name="hetsched-loop", daemon=True)
        self._thread.start()
        started.wait()

    # Callers

    def run(
        self,
        tasks: Sequence[TaskSpec],
        wanted: Sequence[int],
        cpus: int | None = None,
        follow: Callable[[Call], None] | None = None,
        makers: Sequence[Maker] = (),
        made_by: Sequence[int] = (),
    ) -> Call:
        """Run a graph and wait for it; the call returned holds results, or the failure.

        ``cpus`` limits the CPU slots this graph may use. ``follow`` is called while it is under way, in this thread.
        An exception out of the wait (KeyboardInterrupt) cancels the graph and passes through.
        """
        if self._pumper == threading.get_ident():
            raise RuntimeError("hetsched.get was called in the middle of scheduling, by a finalizer perhaps")
        outer = current_batch()
        # A task of another worker in this process, a cluster's, waits as a foreign thread, but gives up its slot there.
        inside = outer if outer is not None and outer.owner is self._engine else None
        foreign = inside is None and threading.current_thread() is not threading.main_thread()
        lane = self._lane(self.cpus if cpus is None else cpus, foreign)
        lanes = None if lane == "cpu" else {"cpu": lane}
        with self._lock:
            number = self._next_graph
            self._next_graph += 1
        depth = 0 if inside is None else self._depth(inside.task) + 1
        call = Call(number, len(tasks), len(wanted), depth, follow)
        try:
            graph = GraphSubmitted(_CLIENT, number, tasks, wanted, depth, lanes, (), None, makers, made_by)
            submission = Submission(graph, call)
            if inside is None:
                self._post(submission, lane)
                if outer is None or outer.owner is None:
                    call.wait()
                else:
                    outer.owner.wait(outer, call)
            else:
                self._inbox.append(submission)
                self._pump()
                self._engine.wait(inside, call)
        except BaseException:
            self._post(GraphCancelled(_CLIENT, number))
            raise
        if call.crash is not None:
            raise call.crash
        return call

    def measured_sizes(self, prefixes: Iterable[str]) -> Mapping[str, float]:
        """The bytes of one result, as measured, for those kinds of tasks that have run."""
        return measured_sizes(self._scheduler.state, prefixes)

    def _depth(self, task: TaskId) -> int:
        """How many calls of ``get`` a task is inside of, its own graph's counted as none."""
        for call in list(self._calls.values()):
            if call.base <= task < call.base + call.count:
                return call.depth
        return 0

    def _lane(self, cpus: int, foreign: bool) -> str:
        """Name the group of threads for a call that may use ``cpus`` CPU slots, made at its first use.

        Calls out of threads that are neither the main one nor hetsched's share a group of their own: such a thread may
        have been started by a task, which waits for it and keeps its slot.
        """
        if cpus == self.cpus and not foreign:
            return "cpu"
        name = "cpu" + (":threads" if foreign else "") + (f":{cpus}" if cpus != self.cpus else "")
        with self._lock:
            if name not in self._capacity.executors:
                # In this order, so that a call interrupted half way is made good by the next.
                capacity = self._capacity._replace(executors={**self._capacity.executors, name: cpus})
                self._engine.add_executor(name, cpus)
                self._post(CapacityChanged(WORKER, capacity))
                self._capacity = capacity
        return name

    def cases(self) -> list[Case]:
        """The evidence on kinds of tasks there is; for any thread, to be read only."""
        return cases_of(self._scheduler.state)

    def forget(self, patterns: Sequence[str], last: int) -> None:
        """Forget what was learned of functions that fit, up to this mark; for any thread."""
        self._post(LessonsForgotten(patterns))
        self.ask(lambda _: None)  # it is done when what was posted later is
        self.told = max(self.told, last)

    def ask(self, do: Callable[[Scheduler], Any]) -> Any:
        """Have something looked up in the scheduler, between two events; return what comes of it, or raise that."""
        if self._pumper == threading.get_ident():
            raise RuntimeError("the scheduler was asked something in the middle of scheduling")
        answer: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self._post(Errand(do, answer))
        while True:
            try:
                found, error = answer.get(timeout=LOOK_SECONDS)
            except Empty:
                continue
            if error is not None:
                raise error
            return found

    def close(self) -> None:
        """Have the loop and all idle threads end; does not wait for tasks that run."""
        self._engine.close()
        if self._token is not None:
            try:
                self._token.run_sync_soon(self._stop.set)
            except trio.RunFinishedError:
                return

    # The loop

    def _run_loop(self, started: threading.Event) -> None:
        async def main() -> None:
            self._token = trio.lowlevel.current_trio_token()
            self._stop = trio.Event()
            started.set()
            await self._stop.wait()

        trio.run(main)

    def _post(self, item: Event | Submission | Errand, lane: str = "cpu") -> None:
        """Put something into the inbox and see to it that some thread, never the caller's, looks there."""
        self._inbox.append(item)
        if not self._engine.nudge(lane):
            assert self._token is not None
            # No flag of ours to spare a second wake-up: an interrupt could strike between flag and wake-up.
            self._token.run_sync_soon(self._pump, idempotent=True)

    def _pump(self) -> None:
        """Feed the scheduler all that has come, in order: by one thread at a time, whichever comes first.

        A worker's thread does it right after a batch, so that a short graph costs no hand-off to the loop. A caller's
        thread never does: KeyboardInterrupt may strike the main thread anywhere, also in the middle of a change.
        """
        garbage: list[Any] = []
        while self._inbox and self._pumping.acquire(blocking=False):
            try:
                self._pumper = threading.get_ident()
                while self._inbox:
                    self._take(self._inbox.popleft(), garbage)
            finally:
                self._pumper = None
                self._pumping.release()
            # Whoever found the lock taken relies on the inbox being looked at again after its release.
        del garbage

    def _take(self, item: Event | Submission | Errand, garbage: list[Any]) -> None:
        if isinstance(item, Errand):
            try:
                item.answer.put((item.do(self._scheduler), None))
            except Exception as error:
                item.answer.put((None, error))
            return
        if isinstance(item, Submission):
            self._submit(item, garbage)
            return
        try:
            self._feed(item, garbage)
        except BaseException as error:
            self._crash(list(self._calls.values()), error)

    def _submit(self, submission: Submission, garbage: list[Any]) -> None:
        event, call = submission
        self._calls[call.number] = call
        call.base = self._scheduler.state.next_id
        try:
            with collector_paused(call.count):
                self._feed(event, garbage)
        except BaseException as error:
            self._crash([call], error)

    def _feed(self, event: Event, garbage: list[Any]) -> None:
        if isinstance(event, TasksFinished):
            self._record(event)
        elif isinstance(event, GraphCancelled):
            self._calls.pop(event.graph, None)
        for command in self._scheduler.handle(event, perf_counter()):
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
        alone = len(self._calls) == 1
        for call in self._calls.values():
            end = call.base + call.count
            outcomes = event.outcomes if alone else [o for o in event.outcomes if call.base <= o[0] < end]
            if outcomes:
                call.runs.append(Run(event.executor, outcomes))

    def _keys_ready(self, command: KeysReady) -> None:
        call = self._calls.get(command.graph)
        if call is None:
            return
        store = self._engine.store
        if call.add_results({position: store[task] for position, task, _ in command.ready}):
            self._finish(command.graph, None)

    def _finish(self, number: int, failure: KeysFailed | None) -> None:
        call = self._calls.pop(number, None)
        if call is None:
            return
        call.failure = failure
        call.finish()
        self._inbox.append(GraphReleased(_CLIENT, number) if failure is None else GraphCancelled(_CLIENT, number))

    def _crash(self, calls: list[Call], error: BaseException) -> None:
        """A bug of ours, or a graph the scheduler refused: the callers are told, rather than left waiting."""
        for call in calls:
            self._calls.pop(call.number, None)
            call.crash = error
            call.finish()
