"""What the scheduler knows of one worker, one pool, one task, one graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from .commands import KeysFailed
from .links import LinkTable
from .makers import Maker
from .needs import Needs
from .phases import Phase
from .prefixes import TaskPrefix
from .stories import Stories
from .types import MOST_AHEAD, Capacity, ClientId, Key, TaskId, TaskSpec, WorkerId

__all__ = ["NOBODY", "Graph", "Pool", "TaskState", "WorkerState"]


class WorkerState:
    """A worker as the scheduler sees it."""

    __slots__ = (
        "alone", "assigned", "capacity", "claimed", "claims", "coming", "copying", "fetching", "guessed", "held", "id",
        "links", "nbytes", "occupancy",
    )  # fmt: skip

    def __init__(self, id: WorkerId, capacity: Capacity) -> None:  # noqa: A002 - the noun of the wire
        self.id = id
        self.capacity = capacity
        self.alone: tuple[WorkerState, ...] = (self,)
        """The holders of a result that only this worker has: one tuple for all such results."""
        self.assigned: dict[str, int] = dict.fromkeys(capacity.executors, 0)
        self.held = 0
        self.links: LinkTable | None = None
        """What is known of the links to its pool, None where all transfers are taken to be alike."""
        self.nbytes = 0
        self.occupancy = 0.0
        """Estimated seconds of the work it was told to do."""
        self.claims = 0
        """How many of the tasks it was told to run demand resources."""
        self.claimed: dict[str, float] = {}
        """What those demand together; empty if there are none."""
        self.coming = 0
        """Bytes that the results of the tasks it was told to run are expected to have."""
        self.fetching: dict[TaskState, int] = {}
        """Results it has not got and that it brings from others, with how many of the tasks it has read each."""
        self.guessed: dict[TaskPrefix, dict[TaskState, None]] = {}
        """Tasks it was told to run while none of their kind had been measured, by their kind."""
        self.copying: dict[TaskId, WorkerState | None] | None = None
        """Of a worker that is retiring, results only it holds, or held, with who was asked to copy each."""

    def room_for(self, executor: str) -> int:
        """How many more tasks it wants to be given for this executor."""
        if self.copying is not None:
            return 0
        capacity = self.capacity
        slots = capacity.executors.get(executor, 0)
        if not slots:
            return 0
        if not capacity.window:
            return 1 << 40
        given = self.assigned.get(executor, 0)
        few = self.occupancy < slots * capacity.ahead
        return slots * (MOST_AHEAD if few else capacity.window) - given

    def gets(self, ts: TaskState) -> bool:
        """Whether it holds a result, is making it, or was given a task that has it bring the result."""
        return self in ts.who_has or ts.processing_on is self or ts in self.fetching

    def forget_guess(self, ts: TaskState) -> None:
        """What is expected of a task is no guess any more, or nothing is."""
        same = self.guessed.get(ts.prefix)
        if same is not None:
            same.pop(ts, None)
            if not same:
                del self.guessed[ts.prefix]

    def drop_plans_for(self, ts: TaskState) -> None:
        """Take note that a task it was told to run has run, or is taken away: nothing is brought for it any more."""
        if self.guessed:
            self.forget_guess(ts)
        fetching = self.fetching
        if not fetching:
            return
        fetching.pop(ts, None)
        for d in ts.dependencies:
            readers = fetching.get(d, 0)
            if readers > 1:
                fetching[d] = readers - 1
            elif readers:
                del fetching[d]

    def __repr__(self) -> str:
        return f"<WorkerState {self.id!r}>"


class Pool:
    """A named set of workers behind a link."""

    __slots__ = ("members", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.members: dict[WorkerId, WorkerState] = {}


class TaskState:
    """A task as the scheduler sees it."""

    __slots__ = (
        "attempt", "cuda_nbytes", "dependencies", "dependents", "estimate", "expected", "forgets", "graph", "id",
        "losses", "nbytes", "needs", "phase", "prefix", "processing_on", "rank", "retries_left", "spec", "unplaced",
        "users", "waiting_on", "waits_until", "wanted", "who_has",
    )  # fmt: skip

    def __init__(self, id: TaskId, spec: TaskSpec, graph: Graph, prefix: TaskPrefix, needs: Needs, rank: int) -> None:  # noqa: A002
        self.id = id
        self.spec = spec
        self.graph = graph
        self.prefix = prefix
        self.needs = needs
        self.rank = rank
        self.phase = Phase.WAITING
        self.dependencies: list[TaskState] = NOBODY
        self.dependents: list[TaskState] = NOBODY
        self.waiting_on = 0
        """How many inputs are not in memory."""
        self.unplaced = 0
        """How many inputs are neither in memory nor assigned."""
        self.users = 0
        """How many will still read the result: dependents that have not run, and the client if it wants it."""
        self.who_has: tuple[WorkerState, ...] = ()
        self.processing_on: WorkerState | None = None
        self.wanted = False
        self.forgets = False
        """The worker drops the result by itself when its dependents, all assigned there, have read it."""
        self.nbytes = 0
        self.cuda_nbytes = 0
        self.estimate = 0.0
        self.expected = 0
        """Bytes its result is expected to have, as long as a worker is to make it."""
        self.retries_left = needs.retries
        self.losses = 0
        self.waits_until = 0.0
        """How long, at most, it waits for a worker that has no room; 0: it has not waited for one."""
        self.attempt = 0

    @property
    def key(self) -> Key:
        """What the person calls it."""
        return self.spec.key

    @property
    def annotations(self) -> Mapping[str, Any]:
        """Its annotations, possibly none."""
        return self.spec.annotations or {}

    @property
    def executor(self) -> str:
        """The executor it takes a slot of."""
        return self.needs.executor

    @property
    def pool(self) -> tuple[str, ...] | None:
        """The pools it may run in, None for any."""
        return self.needs.pools

    @property
    def provenance(self) -> str | None:
        """Where it was built, if that was recorded."""
        value = self.annotations.get("provenance")
        return value if isinstance(value, str) else None

    @property
    def title(self) -> str:
        """Its key, and where it was built, for messages to people."""
        built = self.provenance
        return f"{self.key!r} (built at {built})" if built else repr(self.key)

    def __repr__(self) -> str:
        return f"<TaskState {self.key!r} {self.phase.name}>"

    @property
    def story(self) -> list[tuple[float, Phase, str]]:
        """The task's life: when it came to which phase, and why. Looked up in the graph's log, which takes a while."""
        graph = self.graph
        if graph.stories is None:
            graph.stories = Stories()
        return [(now, phase, cause) for now, phase, cause, _ in graph.stories.about(self, graph.log)]

    def tell_story(self) -> str:
        """The task's life in one line, for error messages."""
        return "; ".join(f"{now:.6f} {phase.name} ({cause})" for now, phase, cause in self.story)


