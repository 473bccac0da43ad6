"""What no schedule can beat: lower bounds of the time a workload takes.

*Critical path*: each task by the class of hardware that is fastest for it, one after another. *Area*: the work shared
out among the classes as well as can be, as if it could be cut anywhere; kinds of tasks that take the same times are one
variable of a linear programme. *Combined*: a linear programme with both, in which every task lasts the mean of its
times by the parts of it that each class does (E. Agullo, O. Beaumont, L. Eyraud-Dubois and S. Kumar, "Are static
schedules so bad?", IPDPS 2016). All of them allow tasks to be split, so they hold for every schedule of whole tasks.
*Network*: :mod:`hetsched.sims.crossing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from .linear import Programme
from .model import Machine, Task, Workload

__all__ = ["Bounds", "area", "bounds", "combined", "critical_path", "link_bound", "slots_of"]


class Bounds(NamedTuple):
    """Seconds that no schedule can beat, by what is regarded."""

    critical_path: float
    area: float
    combined: float

    @property
    def best(self) -> float:
        """The largest of them."""
        return max(self)


def bounds(workload: Workload, machines: Sequence[Machine], exact: bool = True) -> Bounds:
    """The bounds of a workload on machines; with ``exact`` False the linear programme of the combined one is left out.

    Raises HetschedError where scipy is not installed and a linear programme is needed.
    """
    slots, speeds = slots_of(machines), _speeds_of(machines)
    path, work = critical_path(workload, slots, speeds), area(workload, slots)
    return Bounds(path, work, combined(workload, slots, speeds) if exact else max(path, work))


def slots_of(machines: Iterable[Machine]) -> dict[str, float]:
    """How many slots of each class there are, faster ones counted as so many more."""
    slots: dict[str, float] = {}
    for machine in machines:
        for executor, count in machine.slots().items():
            kind = machine.class_of(executor)
            slots[kind] = slots.get(kind, 0.0) + count * machine.speed
    return slots


def _speeds_of(machines: Iterable[Machine]) -> dict[str, float]:
    """The speed of the fastest machine with slots of each class."""
    speeds: dict[str, float] = {}
    for machine in machines:
        for executor in machine.slots():
            kind = machine.class_of(executor)
            speeds[kind] = max(speeds.get(kind, 0.0), machine.speed)
    return speeds


def _times(task: Task, slots: Mapping[str, float]) -> dict[str, float]:
    """What a task takes on each of the classes it may run on: those it has a time for, and the one it asks for."""
    if isinstance(task.seconds, int | float):
        kinds: Iterable[str] = [_only_class(task)] if _only_class(task) in slots else slots
        return dict.fromkeys(kinds, float(task.seconds))
    named = [kind for kind in dict.fromkeys((*task.seconds, _only_class(task))) if kind in slots]
    return {kind: float(task.seconds_on(kind)) for kind in named or slots}


def _only_class(task: Task) -> str:
    notes = task.annotations or {}
    return "gpu" if notes.get("gpu") or notes.get("executor") == "gpu" else "cpu"


def critical_path(workload: Workload, slots: Mapping[str, float], speeds: Mapping[str, float] | None = None) -> float:
    """The longest chain, each task on the class that is fastest for it.

    ``speeds`` are those of the fastest machine with slots of each class (None: 1).
    """
    ends: list[float] = []
    for task in workload.tasks:
        start = max((ends[d] for d in task.dependencies), default=0.0)
        ends.append(start + min(_fastest(_times(task, slots), speeds).values()))
    return max(ends, default=0.0)


def _fastest(times: Mapping[str, float], speeds: Mapping[str, float] | None) -> Mapping[str, float]:
    """What a task takes on the fastest machine of each class."""
    return times if speeds is None else {kind: seconds / speeds[kind] for kind, seconds in times.items()}


def area(workload: Workload, slots: Mapping[str, float]) -> float:
    """The time in which all the work could be done if it could be shared out anyhow."""
    kinds: dict[tuple[tuple[str, float], ...], int] = {}
    for task in workload.tasks:
        times = tuple(sorted(_times(task, slots).items()))
        kinds[times] = kinds.get(times, 0) + 1
    if not kinds:
        return 0.0
    if all(len(times) == 1 for times in kinds):
        work: dict[str, float] = {}
        for ((kind, seconds),), count in kinds.items():
            work[kind] = work.get(kind, 0.0) + seconds * count
        return max(work[kind] / slots[kind] for kind in work)
    programme = Programme()
    total = programme.variable(cost=1.0)
    used: dict[str, list[tuple[int, float]]] = {kind: [(total, -count)] for kind, count in slots.items()}
    for times, count in kinds.items():
        parts = [programme.variable() for _ in times]
        programme.equal([(part, 1.0) for part in parts], float(count))
        for part, (kind, seconds) in zip(parts, times, strict=True):
            used[kind].append((part, seconds))
    for terms in used.values():
        programme.at_most(terms, 0.0)
    return programme.minimum()


def combined(workload: Workload, slots: Mapping[str, float], speeds: Mapping[str, float] | None = None) -> float:
    """The bound of both: chains and the sum of the work, in one linear programme of a few rows for each task.

    ``speeds`` are as :func:`critical_path` takes them.
    """
    programme = Programme()
    total = programme.variable(cost=1.0)
    used: dict[str, list[tuple[int, float]]] = {kind: [(total, -count)] for kind, count in slots.items()}
    ends: list[int] = []
    read = {d for task in workload.tasks for d in task.dependencies}
    for position, task in enumerate(workload.tasks):
        times = _times(task, slots)
        parts = {kind: programme.variable() for kind in times}
        programme.equal([(part, 1.0) for part in parts.values()], 1.0)
        end = programme.variable()
        ends.append(end)
        lasts = [(parts[kind], seconds) for kind, seconds in _fastest(times, speeds).items()]
        for start in [[(ends[before], 1.0)] for before in task.dependencies] or [[]]:
            programme.at_most([*start, *lasts, (end, -1.0)], 0.0)
        if position not in read:
            programme.at_most([(end, 1.0), (total, -1.0)], 0.0)
        for kind, seconds in times.items():
            used[kind].append((parts[kind], seconds))
    for terms in used.values():
        programme.at_most(terms, 0.0)
    return programme.minimum()


def link_bound(nbytes: Mapping[str, float], bandwidth: Mapping[str, float]) -> float:
    """The time the busiest link takes for the bytes that must cross it, by its name."""
    return max((nbytes[name] / bandwidth[name] for name in nbytes if bandwidth.get(name)), default=0.0)
