"""Executors: threads that take batches of tasks and give back what came of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import perf_counter
from types import TracebackType
from typing import Any, NamedTuple

from hetsched.core.types import EACH, Outcome, TaskId, TaskSpec
from hetsched.errors import TaskCancelled
from hetsched.gpu.devices import bind_device

from .child import ChildProcess
from .context import InContext
from .current import RunningBatch, enter, leave
from .sizes import FIXED

__all__ = ["IDLE_SECONDS", "SLICE_SECONDS", "Executor", "Failure", "Report"]

IDLE_SECONDS = 0.001
"""A thread of a lane for calls with a ``num_workers`` of their own ends after this time without work."""

SLICE_SECONDS = 0.005
"""A batch that lasts longer than this hands its remaining tasks back, whatever was expected of them."""


class Failure(NamedTuple):
    """What a task raised, and where: the executor and the thread it ran on."""

    error: BaseException
    executor: str
    thread: str


class Report(NamedTuple):
    """What came of a batch."""

    batch: int
    done: list[Outcome]
    failed: list[tuple[TaskId, int, Any, bool]]
    left: list[TaskId]
    missing: list[TaskId]


class Executor:
    """A group of threads for one kind of task.

    Threads are started when a batch finds none idle and leave when there are more than slots. ``report`` is called on
    the thread that ran a batch, and returns the next batch for it or None; ``nudged`` likewise on one woken by True.
    The counts change under ``lock``, the engine's, alone. With a ``device``, its number is made the current one of the
    GPU libraries that are loaded.
    """

    def __init__(
        self,
        name: str,
        slots: int,
        store: MutableMapping[TaskId, Any],
        measure: Callable[[Any], tuple[int, int]],
        report: Callable[[Executor, Report], RunningBatch | None],
        nudged: Callable[[Executor], RunningBatch | None],
        lock: threading.Lock,
        device: int | None = None,
    ) -> None:
        self.name = name
        self.slots = slots
        self.queue: SimpleQueue[RunningBatch | bool | None] = SimpleQueue()
        self.threads = 0
        self.outstanding = 0
        """Batches given and not reported, each of which keeps a thread."""
        self.blocked = 0
        """Threads whose task waits and which serve the queue meanwhile."""
        self._store = store
        self._measure = measure
        self._report = report
        self._nudged = nudged
        self._lock = lock
        self._device = device
        self._serial = 0
        self._children: list[ChildProcess] = []

    def put(self, batch: RunningBatch) -> None:
        """Give a batch to a thread (with the lock held)."""
        self.outstanding += 1
        if self.threads < self.outstanding - self.blocked:
            self.threads += 1
            self._serial += 1
            name = f"hetsched-{self.name}-{self._serial}"
            threading.Thread(target=self._serve, name=name, daemon=True).start()
        self.queue.put(batch)

    def close(self) -> None:
        """Have the idle threads end, and child processes at once; a thread that runs a task ends after it."""
        for _ in range(self.threads):
            self.queue.put(None)
        for child in list(self._children):
            child.kill()

    def _serve(self) -> None:
        child = ChildProcess() if self.name == "process" else None
        if child is not None:
            self._children.append(child)
        try:
            while (batch := self._next()) is not None:
                if isinstance(batch, bool):
                    batch = self._nudged(self)
                if batch is not None:
                    self._go_on(batch, child)
                del batch
                if self._retire(self.slots):
                    return
        except BaseException:
            with self._lock:
                self.threads -= 1
            raise
        finally:
            if child is not None:
                self._children.remove(child)
                child.close()

    def _next(self) -> RunningBatch | bool | None:
        """Wait for something to do; None where the thread is counted no more and has to end."""
        if ":" not in self.name or self.name.endswith(":threads"):
            found = self.queue.get()
        else:
            try:
                found = self.queue.get(timeout=IDLE_SECONDS)
            except Empty:
                return None if self._retire(0) else True
        if found is None:
            self._retire(-1)
        return found

    def _retire(self, keep: int) -> bool:
        """Strike this thread off, unless it is among the ``keep`` that stay or there is a batch for it.

        In one step under the lock, so that nothing, a nudge included, is ever put down for a thread about to end.
        """
        with self._lock:
            if keep >= 0 and (self.threads <= max(keep, self.outstanding) or not self.queue.empty()):
                return False
            self.threads -= 1
            return True

    def _go_on(self, first: RunningBatch, child: ChildProcess | None) -> None:
        batch: RunningBatch | None = first
        while batch is not None:
            batch = self._report(self, self.run(batch, child))

    def serve_until(self, finished: Callable[[], bool]) -> None:
        """Run batches in this thread, one of this executor's whose task waits, until ``finished``.

        Whoever makes it finish must put True into the queue.
        """
        while not finished():
            batch = self.queue.get()
            if isinstance(batch, RunningBatch):
                self._go_on(batch, None)

    def run(self, batch: RunningBatch, child: ChildProcess | None = None) -> Report:
        """Run a batch in this thread."""
        before = enter(batch)
        if self._device is not None:
            bind_device(self._device)
        report = Report(batch.number, [], [], [], [])
        batch.child = child
        try:
            self._run(batch, report, child)
        except BaseException as error:  # a bug of ours: the task it struck fails, rather than nobody being told
            attempt = next((item[1] for item in batch.given if item[0] == batch.task), 0)
            report.failed.append((batch.task, attempt, Failure(error, self.name, "unknown"), False))
            report.left.extend(item[0] for item in batch.items)
            batch.items.clear()
        finally:
            batch.child = None
            leave(before)
        return report

    def _run(self, batch: RunningBatch, report: Report, child: ChildProcess | None) -> None:  # noqa: C901 - hot
        store, measure, fixed = self._store, self._measure, FIXED
        items = batch.items
        stopped = batch.stopped
        done = report.done
        inputs: list[Any] = []
        value: Any = None
        keep: set[TaskId] = set()
        start = perf_counter()
        deadline = start + SLICE_SECONDS
        while items:
            try:
                task, attempt, spec, needs, drops = items.popleft()
            except IndexError:  # the last one was taken back
                break
            batch.task = task
            try:
                inputs = [store[i] for i in needs] if needs else []
            except KeyError:
                report.left.append(task)
                keep.update(needs)
                report.missing.extend(i for i in needs if i not in store)
                continue
            if stopped and task in stopped:
                report.left.append(task)
                keep.update(needs)
                continue
            try:
                if child is not None:
                    value = in_child(child, spec, inputs)
                elif spec.args is EACH:
                    value = spec.func(*inputs)
                else:
                    value = spec(inputs)
            except BaseException as error:  # user code: whatever it raises is the task's outcome
                report.failed.append(self._failure(task, attempt, error))
                # It may run again, so what was to go after the last reader in this batch has to stay. The tasks that
                # read its result find an input missing and are left.
                keep.update(needs)
                store.pop(task, None)  # a copy of an earlier attempt's: nobody may read it now
            else:
                try:
                    nbytes = fixed[type(value)]
                    cuda_nbytes = 0
                except Exception:  # not one of these, or of a type that cannot be hashed
                    nbytes, cuda_nbytes = measure(value)
                if not stopped or task not in stopped:
                    store[task] = value
                for i in drops:
                    if i not in keep:
                        store.pop(i, None)
                value = None
                inputs = []
                stop = perf_counter()
                done.append((task, attempt, start, stop, nbytes, cuda_nbytes))
                start = stop
                if stop > deadline:
                    break
        report.left.extend(item[0] for item in items)
        items.clear()

    def _failure(self, task: TaskId, attempt: int, error: BaseException) -> tuple[TaskId, int, Any, bool]:
        with suppress(Exception):  # an exception may refuse to be changed
            BaseException.with_traceback(error, _user_part(error.__traceback__))
        failure = Failure(error, self.name, threading.current_thread().name)
        return task, attempt, failure, isinstance(error, Exception) and not isinstance(error, TaskCancelled)


def in_child(child: ChildProcess, spec: TaskSpec, inputs: Sequence[Any]) -> Any:
    """Run a task in a child process; a function that has something to do around the call in this one may do it."""
    func = spec.func
    if isinstance(func, InContext):
        func = func.__wrapped__
    around = getattr(type(func), "around", None)
    if around is None:
        return child.call(spec, inputs)
    return around(func, child.call, inputs)


def _user_part(traceback: TracebackType | None) -> TracebackType | None:
    """Skip our own frames at the start of a traceback: they tell the person nothing, and keep inputs alive."""
    # By the module's name and not the file's: a compiled module knows its file from the checkout it was compiled in.
    while traceback is not None and str(traceback.tb_frame.f_globals.get("__name__")).startswith("hetsched."):
        traceback = traceback.tb_next
    return traceback
