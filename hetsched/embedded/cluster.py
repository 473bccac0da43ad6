"""The embedded cluster as its callers see it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any

from hetsched.core.costs import measured_sizes
from hetsched.core.events import CapacityChanged, GraphCancelled, GraphSubmitted, LessonsForgotten, WorkerJoined
from hetsched.core.gpu import Case
from hetsched.core.makers import Maker
from hetsched.core.plugins import Plugins
from hetsched.core.scheduler import Options, Scheduler
from hetsched.core.types import ANY_POOL, Capacity, TaskId, TaskSpec
from hetsched.core.verdicts import cases_of
from hetsched.gpu.learned import moment
from hetsched.worker.current import current_batch
from hetsched.worker.engine import Engine
from hetsched.worker.sizes import Measure

from .call import Call
from .feeding import CLIENT, Feeder, Submission

__all__ = ["WORKER", "Embedded"]

WORKER = "embedded"
"""The name of the one worker."""


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
        scheduler = Scheduler(policy, Options(wait_for_workers=False), plugins=plugins)
        scheduler.handle(WorkerJoined(WORKER, self._capacity), perf_counter())
        self._feeder = feeder = Feeder(scheduler)
        capacity = self._capacity
        self._engine = Engine(
            WORKER, capacity.executors, capacity.resources, Measure(sizeof), feeder.inbox.append, feeder.pump, gpus
        )
        feeder.start(self._engine)
        self._next_graph = 0
        self._lock = threading.Lock()

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
        if self._feeder.is_here():
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
            graph = GraphSubmitted(CLIENT, number, tasks, wanted, depth, lanes, (), None, makers, made_by)
            submission = Submission(graph, call)
            if inside is None:
                self._feeder.post(submission, lane)
                if outer is None or outer.owner is None:
                    call.wait()
                else:
                    outer.owner.wait(outer, call)
            else:
                self._feeder.inbox.append(submission)
                self._feeder.pump()
                self._engine.wait(inside, call)
        except BaseException:
            self._feeder.post(GraphCancelled(CLIENT, number))
            raise
        if call.crash is not None:
            raise call.crash
        return call

    def measured_sizes(self, prefixes: Iterable[str]) -> Mapping[str, float]:
        """The bytes of one result, as measured, for those kinds of tasks that have run."""
        return measured_sizes(self._feeder.scheduler.state, prefixes)

    def _depth(self, task: TaskId) -> int:
        """How many calls of ``get`` a task is inside of, its own graph's counted as none."""
        for call in list(self._feeder.calls.values()):
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
                self._feeder.post(CapacityChanged(WORKER, capacity))
                self._capacity = capacity
        return name

    def cases(self) -> list[Case]:
        """The evidence on kinds of tasks there is; for any thread, to be read only."""
        return cases_of(self._feeder.scheduler.state)

    def forget(self, patterns: Sequence[str], last: int) -> None:
        """Forget what was learned of functions that fit, up to this mark; for any thread."""
        self._feeder.post(LessonsForgotten(patterns))
        self.ask(lambda _: None)  # it is done when what was posted later is
        self.told = max(self.told, last)

    def ask(self, do: Callable[[Scheduler], Any]) -> Any:
        """Have something looked up in the scheduler, between two events; return what comes of it, or raise that."""
        return self._feeder.ask(do)

    def close(self) -> None:
        """Have the loop and all idle threads end; does not wait for tasks that run."""
        self._engine.close()
        self._feeder.stop()
