"""A scheduler and some workers' minds, joined by channels whose messages arrive in any order a seed chooses.

Nothing here decides anything: it carries messages, pretends to run tasks and loses workers. A task's value is a tuple
of its key and its inputs' values, so a wrong or missing input shows in the result.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Any

from hetsched.core.check import check as check_scheduler
from hetsched.core.commands import CancelTasks, FreeKeys, KeysFailed, KeysReady, RunTasks
from hetsched.core.events import (
    GraphReleased,
    GraphSubmitted,
    TasksFailed,
    TasksFinished,
    WorkerJoined,
    WorkerLost,
)
from hetsched.core.scheduler import Options, Scheduler
from hetsched.core.types import Capacity, TaskSpec
from hetsched.worker.check import check as check_worker
from hetsched.worker.instructions import (
    BatchExecuted,
    Drop,
    Execute,
    Fetch,
    KeysFetched,
    Reclaim,
    SlotRegained,
    SlotYielded,
    Stop,
    TasksReclaimed,
    Tell,
)
from hetsched.worker.state import WorkerState


def value_of(tasks: list[TaskSpec], position: int, known: dict[int, Any] | None = None) -> Any:
    """What a task must give."""
    known = {} if known is None else known
    for i in range(position + 1):
        if i not in known:
            known[i] = (tasks[i].key, *[known[d] for d in tasks[i].dependencies])
    return known[position]


class SimWorker:
    """A worker's mind with pretended hands."""

    def __init__(self, world: World, name: str, executors: dict[str, int], resources: dict[str, float]) -> None:
        self.world = world
        self.name = name
        self.mind = WorkerState(name, executors, resources)
        self.store: dict[int, Any] = {}
        self.batches: dict[int, deque[Any]] = {}
        self.executor_of: dict[int, str] = {}
        self.yielded: set[int] = set()
        self.stopped: set[int] = set()
        self.fetches: list[tuple[str, list[int]]] = []
        self.to_scheduler: deque[Any] = deque()
        self.from_scheduler: deque[Any] = deque()

    def feed(self, event: Any) -> None:
        instructions = deque(self.mind.handle(event, self.world.now))
        while instructions:
            instruction = instructions.popleft()
            match instruction:
                case Execute(executor, number, items):
                    assert items
                    self.batches[number] = deque(items)
                    self.executor_of[number] = executor
                case Reclaim(number, count):
                    batch = self.batches.get(number, deque())
                    # the first one runs already
                    taken = [batch.pop()[0] for _ in range(min(count, max(0, len(batch) - 1)))]
                    instructions.extend(self.mind.handle(TasksReclaimed(number, taken), self.world.now))
                case Stop(tasks):
                    self.stopped.update(tasks)
                case Drop(tasks):
                    for task in tasks:
                        self.store.pop(task, None)
                case Fetch(peer, tasks):
                    assert peer != self.name
                    self.fetches.append((peer, list(tasks)))
                case Tell(message):
                    self.to_scheduler.append(message)
        check_worker(self.mind)

    def run_batch(self, number: int, rng: random.Random) -> None:
        """Run a batch, perhaps not to its end."""
        items = self.batches.pop(number)
        self.yielded.discard(number)
        done, failed, left, missing = [], [], [], []
        keep: set[int] = set()
        limit = rng.choice([1, 2, 100])
        now = self.world.now
        for task, attempt, spec, inputs, drops in items:
            if len(done) >= limit or task in self.stopped or any(i not in self.store for i in inputs):
                left.append(task)
                self.stopped.discard(task)
                keep.update(inputs)
                missing.extend(i for i in inputs if i not in self.store)
                continue
            if self.world.fails(task, spec, rng):
                keep.update(inputs)
                failed.append((task, attempt, f"error of {spec.key}", True))
                continue
            self.store[task] = (spec.key, *[self.store[i] for i in inputs])
            for i in drops:
                if i not in keep:
                    self.store.pop(i, None)
            done.append((task, attempt, now, now + spec.func, 8, 0))
        self.stopped.difference_update(t for t, *_ in (*done, *failed))
        self.feed(BatchExecuted(number, done, failed, left, missing))


