"""Executors: threads that take batches of tasks and give back what came of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, MutableMapping
from queue import Empty, SimpleQueue
from typing import Any

from hetsched.core.types import TaskId
from hetsched.gpu.devices import bind_device

from .child import ChildProcess
from .current import RunningBatch, enter, leave
from .running import Failure, Report, run_tasks
from .supervised import supervisor

__all__ = ["IDLE_SECONDS", "Executor"]

IDLE_SECONDS = 0.001
"""A thread of a lane for calls with a ``num_workers`` of their own ends after this time without work."""

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
        self.device = device
        self._serial = 0
        self._children: list[ChildProcess] = []

    def put(self, batch: RunningBatch) -> None:
        """Give a batch to a thread (with the lock held)."""
        self.outstanding += 1
        if self.threads < self.outstanding - self.blocked:
            self.threads += 1
            self._serial += 1
            _start(threading.Thread(target=self._serve, name=f"hetsched-{self.name}-{self._serial}", daemon=True))
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
        if self.device is not None:
            bind_device(self.device)
        care = supervisor(self.name, self._store, self.device)
        seen, watched = ([], False) if care is None else (care.seen, care.watched)
        report = Report(batch.number, [], [], [], [], seen, [], watched)
        batch.child = child
        try:
            run_tasks(batch, report, self._store, self._measure, child, care)
        except BaseException as error:  # a bug of ours: the task it struck fails, rather than nobody being told
            attempt = next((item[1] for item in batch.given if item[0] == batch.task), 0)
            report.failed.append((batch.task, attempt, Failure(error, self.name, "unknown"), False))
            report.left.extend(item[0] for item in batch.items)
            batch.items.clear()
        finally:
            batch.child = None
            leave(before)
        return report


def _start(thread: threading.Thread) -> None:
    try:
        thread.start()
    except RuntimeError as error:  # Python 3.12 and later: the program has ended, and so will the thread that is here
        if "interpreter shutdown" not in str(error):
            raise
