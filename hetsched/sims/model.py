"""What is simulated: tasks with what they truly take, machines, a network, and what the scheduler is told of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from hetsched.core.order import order
from hetsched.core.types import Key, prefix_of
from hetsched.errors import HetschedError

__all__ = ["Knowledge", "Machine", "Noise", "ServerCost", "Submission", "Task", "Workload"]

Knowledge: TypeAlias = Literal["exact", "user", "mean", "blind", "learned"]
"""What the scheduler knows of durations and sizes: the truth, what a person said, the truth's mean over the kind of
task, nothing at all, or what it has measured so far (the shipping estimator)."""

_NOTHING: Final[Mapping[str, Any]] = {}


class Task:
    """One task: its key, the positions it reads, the seconds it truly takes, the bytes of its result.

    ``seconds`` is one number, or a number for each class of hardware, ``{"cpu": 5.0, "gpu": 0.5}``. ``annotations`` are
    what the person wrote. ``hints`` are the person's own ``(seconds, nbytes)``, for the knowledge "user". ``outputs``
    are the bytes of its parts where different readers read different ones (else empty), and ``parts`` says which part
    of each dependency is read (empty: the whole). ``cuda_nbytes`` are the bytes of its result on a device (None: all of
    them if it ran on one).
    """

    __slots__ = (
        "annotations", "cuda_nbytes", "dependencies", "hints", "key", "nbytes", "outputs", "parts", "seconds",
    )  # fmt: skip

    def __init__(
        self,
        key: Key,
        dependencies: Sequence[int] = (),
        seconds: float | Mapping[str, float] = 0.0,
        nbytes: int = 0,
        annotations: Mapping[str, Any] | None = None,
        hints: tuple[float, int] | None = None,
        outputs: Sequence[int] = (),
        parts: Sequence[int] = (),
        cuda_nbytes: int | None = None,
    ) -> None:
        self.key = key
        self.dependencies = dependencies
        self.seconds = seconds
        self.nbytes = nbytes
        self.annotations = annotations
        self.hints = hints
        self.outputs = outputs
        self.parts = parts
        self.cuda_nbytes = cuda_nbytes

    def on_device(self, executor: str) -> int:
        """The bytes of its result that are on a device after a run on this executor."""
        if self.cuda_nbytes is None:
            return self.nbytes if executor == "gpu" else 0
        return self.cuda_nbytes

    @property
    def is_gpu_task(self) -> bool:
        """Whether a device does it sooner than anything else."""
        seconds = self.seconds
        if isinstance(seconds, int | float) or "gpu" not in seconds:
            return False
        return all(seconds["gpu"] < other for kind, other in seconds.items() if kind != "gpu")

    def seconds_on(self, kind: str) -> float:
        """Seconds it takes on a class of hardware; the first class named stands for those that are not."""
        seconds = self.seconds
        if type(seconds) is float:  # only to be quick
            return seconds
        if isinstance(seconds, int | float):
            return seconds
        found = seconds.get(kind)
        return next(iter(seconds.values()), 0.0) if found is None else found

    def __repr__(self) -> str:
        return f"Task({self.key!r}, {list(self.dependencies)}, {self.seconds!r}, {self.nbytes})"


@dataclass(slots=True)
class Workload:
    """Tasks, each after all it reads, and the positions that are wanted (None: those that nobody reads)."""

    name: str
    tasks: list[Task]
    wanted: list[int] | None = None

    def goals(self) -> list[int]:
        """The positions whose results the client wants."""
        if self.wanted is not None:
            return self.wanted
        read = {d for task in self.tasks for d in task.dependencies}
        return [position for position in range(len(self.tasks)) if position not in read]

    def in_order(self) -> Workload:
        """The same tasks in the order a client would submit them: that of :func:`hetsched.core.order.order`."""
        tasks = self.tasks
        levels = [float((t.annotations or _NOTHING).get("priority", 0.0)) for t in tasks]
        places = order([t.dependencies for t in tasks], levels if any(levels) else None)
        where = [0] * len(tasks)
        for place, position in enumerate(places):
            where[position] = place
        moved = []
        for position in places:
            t = tasks[position]
            deps = [where[d] for d in t.dependencies]
            notes = t.annotations
            moved.append(Task(t.key, deps, t.seconds, t.nbytes, notes, t.hints, t.outputs, t.parts, t.cuda_nbytes))
        return Workload(self.name, moved, sorted(where[position] for position in self.goals()))

    def split(self) -> Workload:
        """The same work without parts: a task for each part that is read, which takes no time, as ``getitem`` would."""
        tasks: list[Task] = []
        place: list[int] = []
        parts: dict[tuple[int, int], int] = {}
        for position, t in enumerate(self.tasks):
            wants = [(d, t.parts[n] if t.parts else -1) for n, d in enumerate(t.dependencies)]
            deps = list(dict.fromkeys(parts[d, part] if part >= 0 else place[d] for d, part in wants))
            place.append(len(tasks))
            many = len(t.outputs) > 1
            nbytes = sum(t.outputs) if t.outputs else t.nbytes
            tasks.append(Task(t.key, deps, t.seconds, nbytes, t.annotations, t.hints, cuda_nbytes=t.cuda_nbytes))
            for number, size in enumerate(t.outputs):
                parts[position, number] = place[position]
                if many:
                    parts[position, number] = len(tasks)
                    kind = f"part-of-{prefix_of(t.key)}"
                    tasks.append(Task((kind, position, number), [place[position]], 0.0, size))
        return Workload(self.name, tasks, None if self.wanted is None else [place[p] for p in self.wanted])


@dataclass(frozen=True, slots=True)
class Machine:
    """One worker: what it announces, how fast it truly is, and when it comes and goes.

    ``classes`` says which of a task's durations an executor takes (``{"cpu": "gpu"}``: its CPU slots are as fast as
    devices); without it ``gpu`` is of class gpu and all else of class cpu. ``memory`` and ``disk`` are bytes (0: any).
    ``bandwidth`` is that of its own link in bytes per second, each way (None: the network's), and ``pcie`` that of the
    bus between its devices and the host (0: crossing it takes no time). ``delay`` is what a message to or from the
    scheduler takes, in seconds (None: the scenario's).
    """

    name: str
    cpus: int = 1
    gpus: int = 0
    pool: str | None = None
    speed: float = 1.0
    memory: int = 0
    disk: int = 0
    resources: Mapping[str, float] = field(default_factory=dict)
    executors: Mapping[str, int] = field(default_factory=dict)
    classes: Mapping[str, str] = field(default_factory=dict)
    bandwidth: float | None = None
    pcie: float = 0.0
    delay: float | None = None
    window: int = 2
    ahead: float = 0.05
    arrives: float = 0.0
    retires: float | None = None

    def slots(self) -> dict[str, int]:
        """The slots of each executor."""
        found = {"cpu": self.cpus} if self.cpus else {}
        if self.gpus:
            found["gpu"] = self.gpus
        return {**found, **self.executors}

    def all_resources(self) -> dict[str, float]:
        """The resources, devices among them."""
        return {**({"GPU": float(self.gpus)} if self.gpus else {}), **self.resources}

    def class_of(self, executor: str) -> str:
        """The class of hardware that an executor is."""
        return self.classes.get(executor) or ("gpu" if executor == "gpu" else "cpu")


@dataclass(frozen=True, slots=True)
class Noise:
    """How durations scatter: a lognormal factor of mean 1, and now and then a straggler.

    The factor depends on the seed, the task and the attempt alone, so that two policies meet the same fate.
    """

    sigma: float = 0.0
    straggler_chance: float = 0.0
    straggler_factor: float = 5.0

    def __post_init__(self) -> None:
        if not 0 <= self.straggler_chance <= 1:
            raise HetschedError(f"noise has straggler_chance = {self.straggler_chance!r}; a chance is from 0 to 1")


@dataclass(frozen=True, slots=True)
class ServerCost:
    """Seconds the scheduler's process is busy: for each event, and for what comes of it.

    ``task`` is for each task that the event or its orders name, ``transition`` for each change of a task's phase.
    """

    event: float = 0.0
    task: float = 0.0
    transition: float = 0.0


@dataclass(frozen=True, slots=True)
class Submission:
    """A workload that a client submits at a time, and may give up later. With ``ordered`` it comes as it is."""

    workload: Workload
    at: float = 0.0
    ordered: bool = False
    urgency: int = 0
    cancelled: float | None = None