class World:
    """Everything, with a seed."""

    def __init__(self, seed: int, policy: str = "earliest_finish", flaky: float = 0.0, options: Options | None = None):
        self.rng = random.Random(seed)
        self.now = 0.0
        self.scheduler = Scheduler(policy, options or Options(seed=seed, allowed_losses=1000))
        self.workers: dict[str, SimWorker] = {}
        self.results: dict[int, dict[int, Any]] = {}
        self.failures: dict[int, KeysFailed] = {}
        self.graphs: dict[int, tuple[list[TaskSpec], list[int]]] = {}
        self.flaky = flaky
        self.failed_once: set[Any] = set()
        self.broken: set[Any] = set()
        """Keys that fail whenever they run."""
        self.serial = 0
        self.trace: list[str] = []

    def fails(self, task: int, spec: TaskSpec, rng: random.Random) -> bool:
        if spec.key in self.broken:
            return True
        if (spec.annotations or {}).get("retries") and task not in self.failed_once and rng.random() < self.flaky:
            self.failed_once.add(task)
            return True
        return False

    # acts

    def add_worker(self, window: int = 2, cpus: int = 2, pool: str | None = None, gpus: int = 0) -> str:
        name = f"w{self.serial}"
        self.serial += 1
        executors = {"cpu": cpus, "io": 2}
        resources = {}
        if gpus:
            executors["gpu"] = gpus
            resources["GPU"] = float(gpus)
        self.workers[name] = SimWorker(self, name, executors, resources)
        self.handle(WorkerJoined(name, Capacity(executors, resources, pool, window)))
        return name

    def lose_worker(self, name: str) -> None:
        del self.workers[name]
        self.handle(WorkerLost(name, "it was lost in a simulation"))

    def submit(self, tasks: list[TaskSpec], wanted: list[int]) -> int:
        number = len(self.graphs)
        self.graphs[number] = (tasks, wanted)
        self.results[number] = {}
        self.handle(GraphSubmitted("client", number, tasks, wanted))
        return number

    def handle(self, event: Any) -> None:
        self.now += 0.001
        commands = self.scheduler.handle(event, self.now)
        self.trace.append(f"{type(event).__name__} -> {commands!r}")
        for command in commands:
            match command:
                case RunTasks() | CancelTasks() | FreeKeys():
                    if command.worker in self.workers:
                        self.workers[command.worker].from_scheduler.append(command)
                case KeysReady():
                    self.take(command)
                case KeysFailed():
                    self.failures[command.graph] = command
        check_scheduler(self.scheduler.state)

    def take(self, command: KeysReady) -> None:
        """Fetch what is ready, at once, as a client next door would."""
        for position, task, holders in command.ready:
            for name in holders:
                if name in self.workers and task in self.workers[name].store:
                    self.results[command.graph][position] = self.workers[name].store[task]

    def choices(self) -> list[Any]:
        found: list[Any] = []
        for w in self.workers.values():
            if w.to_scheduler:
                found.append(("hear", w))
            if w.from_scheduler:
                found.append(("order", w))
            found.extend(("run", w, number) for number in w.batches)
            found.extend(("fetch", w, k) for k in range(len(w.fetches)))
        return found

    def step(self) -> bool:
        """Let one thing happen; tells whether anything could."""
        found = self.choices()
        if not found:
            return False
        self.act(self.rng.choice(found))
        return True

    def act(self, choice: Any) -> None:
        what, w = choice[:2]
        if what == "hear":
            self.handle(w.to_scheduler.popleft())
        elif what == "order":
            w.feed(w.from_scheduler.popleft())
        elif what == "run":
            number = choice[2]
            if number not in w.yielded and self.rng.random() < 0.1:
                w.yielded.add(number)
                w.feed(SlotYielded(number))
                return
            if number in w.yielded:
                w.feed(SlotRegained(number))
            w.run_batch(number, self.rng)
        else:
            peer, tasks = w.fetches.pop(choice[2])
            there = self.workers[peer].store if peer in self.workers else {}
            came = [t for t in tasks if t in there]
            for t in came:
                w.store[t] = there[t]
            w.feed(KeysFetched(peer, came, [t for t in tasks if t not in there]))

    def run(self, limit: int = 1_000_000) -> None:
        """Let things happen until none is left."""
        for _ in range(limit):
            if not self.step():
                return
        raise AssertionError("it does not end")

    def release_all(self) -> None:
        for number in self.graphs:
            self.handle(GraphReleased("client", number))
        self.run()

    # verdicts

    def assert_right(self, number: int) -> None:
        tasks, wanted = self.graphs[number]
        known: dict[int, Any] = {}
        assert number not in self.failures, self.failures[number]
        assert self.results[number] == {p: value_of(tasks, p, known) for p in wanted}

    def assert_empty(self) -> None:
        """Nothing is left of graphs that were released."""
        assert not self.scheduler.state.tasks and not self.scheduler.state.graphs
        for w in self.workers.values():
            assert not w.store, f"{w.name} still holds {w.store}"
            assert not w.mind.jobs, f"{w.name} still knows {w.mind.jobs}"
            assert not w.mind.batches
        for ws in self.scheduler.state.workers.values():
            assert (ws.nbytes, ws.held, ws.occupancy) == (0, 0, 0.0)
            assert not any(ws.assigned.values())


def random_graph(rng: random.Random, size: int = 30, annotate: bool = True) -> tuple[list[TaskSpec], list[int]]:
    """A random graph in an order that may be submitted; a task's function is its duration."""
    tasks: list[TaskSpec] = []
    kinds = ["load", "map", "sum"]
    for i in range(rng.randint(1, size)):
        fan = rng.choice([0, 1, 1, 2, 5]) if i else 0
        deps = sorted(rng.sample(range(i), min(fan, i))) if rng.random() < 0.9 else [i - 1] * bool(i)
        notes: dict[str, Any] | None = None
        if annotate and rng.random() < 0.3:
            notes = rng.choice([{"retries": 2}, {"executor": "io"}, {"priority": 5}, {"retries": 1, "priority": -2}])
        duration = rng.choice([1e-5, 1e-4, 0.01])
        tasks.append(TaskSpec((rng.choice(kinds), i), duration, (), None, deps, notes))  # type: ignore[arg-type]
    used = {d for t in tasks for d in t.dependencies}
    wanted = sorted({i for i in range(len(tasks)) if i not in used} | {i for i in used if rng.random() < 0.1})
    return tasks, wanted


__all__ = ["SimWorker", "TasksFailed", "TasksFinished", "World", "random_graph", "value_of"]
