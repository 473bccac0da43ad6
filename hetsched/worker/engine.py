"""Joins a worker's mind to its hands: one lock around the mind, threads that run, a store that keeps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from time import perf_counter
from typing import Any, assert_never

from hetsched.core.commands import WorkerCommand
from hetsched.core.events import WorkerEvent
from hetsched.core.types import Outcome, TaskId, WorkerId
from hetsched.gpu.objects import device_number

from .current import RunningBatch, Waiter
from .executors import Executor
from .instructions import (
    Announce,
    BatchExecuted,
    Drop,
    Execute,
    Fetch,
    Instruction,
    KeysFetched,
    PatienceEnded,
    Reclaim,
    SlotRegained,
    SlotsChanged,
    SlotYielded,
    Stop,
    TasksReclaimed,
    Tell,
    WorkerInput,
)
from .running import Report
from .state import WorkerState

__all__ = ["Engine"]


class _Hand(threading.local):
    """What an idle thread of an executor has been given while it looked after the scheduler."""

    executor: Executor | None = None
    batch: RunningBatch | None = None


class Engine:
    """A worker inside this process.

    Any thread may call it. The mind is fed under one lock, once per batch; a thread that reports a batch is handed its
    next one on the spot, so that a chain of tasks costs no hand-off. ``send`` gets what the worker tells the scheduler,
    in order, and is called under the lock: it must only note it down. ``after`` is called without the lock, in a thread
    of the worker's, after a batch or a nudge. The lanes of the GPU executor take turns with the ``devices``.

    ``fetch`` is called, under the lock, to have results brought from a peer, which :meth:`fetched` then takes; without
    it there are no peers. ``note`` gets the outcomes of each batch, without the lock, before they are reported.
    ``announce`` gets, under the lock, how many slots of which executors are busy with cancelled tasks, whenever that
    has changed and was found by :meth:`look`.
    """

    def __init__(
        self,
        worker: WorkerId,
        executors: Mapping[str, int],
        resources: Mapping[str, float],
        measure: Callable[[Any], tuple[int, int]],
        send: Callable[[WorkerEvent], None],
        after: Callable[[], None],
        devices: int = 0,
        store: MutableMapping[TaskId, Any] | None = None,
        fetch: Callable[[WorkerId, Sequence[TaskId]], None] | None = None,
        note: Callable[[Sequence[Outcome]], None] | None = None,
        pool: str | None = None,
        announce: Callable[[Mapping[str, int]], None] | None = None,
    ) -> None:
        self.worker = worker
        self.pool = pool
        self.store: MutableMapping[TaskId, Any] = {} if store is None else store
        # A store that can lets many results go in one step.
        self._device_room: Callable[[], Sequence[int] | None] = getattr(self.store, "device_room", lambda: None)
        self._drop: Callable[[Sequence[TaskId]], list[Any]] = getattr(self.store, "drop", self._pop_each)
        # And one that gives what is in memory, and reads no file for it.
        self._peek: Callable[[TaskId], Any] = getattr(self.store, "peek", self.store.get)
        self._fetch = fetch
        self._note = note
        self._announce = announce or _unheard
        self._lock = threading.Lock()
        self._mind = WorkerState(worker, executors, resources, devices)
        self._measure = measure
        self._send = send
        self._after = after
        self._hand = _Hand()
        self._devices = devices
        self._lanes: dict[str, list[Executor]] = {}
        self._running: dict[int, RunningBatch] = {}
        self._whose: dict[int, Executor] = {}
        """The executor each running batch was given to."""
        self._stopped: set[TaskId] = set()
        for name, slots in executors.items():
            self._add(name, slots)

    def _add(self, name: str, slots: int) -> None:
        def executor(slots: int, device: int | None = None) -> Executor:
            return Executor(name, slots, self.store, self._measure, self._executed, self._nudged, self._lock, device)

        # A device's lane is one thread, always the same, since the thread owns the device's context.
        if name == "gpu":
            self._lanes[name] = [executor(1, n % self._devices if self._devices else None) for n in range(slots)]
        else:
            self._lanes[name] = [executor(slots)]

    def add_executor(self, name: str, slots: int) -> None:
        """Add a group of threads, idle until something is ordered of it; nothing if there is one of the name."""
        with self._lock:
            if name not in self._lanes:
                # In this order: a caller interrupted in between does it again, and nothing is said twice.
                self._mind.handle(SlotsChanged(name, slots), perf_counter())
                self._add(name, slots)

    def order(self, command: WorkerCommand) -> list[Any]:
        """Take an order of the scheduler's.

        Returns the values that were dropped for it: their finalizers are user code, so the caller should let go of them
        where it holds no lock.
        """
        return self._feed(command)

    def fetched(self, event: KeysFetched) -> list[Any]:
        """Take what a peer gave, its values being in the store; returns values that were dropped, as :meth:`order`."""
        return self._feed(event._replace(located=self._located(event.came)) if self._devices > 1 else event)

    def look(self) -> None:
        """See which slots are busy with tasks that were cancelled a while ago, and have them announced.

        Twice, as the first time batches give back what they have not begun, which shows what they are at.
        """
        for _ in range(2):
            garbage = self._feed(PatienceEnded())
            del garbage
        self._after()

    def _located(self, tasks: Sequence[TaskId]) -> Sequence[tuple[TaskId, int, int]]:
        """Which of these results are on which device, with their bytes; without the lock, as it looks into them."""
        values = [(task, self._peek(task)) for task in tasks]
        numbers = [(task, device_number(value), value) for task, value in values if value is not None]
        return [(task, number, self._measure(value)[1]) for task, number, value in numbers if number is not None]

    def nudge(self, name: str) -> bool:
        """Have an idle thread of an executor call ``after``; False where there is none."""
        with self._lock:
            executor = self._lanes[name][0]
            if executor.threads <= executor.outstanding:
                return False
            executor.queue.put(True)
            return True

    def close(self) -> None:
        """Have all threads end as soon as they are idle."""
        for lane in self._lanes.values():
            for executor in lane:
                executor.close()

    def wait(self, batch: RunningBatch, waiter: Waiter) -> None:
        """Wait inside of the task ``batch`` is at, its slot given up meanwhile.

        A task in a device's lane runs the lane's other tasks itself while it waits, so that the device stays with its
        thread. An exception that interrupts the wait leaves the slot regained.
        """
        helps = batch.executor == "gpu"
        executor = self._whose[batch.number]
        with self._lock:
            executor.blocked += helps
        self._feed(SlotYielded(batch.number))
        try:
            if helps:
                waiter.on_finish(lambda: executor.queue.put(True))
                executor.serve_until(waiter.finished)
            waiter.wait()
        finally:
            with self._lock:
                executor.blocked -= helps
            self._feed(SlotRegained(batch.number))

    def _feed(self, event: WorkerInput) -> list[Any]:
        hand = self._hand
        with self._lock:
            garbage: list[Any] = []
            mine = hand.executor if hand.batch is None else None
            kept = self._apply(self._mind.handle(event, perf_counter()), garbage, mine)
        if kept is not None:
            hand.batch = kept
        return garbage

    def _nudged(self, executor: Executor) -> RunningBatch | None:
        """Call ``after`` in an idle thread, which keeps the first batch for its executor that comes of it."""
        hand = self._hand
        hand.executor = executor
        try:
            self._after()
        finally:
            hand.executor = None
        batch, hand.batch = hand.batch, None
        return batch

    def _executed(self, executor: Executor, report: Report) -> RunningBatch | None:
        """Take a thread's report; return its next batch, if there is one for it."""
        if self._note is not None:
            self._note(report.done)
        several = self._devices > 1
        located = self._located([outcome[0] for outcome in report.done if outcome[5]]) if several else ()
        with self._lock:
            garbage: list[Any] = []
            executor.outstanding -= 1
            del self._running[report.batch], self._whose[report.batch]
            event = BatchExecuted(*report, self._device_room(), located)
            next_batch = self._apply(self._mind.handle(event, perf_counter()), garbage, executor)
            if self._stopped:
                self._stopped.difference_update(report.left)
                self._stopped.difference_update(outcome[0] for outcome in (*report.done, *report.failed))
        del garbage, event, report
        if next_batch is None:
            return self._nudged(executor)
        self._after()
        return next_batch

    def _apply(
        self, instructions: Sequence[Instruction], garbage: list[Any], mine: Executor | None = None
    ) -> RunningBatch | None:
        """Do what the mind says; the first batch for ``mine`` is returned and not queued."""
        kept: RunningBatch | None = None
        for instruction in instructions:
            match instruction:
                case Execute(name, number, items, device):
                    executor = self._choose(name, device, mine if kept is None else None)
                    batch = self._running[number] = RunningBatch(number, name, items, self._stopped, self)
                    self._whose[number] = executor
                    if executor is mine and kept is None:
                        executor.outstanding += 1
                        kept = batch
                    else:
                        executor.put(batch)
                case Tell(message):
                    self._send(message)
                case Announce(slots):
                    self._announce(dict(slots))
                case Drop(tasks):
                    garbage += self._drop(tasks)
                case Stop(tasks):
                    self._stopped.update(tasks)
                    self._kill_children()
                case Reclaim(number, count):
                    second = self._apply(self._take_back(number, count), garbage, mine if kept is None else None)
                    kept = kept or second
                case Fetch(peer, tasks):
                    self._ask(peer, tasks, garbage)
                case _:
                    assert_never(instruction)
        return kept

    def _ask(self, peer: WorkerId, tasks: Sequence[TaskId], garbage: list[Any]) -> None:
        if self._fetch is not None:
            self._fetch(peer, tasks)
        else:
            self._apply(self._mind.handle(KeysFetched(peer, (), tasks), perf_counter()), garbage)

    def _take_back(self, number: int, count: int) -> Sequence[Instruction]:
        """Take tasks back from the end of a batch; return what the mind says to that."""
        running = self._running.get(number)
        taken = running.take_back(count) if running is not None else []
        self._stopped.difference_update(taken)
        return self._mind.handle(TasksReclaimed(number, taken), perf_counter())

    def _pop_each(self, tasks: Sequence[TaskId]) -> list[Any]:
        return [self.store.pop(task, None) for task in tasks]

    def _kill_children(self) -> None:
        """A task in a process of its own can be stopped at once."""
        for batch in self._running.values():
            child = batch.child
            if child is not None and batch.task in self._stopped:
                child.kill()

    def _choose(self, name: str, device: int, mine: Executor | None) -> Executor:
        """Pick who runs a batch, on that device if any: the asking thread if it may, else one with a slot to spare."""
        lane = self._lanes[name]
        if device >= 0:
            lane = [executor for executor in lane if executor.device == device]
        if mine is not None and mine.blocked:
            mine = None  # the task that waits there need not have asked for this one
        if mine in lane and mine is not None:
            return mine
        return min(lane, key=lambda executor: (executor.outstanding - executor.blocked, executor.blocked))


def _unheard(taken: Mapping[str, int]) -> None:
    """Nobody is told."""
