"""A scheduler and some workers' minds, joined by channels whose messages arrive in any order a seed chooses.

Nothing here decides anything: it carries messages, pretends to run tasks and loses workers. A task's value is a tuple
of its key and its inputs' values, so a wrong or missing input shows in the result.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Any

from hetsched.core import check as checks
from hetsched.core.commands import CancelTasks, FetchKeys, FreeKeys, KeysFailed, KeysReady, MoveTasks, RunTasks
from hetsched.core.events import (
    CapacityChanged,
    GraphCancelled,
    GraphReleased,
    GraphSubmitted,
    ReplicasAdded,
    TasksFinished,
    TimePassed,
    WorkerJoined,
    WorkerLost,
    WorkerRetiring,
)
from hetsched.core.scheduler import Options, Scheduler
from hetsched.core.state import Graph, State
from hetsched.core.types import Capacity, TaskSpec
from hetsched.worker.check import check as check_worker
from hetsched.worker.instructions import (
    Announce,
    BatchExecuted,
    Drop,
    Execute,
    Fetch,
    KeysFetched,
    PatienceEnded,
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


class Batch:
    """A batch in a slot: what is left of it, and what its report will say."""

    def __init__(self, items: Any, limit: int) -> None:
        self.items = deque(items)
        self.limit = limit
        """How many tasks may run before the slot hands the rest back."""
        self.yielded = False
        self.keep: set[int] = set()
        self.done: list[Any] = []
        self.failed: list[Any] = []
        self.left: list[int] = []
        self.missing: list[int] = []
        self.device: list[tuple[int, str]] = []

    def over(self) -> bool:
        return not self.items or len(self.done) >= self.limit


class SimWorker:
    """A worker's mind with pretended hands.

    They do as ``hetsched.worker.executors`` and ``engine`` do: a slot goes through its batch while orders come in, and
    reports at its end, perhaps much later.
    """

    def __init__(self, world: World, name: str, capacity: Capacity) -> None:
        self.world = world
        self.name = name
        self.capacity = capacity
        self.mind = WorkerState(name, capacity.executors, capacity.resources)
        self.store: dict[int, Any] = {}
        self.batches: dict[int, Batch] = {}
        self.stopped: set[int] = set()
        self.fetches: list[tuple[str, list[int]]] = []
        self.to_scheduler: deque[Any] = deque()
        self.from_scheduler: deque[Any] = deque()

    def feed(self, event: Any) -> None:
        instructions = deque(self.mind.handle(event, self.world.now))
        while instructions:
            instruction = instructions.popleft()
            match instruction:
                case Execute(_, number, items):
                    assert items
                    self.batches[number] = Batch(items, self.world.rng.choice([1, 2, 100]))
                case Reclaim(number, count):
                    items = self.batches[number].items if number in self.batches else ()
                    taken = [items.pop()[0] for _ in range(min(count, len(items)))]
                    self.stopped.difference_update(taken)
                    instructions.extend(self.mind.handle(TasksReclaimed(number, taken), self.world.now))
                case Stop(tasks):
                    self.stopped.update(tasks)
                case Drop(tasks):
                    self.drop(tasks)
                case Fetch(peer, tasks):
                    assert peer != self.name
                    self.fetches.append((peer, list(tasks)))
                case Tell(message):
                    self.to_scheduler.append(message)
                case Announce(taken):
                    self.announce(dict(taken))
        check_worker(self.mind)

    def look(self) -> None:
        self.feed(PatienceEnded())
        self.feed(PatienceEnded())

    def announce(self, taken: dict[str, int]) -> None:
        slots = {name: max(0, count - taken.get(name, 0)) for name, count in self.capacity.executors.items()}
        self.to_scheduler.append(CapacityChanged(self.name, self.capacity._replace(executors=slots)))

    def drop(self, tasks: Any) -> None:
        for task in tasks:
            self.store.pop(task, None)

    def go_on(self, number: int, rng: random.Random) -> None:
        """Let a slot go on with its batch: some tasks of it, or the report."""
        batch = self.batches[number]
        if number in self.mind.abandoned.batches and rng.random() < 0.9:
            return  # a task that goes on for long
        if batch.yielded:
            batch.yielded = False
            self.feed(SlotRegained(number))
        elif batch.items and rng.random() < 0.08:
            batch.yielded = True
            self.feed(SlotYielded(number))
            return
        for _ in range(rng.choice([1, 3, 100])):
            if batch.over():
                break
            self.run_task(batch)
        if batch.over() and rng.random() < (0.2 if self.world.impatience else 0.7):
            self.report(number)

    def run_task(self, batch: Batch) -> None:
        task, attempt, spec, inputs, drops = batch.items.popleft()
        missing = [i for i in inputs if i not in self.store]
        if missing or task in self.stopped:
            batch.left.append(task)
            batch.missing += missing
            batch.keep.update(inputs)
        elif self.world.fails(task, spec):
            batch.failed.append((task, attempt, f"error of {spec.key}", True))
            if self.world.rng.random() < self.world.devices:
                batch.device.append((task, "no context"))
            self.store.pop(task, None)
            batch.keep.update(inputs)
        else:
            self.store[task] = (spec.key, *[self.store[i] for i in inputs])
            for i in drops:
                if i not in batch.keep:
                    self.store.pop(i, None)
            now = self.world.now
            sizes = self.world.sizes
            outcome = (task, attempt, now, now + spec.func, sizes[task % len(sizes)], self.world.cuda_nbytes(spec))
            batch.done.append(outcome)

    def report(self, number: int) -> None:
        batch = self.batches.pop(number)
        batch.left.extend(item[0] for item in batch.items)
        self.feed(BatchExecuted(number, batch.done, batch.failed, batch.left, batch.missing, (), batch.device))
        self.stopped.difference_update(batch.left)
        self.stopped.difference_update(outcome[0] for outcome in (*batch.done, *batch.failed))


class World:
    """Everything, with a seed."""

    def __init__(
        self,
        seed: int,
        policy: str = "earliest_finish",
        flaky: float = 0.0,
        unreachable: float = 0.0,
        devices: float = 0.0,
        options: Options | None = None,
        impatience: float = 0.0,
    ) -> None:
        self.rng = random.Random(seed)
        self.now = 0.0
        self.scheduler = Scheduler(policy, options or Options(seed=seed, allowed_losses=1000))
        self.workers: dict[str, SimWorker] = {}
        self.results: dict[int, dict[int, Any]] = {}
        self.failures: dict[int, dict[int, KeysFailed]] = {}
        self.graphs: dict[int, tuple[list[TaskSpec], list[int]]] = {}
        self.left: set[int] = set()
        """Graphs that were released or cancelled."""
        self.flaky = flaky
        """How often a task that may be retried fails at first."""
        self.unreachable = unreachable
        """How often a peer gives nothing of what it is asked for."""
        self.devices = devices
        """How often a result is on a device, of kinds of tasks that make such then, and an error one of a device."""
        self.impatience = impatience
        """How often a worker looks, before anything else happens, for slots that are busy with cancelled tasks."""
        self.failed_once: set[Any] = set()
        self.broken: set[Any] = set()
        """Keys that fail whenever they run."""
        self.sizes: tuple[int, ...] = (8,)
        """The bytes of results: of each task's in turn, by its number."""
        self.serial = 0
        self.told: list[tuple[Any, Any]] = []

    @property
    def trace(self) -> list[str]:
        """Each event with what the scheduler answered."""
        return [f"{type(event).__name__} -> {commands!r}" for event, commands in self.told]

    def fails(self, task: int, spec: TaskSpec) -> bool:
        if spec.key in self.broken:
            return True
        if (spec.annotations or {}).get("retries") and task not in self.failed_once and self.rng.random() < self.flaky:
            self.failed_once.add(task)
            return True
        return False

    def cuda_nbytes(self, spec: TaskSpec) -> int:
        """What a result takes on a device: kinds of tasks change what they make in the course of a run."""
        if not self.devices or (len(spec.key[0]) + ord(spec.key[0][0]) + int(self.now * 20)) % 3 == 0:
            return 0
        return 8 * (self.rng.random() < self.devices)

    # acts

    def add_worker(self, window: int = 2, cpus: int = 2, pool: str | None = None, gpus: int = 0) -> str:
        name = f"w{self.serial}"
        self.serial += 1
        executors = {"cpu": cpus, "io": 2}
        resources = {"mem": 2.0}
        if gpus:
            executors["gpu"] = gpus
            resources["GPU"] = float(gpus)
        capacity = Capacity(executors, resources, pool, window)
        self.workers[name] = SimWorker(self, name, capacity)
        self.handle(WorkerJoined(name, capacity))
        return name

    def lose_worker(self, name: str) -> None:
        del self.workers[name]
        self.handle(WorkerLost(name, "it was lost in a simulation"))

    def retire_worker(self, name: str) -> None:
        self.handle(WorkerRetiring(name))

    def submit(self, tasks: list[TaskSpec], wanted: list[int]) -> int:
        number = len(self.graphs)
        self.graphs[number] = (tasks, wanted)
        self.results[number] = {}
        self.failures[number] = {}
        self.handle(GraphSubmitted("client", number, tasks, wanted))
        return number

    def leave(self, number: int, cancel: bool = False) -> None:
        self.left.add(number)
        self.handle((GraphCancelled if cancel else GraphReleased)("client", number))

    def handle(self, event: Any) -> None:
        self.now += 0.001
        graphs = self.graphs_of(event)
        commands = self.scheduler.handle(event, self.now)
        self.told.append((event, commands))
        orders = set()
        for command in commands:
            match command:
                case FetchKeys():
                    if command.worker in self.workers:
                        self.workers[command.worker].from_scheduler.append(command)
                case RunTasks() | CancelTasks() | FreeKeys() | MoveTasks():
                    assert command.tasks or isinstance(command, MoveTasks), command
                    assert (type(command), command.worker) not in orders, f"two of a kind: {commands}"
                    orders.add((type(command), command.worker))
                    if command.worker in self.workers:
                        self.workers[command.worker].from_scheduler.append(command)
                    if graphs is not None and isinstance(command, RunTasks):
                        graphs |= self.graphs_with([order.task for order in command.tasks])
                case KeysReady():
                    self.take(command)
                case KeysFailed():
                    assert not self.failures[command.graph].keys() & set(command.failed), "told twice"
                    self.failures[command.graph].update(dict.fromkeys(command.failed, command))
        check_scheduler(self.scheduler.state, graphs)

    def graphs_of(self, event: Any) -> set[Graph] | None:
        """The graphs whose tasks an event is about, None for any."""
        match event:
            case TasksFinished() if not self.devices:
                return self.graphs_with([outcome[0] for outcome in event.outcomes])
            case ReplicasAdded():
                return self.graphs_with(event.tasks)
        return None

    def graphs_with(self, tasks: Any) -> set[Graph]:
        known = self.scheduler.state.tasks
        return {known[task].graph for task in tasks if task in known}

    def take(self, command: KeysReady) -> None:
        """Fetch what is ready, at once, as a client next door would."""
        for position, task, holders in command.ready:
            stores = [self.workers[name].store for name in holders if name in self.workers]
            values = [store[task] for store in stores if task in store]
            assert values or len(stores) < len(holders), f"{holders} are said to hold {task} and do not"
            if values:
                self.results[command.graph][position] = values[0]

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
        if self.impatience and self.workers and self.rng.random() < self.impatience:
            self.rng.choice(list(self.workers.values())).look()
        found = self.choices()
        if not found:
            due = self.scheduler.due
            if due is None:
                return False
            self.now = max(self.now, due)
            self.handle(TimePassed())
            return True
        self.act(self.rng.choice(found))
        return True

    def act(self, choice: Any) -> None:
        what, w = choice[:2]
        if what == "hear":
            self.handle(w.to_scheduler.popleft())
        elif what == "order":
            w.feed(w.from_scheduler.popleft())
        elif what == "run":
            w.go_on(choice[2], self.rng)
        else:
            peer, tasks = w.fetches.pop(choice[2])
            there = self.workers[peer].store if peer in self.workers else {}
            if self.unreachable and self.rng.random() < self.unreachable:
                there = {}
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
            self.leave(number)
        self.run()

    # verdicts

    def assert_so_far(self, number: int) -> None:
        """What is there of the results that were wanted is right, and a broken key is behind each error."""
        tasks, wanted = self.graphs[number]
        known: dict[int, Any] = {}
        results = self.results[number]
        assert results == {p: value_of(tasks, p, known) for p in wanted if p in results}
        for position, failure in self.failures[number].items():
            key = tasks[failure.root].key
            assert failure.error == f"error of {key}"
            assert key in self.broken, f"position {position}: {failure}"

    def assert_right(self, number: int) -> None:
        """Each result that was wanted is there and right, or an error that is due is in its place."""
        self.assert_so_far(number)
        assert self.results[number].keys() | self.failures[number].keys() == set(self.graphs[number][1])

    def assert_empty(self) -> None:
        """Nothing is left of graphs that were released."""
        state = self.scheduler.state
        assert (state.tasks, state.graphs) == ({}, {})
        for w in self.workers.values():
            assert not w.store, f"{w.name} still holds {w.store}"
            assert not w.mind.jobs, f"{w.name} still knows {w.mind.jobs}"
            assert not w.mind.slots.batches
            assert not w.stopped
            assert w.mind.slots.available == w.mind.slots.total
        for ws in state.workers.values():
            assert (ws.nbytes, ws.held, ws.occupancy) == (0, 0, 0.0)
            assert not any(ws.assigned.values())


