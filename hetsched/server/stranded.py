"""Find tasks that no worker there is could run, and say so once, to those who wait for them and in the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from hetsched.core.explain import what_there_is
from hetsched.core.needs import Needs
from hetsched.core.state import Phase, State, TaskState
from hetsched.core.types import Capacity, ClientId, TaskId, WorkerId

__all__ = ["Plight", "Stranded"]

_MOST_NAMES = 5


class Plight(NamedTuple):
    """Tasks that no worker could run: a sentence that says so, whose they are, and which."""

    sentence: str
    clients: tuple[ClientId, ...]
    tasks: tuple[TaskId, ...]


class Stranded:
    """Remembers since when which demands were not met.

    ``after`` is how long (seconds) that is nobody's business, ``limit`` how long it may last; None: for ever. It lasts
    as long as it takes where a worker has the executor and will have slots again.
    """

    def __init__(self, after: float | None, limit: float | None = None) -> None:
        self._after = after
        self._limit = limit
        self._since: dict[Needs, float] = {}
        self._said: set[Needs] = set()

    def look(self, state: State, now: float) -> tuple[list[Plight], list[TaskId]]:
        """Give what is to be told, once for each demand, and the tasks that have waited as long as they may."""
        workers = state.capacities()
        unmet = [
            needs
            for needs in state.ready
            if not any(needs.met_by(name, capacity) for name, capacity in workers.items())
        ]
        self._since = {needs: self._since.get(needs, now) for needs in unmet}
        self._said.intersection_update(unmet)
        told: list[Plight] = []
        overdue: list[TaskId] = []
        for needs in unmet:
            waited = now - self._since[needs]
            late = self._limit is not None and waited >= self._limit and not _later(needs, workers)
            new = self._after is not None and waited >= self._after and needs not in self._said
            tasks = _ready(state, needs) if late or new else []
            if late:
                overdue += [ts.id for ts in tasks]
            elif new and tasks:
                self._said.add(needs)
                told.append(_plight(needs, tasks, workers))
        return told, overdue

    def standing(self, state: State) -> list[str]:
        """Give a sentence for each demand that was told of and is not met still; for all if none is to be told."""
        workers = state.capacities()
        found = [(needs, _ready(state, needs)) for needs in (self._since if self._after is None else self._said)]
        return sorted(_plight(needs, tasks, workers).sentence for needs, tasks in found if tasks)


def _later(needs: Needs, workers: Mapping[WorkerId, Capacity]) -> bool:
    return any(needs.may_meet(name, capacity) for name, capacity in workers.items())


def _ready(state: State, needs: Needs) -> list[TaskState]:
    found = (state.tasks.get(task) for _, task in state.ready.get(needs, ()))
    tasks = dict.fromkeys(ts for ts in found if ts is not None and ts.phase is Phase.READY and ts.needs is needs)
    return sorted(tasks, key=lambda ts: ts.id)


def _plight(needs: Needs, tasks: list[TaskState], workers: Mapping[WorkerId, Capacity]) -> Plight:
    prefixes = Counter(ts.prefix.name for ts in tasks)
    names = ", ".join(repr(name) for name, _ in prefixes.most_common(_MOST_NAMES))
    names += ", ..." if len(prefixes) > _MOST_NAMES else ""
    who, what = ("a task waits", "it") if len(tasks) == 1 else (f"{len(tasks)} tasks wait", "them")
    sentence = f"{who} for a worker that could run {what} ({names}): {needs.why_nobody(workers)}"
    if workers:
        sentence += f"; {what_there_is(workers)}"
    clients = tuple(dict.fromkeys(ts.graph.client for ts in tasks))
    return Plight(sentence, clients, tuple(ts.id for ts in tasks))
