"""Hand tasks that can run, or soon can, to workers."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import chain
from typing import Final

from .commands import CancelTasks, Command, RunTasks
from .costs import duration_of, nbytes_of
from .holding import Holding
from .needs import Needs
from .orders import order_of
from .patience import Patience
from .placement import Policy, can_move
from .recovery import unassign
from .run_ahead import RunAhead
from .shares import claim, has_room
from .state import Graph, Phase, State, TaskState, WorkerState
from .types import TaskId
from .wishes import Wishes, arrange, swap

__all__ = ["MOST_LEFT", "Dispatcher"]

MOST_LEFT: Final = 64
"""After so many tasks in a row that a policy leaves where they are, the rest is not offered until the next event."""

_READY: Final = Phase.READY
_ASSIGNED: Final = Phase.ASSIGNED


class Dispatcher:
    """Assigns ready tasks by rank, and with each the tasks that may run ahead on the same worker.

    A task may be assigned before its inputs exist if every input is in memory or is being made on that very worker,
    which then starts it by itself. What one event assigns to one worker goes out as one ``RunTasks``.
    """

    __slots__ = ("_ahead", "_batches", "_holding", "_patience", "_patient", "_policy", "_state", "_taken", "_wishes")

    def __init__(self, state: State, policy: Policy) -> None:
        self._state = state
        self._policy = policy
        self._holding = Holding(state)
        self._patience = Patience(state)
        self._patient = bool(getattr(policy, "waits_for_data", False))
        self._ahead = RunAhead(state, self._patient)
        self._wishes = Wishes(policy)
        self._batches: dict[WorkerState, list[TaskState]] = {}
        self._taken: dict[WorkerState, list[TaskId]] = {}
        """Tasks that were taken away from workers since the last flush."""

    @property
    def moves(self) -> bool:
        """Whether the policy moves tasks that are assigned, and so has to be asked after every event."""
        return self._wishes.moves is not None

    def arrange(self, tasks: list[TaskState]) -> None:
        """Have the policy say in which order new tasks should start, if it wants to; they are not queued yet."""
        order, last = self._wishes.order, self._wishes.last
        if order is not None and tasks:
            arrange(order(tasks, list(self._state.workers.values())))
        if last is not None and len(tasks) > 1 and not tasks[0].graph.open and len(self._state.workers) > 1:
            swap(last(tasks, list(self._state.workers.values())))

    def queue(self, tasks: list[TaskState], cause: str, now: float) -> None:
        """Make tasks READY, whose inputs all exist."""
        self._state.move(tasks, _READY, cause, now)
        self._push(tasks)

    @property
    def due(self) -> float | None:
        """When tasks that are kept back for a worker have to be looked at again (seconds on the scheduler's clock)."""
        due, other = self._holding.due, self._patience.due
        return other if due is None else due if other is None else min(due, other)

    def _push(self, tasks: list[TaskState]) -> None:
        ready = self._state.ready
        steering = self._state.steering
        if steering is not None and steering.narrows and steering.again:
            for ts in tasks:
                ts.needs = steering.narrow(ts)
        for ts in tasks:
            heap = ready.get(ts.needs)
            if heap is None:
                heap = ready[ts.needs] = []
            heappush(heap, (ts.rank, ts.id))

    def reconsider(self) -> None:
        """Ask plugins again about tasks that wait for a worker."""
        steering = self._state.steering
        if steering is None or not steering.narrows or not steering.again:
            return
        tasks = self._state.tasks
        ready = self._state.ready
        waiting = {task: None for heap in ready.values() for _, task in heap}
        for task in sorted(waiting):
            ts = tasks.get(task)
            if ts is not None and ts.phase is _READY:
                needs = steering.narrow(ts)
                if needs is not ts.needs:
                    ts.needs = needs
                    heappush(ready.setdefault(needs, []), (ts.rank, ts.id))

    def _all_may_run_on(self, worker: WorkerState, graph: Graph) -> bool:
        """Ask plugins whether a worker may have all of a graph."""
        steering = self._state.steering
        if steering is not None and steering.narrows:
            for ts in graph.tasks:
                if steering.again:
                    ts.needs = steering.narrow(ts)
                if not ts.needs.met_by(worker.id, worker.capacity):
                    return False
        return True

    def take_whole(self, graph: Graph, now: float) -> bool:
        """Assign a new graph at once, where there is one worker and it wants all there is."""
        workers = self._state.workers
        if len(workers) != 1:
            return False
        (worker,) = workers.values()
        if worker.capacity.window:
            return False
        executors = worker.capacity.executors
        if not all(needs.met_by(worker.id, worker.capacity) for needs in graph.needs):
            return False
        if not self._all_may_run_on(worker, graph):
            return False
        assigned = dict.fromkeys(executors, 0)
        for ts in graph.tasks:
            ts.processing_on = worker
            ts.unplaced = 0
            assigned[ts.needs.executor] += 1
            if ts.needs.resources:
                claim(worker, ts.needs, 1)
        for executor, count in assigned.items():
            worker.assigned[executor] += count
        self._state.move(graph.tasks, _ASSIGNED, worker.id, now)
        self._batches.setdefault(worker, []).extend(graph.tasks)
        return True

    def assign_ready(self, now: float) -> None:
        """Give ready tasks to workers that have room, best rank first, until one of the two runs out.

        A policy that waits for data may keep one back for a worker without room that holds its inputs. One may also be
        offered workers without room, leave tasks where they are, and match and move them.
        """
        self._patience.begin()
        if self._state.held:
            self._push(self._holding.give_back(now))
        aside = self._match(now) if self._wishes.match is not None else self._choose_for_each(now)
        if aside:
            self._push(aside)
            self._start_something(aside, now)
        if self._wishes.moves is not None:
            self._move(now)

    def _choose_for_each(self, now: float) -> list[TaskState]:
        """Assign ready tasks one after another; returns those that are to wait."""
        open_to: dict[Needs, list[WorkerState]] = {}
        aside: list[TaskState] = []
        left = 0
        offers_all = self._wishes.offers_all
        # A policy that moves tasks has to know of all that it has given.
        always = offers_all or self._wishes.moves is not None
        while (ts := self._next(open_to)) is not None:
            workers = open_to[ts.needs]
            worker = self._policy.choose(ts, workers) if len(workers) > 1 or always else workers[0]
            if worker is None:
                aside.append(ts)
                left += 1
                if left == MOST_LEFT:
                    break
                continue
            left = 0
            if self._patient and ts.dependencies and self._holding.keep(ts, worker, now):
                continue
            if self._patient and self._patience.keep(ts, worker, workers, now):
                aside.append(ts)
                open_to[ts.needs] = []  # the next of its kind would do no better
                continue
            self.assign(ts, worker, now)
            if offers_all:
                continue
            for needs, others in open_to.items():
                if worker in others and not has_room(worker, needs):
                    others.remove(worker)
        return aside

    def _match(self, now: float) -> list[TaskState]:
        """Have the policy match all that is ready with all workers; returns what it leaves."""
        assert self._wishes.match is not None
        state = self._state
        found = [state.tasks.get(task) for _, task in sorted(chain.from_iterable(state.ready.values()))]
        ready = [ts for ts in dict.fromkeys(found) if ts is not None and ts.phase is _READY]
        state.ready.clear()
        workers = [w for w in state.workers.values() if w.copying is None]
        for ts, worker in self._wishes.match(ready, workers, now) if ready and workers else ():
            self.assign(ts, worker, now)
        return [ts for ts in ready if ts.phase is _READY]

    def _start_something(self, tasks: list[TaskState], now: float) -> None:
        """Give a task to a worker although the policy did not, where else nothing would ever happen again."""
        workers = list(self._state.workers.values())
        if not any(any(w.assigned.values()) for w in workers):
            for ts in tasks:
                for w in workers:
                    if has_room(w, ts.needs) and ts.needs.met_by(w.id, w.capacity):
                        self.assign(ts, w, now)
                        return

    def _move(self, now: float) -> None:
        """Take tasks from workers and give them to others, as the policy wants, but none that was assigned just now."""
        assert self._wishes.moves is not None
        workers = [w for w in self._state.workers.values() if w.copying is None]
        fresh = {ts.id for batch in self._batches.values() for ts in batch}
        for ts, worker in self._wishes.moves(workers, now):
            if can_move(ts, worker) and ts.id not in fresh:
                fresh.add(ts.id)
                assert ts.processing_on is not None
                self._taken.setdefault(ts.processing_on, []).append(ts.id)
                unassign(self._state, [ts], f"taken for {worker.id}", now)
                for d in ts.dependents:
                    d.unplaced += 1
                self.queue([ts], f"taken for {worker.id}", now)
                if ts.needs.met_by(worker.id, worker.capacity):  # it may be a GPU task by now
                    self.assign(ts, worker, now)

    def _next(self, open_to: dict[Needs, list[WorkerState]]) -> TaskState | None:
        """Take the best-ranked ready task some worker has room for."""
        tasks = self._state.tasks
        ready = self._state.ready
        offers_all = self._wishes.offers_all
        best: list[tuple[int, int]] | None = None
        for needs in list(ready):
            heap = ready[needs]
            while heap:
                ts = tasks.get(heap[0][1])
                if ts is not None and ts.phase is _READY and ts.needs is needs:
                    break
                heappop(heap)
            if not heap:
                del ready[needs]
                continue
            if needs not in open_to:
                open_to[needs] = [
                    w
                    for w in self._state.workers.values()
                    if (has_room(w, needs) or (offers_all and w.copying is None)) and needs.met_by(w.id, w.capacity)
                ]
            if open_to[needs] and (best is None or heap[0] < best[0]):
                best = heap
        return None if best is None else tasks[heappop(best)[1]]

    def assign(self, first: TaskState, worker: WorkerState, now: float) -> None:
        """Assign a task, and then those that may run ahead after it while the worker has room."""
        batch = self._batches.setdefault(worker, [])
        stack = [first]
        ahead, expects = self._wishes.runs_ahead, self._wishes.expects
        several = len(self._state.workers) > 1
        while stack:
            ts = stack.pop()
            if ts is not first and not self._ahead.follows(ts, worker):
                continue
            executor = ts.needs.executor
            worker.assigned[executor] += 1
            ts.processing_on = worker
            ts.estimate = duration_of(ts) if expects is None else expects(ts, worker)
            worker.occupancy += ts.estimate
            if executor not in ts.prefix.on and expects is None and worker.capacity.window:
                worker.guessed.setdefault(ts.prefix, {})[ts] = None
            ts.expected = int(nbytes_of(ts))
            worker.coming += ts.expected
            if ts.needs.resources:
                claim(worker, ts.needs, 1)
            for d in ts.dependencies if several else ():
                if d.who_has and worker not in d.who_has:
                    worker.fetching[d] = worker.fetching.get(d, 0) + 1
            self._state.move([ts], _ASSIGNED, worker.id, now)
            batch.append(ts)
            for d in ts.dependents:
                d.unplaced -= 1
            if ts.dependents and ahead:
                stack += reversed(self._ahead.readers(ts, worker))  # the first on top

    def flush(self) -> list[Command]:
        """Return what was taken away and what was assigned since the last flush, one order per worker."""
        if not self._batches:
            return []
        out: list[Command] = []
        if self._taken:
            out += [CancelTasks(w.id, tasks) for w, tasks in self._taken.items()]
            self._taken = {}
        out += [RunTasks(w.id, [order_of(ts, w) for ts in batch]) for w, batch in self._batches.items() if batch]
        self._batches = {}
        return out