NOBODY: Final[list[TaskState]] = []
"""No tasks; shared by all that have no dependencies or no dependents, so nothing is ever put into it."""


class Graph:
    """One submitted graph: its own name space."""

    __slots__ = (
        "base", "client", "failure", "kinds", "left", "log", "makers", "near", "needs", "number", "readers", "reads",
        "stories", "tasks", "total", "urgency", "wanted",
    )  # fmt: skip

    def __init__(
        self, client: ClientId, number: int, base: TaskId, wanted: Iterable[int], total: int, urgency: int = 0
    ) -> None:
        self.client = client
        self.number = number
        self.base = base
        self.total = total
        """How many tasks it has, those to come included."""
        self.urgency = urgency
        self.tasks: list[TaskState] = []
        self.reads: dict[Graph, None] = {}
        """Other graphs whose results its tasks read."""
        self.readers: dict[Graph, None] = {}
        """Other graphs whose tasks read results of this one: while there are any, it stays to be made again."""
        self.left = False
        """Its client is done with it."""
        self.failure: KeysFailed | None = None
        """The last failure told of it: tasks still to come may need what failed."""
        self.needs: dict[Needs, TaskState] = {}
        """What its tasks demand, each with the first task that does."""
        self.wanted: dict[int, None] = dict.fromkeys(wanted)
        self.makers: list[Maker] = []
        self.kinds: list[dict[TaskPrefix, TaskPrefix]] = []
        """For each function its tasks call, the kinds of its tasks by their prefix."""
        self.near: set[int] = set()
        """The positions of tasks among whose arguments something on a device was found."""
        self.log: list[tuple[float, Phase, str, Sequence[TaskState]]] = []
        """The stories of its tasks, an entry per change and not per task, since most changes are many tasks'."""
        self.stories: Stories | None = None
        """Looks into the log, once somebody has asked."""

    @property
    def open(self) -> bool:
        """Whether tasks of it are still to come, which may read any result."""
        return len(self.tasks) < self.total
