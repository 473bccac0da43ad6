"""A plan for the whole graph when it comes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from hetsched.core.costs import BANDWIDTH, LATENCY, nbytes_of
from hetsched.core.state import TaskState, WorkerState
from hetsched.errors import HetschedError

from .chance import Chance
from .expected import expected_finish, seconds_on, stand_ins, typical_seconds
from .insertion import Place, plan
from .levels import longest_first, upward

__all__ = ["Heft"]

_Levels: TypeAlias = "dict[TaskState, float]"

_RANKS: Final[Mapping[str, Callable[[Iterable[float]], float] | None]] = {"mean": None, "min": min, "max": max}


class Heft:
    """Heterogeneous earliest finish time.

    Tasks are ranked by the length, transfers included, of the longest way from them to an end. In this order each is
    planned where it ends first, in a gap of the plan too. H. Topcuoglu, S. Hariri and M.-Y. Wu, "Performance-effective
    and low-complexity task scheduling for heterogeneous computing", IEEE TPDS 13 (2002). The plan stands, whatever
    really happens; where a worker is not there any more, its tasks go where they are expected to end first.

    ``rank`` says which of a task's times its rank is made of: their "mean", as there, the "min" or the "max". With
    ``search`` so many plans more are made, with all three and then by ranks that chance has changed by up to a fifth,
    and the shortest is kept. If it is ``strict``, no task goes to its worker before those planned there earlier; else a
    worker that would idle begins what is ready.

    It needs durations and sizes, as hints or from earlier runs: without, all tasks look alike.
    """

    name = "heft"
    offers_all = True
    runs_ahead = False

    def __init__(self, rank: str = "mean", search: int = 0, strict: bool = False, seed: int = 0) -> None:
        if rank not in _RANKS:
            raise HetschedError(f"heft ranks by {', '.join(_RANKS)}, not by {rank!r}")
        self._rank = rank
        self._search = search
        self._chance = Chance(seed)
        self._strict = strict
        self._plan: dict[int, str] = {}
        self._turns: dict[tuple[str, str], list[int]] = {}
        """Of each executor of a worker, what is planned there and was not given to it yet, the last first."""

    def order(self, tasks: Sequence[TaskState], workers: Sequence[WorkerState]) -> list[TaskState]:
        """Plan the graph; the order is that of the planned starts."""
        kinds = stand_ins(workers)
        if not workers:
            return longest_first(tasks, self._ranks(tasks, kinds, self._rank))
        machines = [(w, executor) for w in workers for executor in w.capacity.executors]
        best: Mapping[TaskState, Place] = {}
        least = float("inf")
        for ranks in self._tries(tasks, kinds):
            places = _planned(longest_first(tasks, ranks), machines)
            length = max((place.stop for place in places.values()), default=0.0)
            if length < least:
                best, least = places, length
        self._plan.update((ts.id, machines[place.worker][0].id) for ts, place in best.items())
        level = self._ranks(tasks, kinds, self._rank)
        found = sorted(tasks, key=lambda ts: (best[ts].start if ts in best else float("inf"), -level[ts], ts.id))
        for ts in reversed(found if self._strict else ()):
            self._turns.setdefault((self._plan.get(ts.id, ""), ts.needs.executor), []).append(ts.id)
        return found

    def _tries(self, tasks: Sequence[TaskState], kinds: Sequence[tuple[WorkerState, int]]) -> Iterator[_Levels]:
        """The ranks to plan by, one set after another."""
        yield self._ranks(tasks, kinds, self._rank)
        if self._search:
            sets = [self._ranks(tasks, kinds, rank) for rank in _RANKS]
            yield from sets
            for number in range(self._search):
                some = sets[number % len(sets)]
                # Inputs still go before their readers.
                changed = {ts: level * (0.8 + 0.4 * self._chance()) for ts, level in some.items()}
                yield _before_readers(tasks, changed)

    def _ranks(self, tasks: Sequence[TaskState], kinds: Sequence[tuple[WorkerState, int]], rank: str) -> _Levels:
        choose = _RANKS[rank]

        def seconds(ts: TaskState) -> float:
            if choose is None or not kinds:
                return typical_seconds(ts, kinds)
            return choose(seconds_on(ts, worker) for worker, _ in kinds)

        return upward(tasks, seconds, _moving_seconds)

    def expects(self, task: TaskState, worker: WorkerState) -> float:
        """Seconds the task is expected to run there."""
        return seconds_on(task, worker)

    def choose(self, task: TaskState, workers: Sequence[WorkerState]) -> WorkerState | None:
        """Pick the worker of the plan; none while it is another task's turn there."""
        planned = self._plan.get(task.id)
        for worker in workers:
            if worker.id == planned:
                turns = self._turns.get((worker.id, task.needs.executor))
                if turns and task.id in turns:
                    if turns[-1] != task.id:
                        return None
                    turns.pop()
                return worker
        return min(workers, key=lambda w: (expected_finish(task, w), w.nbytes))


def _moving_seconds(ts: TaskState) -> float:
    """Seconds to bring a result from one worker to another."""
    return LATENCY + nbytes_of(ts) / BANDWIDTH


def _before_readers(tasks: Sequence[TaskState], levels: _Levels) -> _Levels:
    """Raise levels where a reader's is higher, so that inputs are planned first."""
    for ts in reversed(tasks):
        levels[ts] = max(levels[ts], max((levels.get(d, 0.0) for d in ts.dependents), default=0.0))
    return levels


def _planned(order: Sequence[TaskState], machines: Sequence[tuple[WorkerState, str]]) -> Mapping[TaskState, Place]:
    """Plan tasks in this order; a machine is an executor of a worker."""

    def seconds(ts: TaskState, m: int) -> float:
        worker, executor = machines[m]
        fits = executor == ts.needs.executor and ts.needs.met_by(worker.id, worker.capacity)
        return seconds_on(ts, worker) if fits else float("inf")

    def moving(ts: TaskState, a: int, b: int) -> float:
        return 0.0 if machines[a][0] is machines[b][0] else _moving_seconds(ts)

    slots = [worker.capacity.executors[executor] for worker, executor in machines]
    free = [w.occupancy / n if w.assigned[e] >= n else 0.0 for (w, e), n in zip(machines, slots, strict=True)]
    return plan(order, lambda ts: ts.dependencies, slots, seconds, moving, free)