def check_scheduler(state: State, graphs: set[Graph] | None = None) -> None:
    """Check all, or of the tasks only those of the graphs that something happened to."""
    if graphs is None:
        checks.check(state)
        return
    for graph in graphs:
        for ts in graph.tasks:
            checks._check_task(state, ts)
    for worker in state.workers.values():
        checks._check_worker(state, worker)
    checks._check_ready(state)


MORE = [
    {"gpu": True},
    {"resources": {"mem": 1}},
    {"resources": {"mem": 2}, "retries": 1},
    {"pool": "p"},
    {"pool": ["p", "q"]},
    {"workers": "w0", "allow_other_workers": True},
    {"replicate": 2, "job": "etl"},
    {"replicate": "all", "pool": ["p", "q"], "nbytes": 1000, "duration": 0.001},
]


def random_graph(
    rng: random.Random, size: int = 30, annotate: bool = True, more: bool = False
) -> tuple[list[TaskSpec], list[int]]:
    """A random graph in an order that may be submitted; a task's function is its duration.

    With ``more`` it demands devices, pools and resources too.
    """
    tasks: list[TaskSpec] = []
    kinds = ["load", "map", "sum"]
    for i in range(rng.randint(1, size)):
        fan = rng.choice([0, 1, 1, 2, 5]) if i else 0
        deps = sorted(rng.sample(range(i), min(fan, i))) if rng.random() < 0.9 else [i - 1] * bool(i)
        notes: dict[str, Any] | None = None
        if annotate and rng.random() < 0.3:
            usual = [{"retries": 2}, {"executor": "io"}, {"priority": 5}, {"retries": 1, "priority": -2}]
            notes = rng.choice(usual + MORE * more)
        duration = rng.choice([1e-5, 1e-4, 0.01])
        tasks.append(TaskSpec((rng.choice(kinds), i), duration, (), None, deps, notes))  # type: ignore[arg-type]
    used = {d for t in tasks for d in t.dependencies}
    wanted = sorted({i for i in range(len(tasks)) if i not in used} | {i for i in used if rng.random() < 0.1})
    return tasks, wanted


__all__ = ["SimWorker", "World", "random_graph", "value_of"]
