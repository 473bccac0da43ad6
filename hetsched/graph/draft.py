"""A graph on its way from dask's forms to task specs: columns, one entry per task that is needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hetsched.core.order import order
from hetsched.core.types import Key, TaskSpec
from hetsched.errors import CycleError

__all__ = ["Draft"]


class Draft:
    """Tasks by number: ``deps`` are numbers of others, ``args`` speak of them by their position in ``deps``.

    ``kwargs`` and ``notes`` (annotations) hold an entry only for the tasks that have any.
    """

    __slots__ = ("args", "deps", "funcs", "keys", "kwargs", "notes")

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.funcs: list[Callable[..., Any]] = []
        self.args: list[tuple[Any, ...]] = []
        self.deps: list[tuple[int, ...]] = []
        self.kwargs: dict[int, dict[str, Any]] = {}
        self.notes: dict[int, dict[str, Any]] = {}

    def __len__(self) -> int:
        return len(self.keys)

    def specs(self) -> tuple[list[TaskSpec], list[int]]:
        """Put the tasks into their order; returns them and, for each number, its place in it.

        Raises CycleError, naming keys, where tasks wait for each other.
        """
        deps = self.deps
        try:
            places = order(deps, self._levels()) if len(deps) > 1 or any(deps) else [0] * len(deps)
        except CycleError as error:
            keys = self.keys
            raise CycleError([keys[int(str(number))] for number in error.cycle]) from None
        place_of = [0] * len(places)
        for place, number in enumerate(places):
            place_of[number] = place
        keys, funcs, args, kwargs, notes = self.keys, self.funcs, self.args, self.kwargs, self.notes
        specs = [
            TaskSpec(
                keys[number],
                funcs[number],
                args[number],
                kwargs.get(number) if kwargs else None,
                [place_of[d] for d in deps[number]] if deps[number] else (),
                notes.get(number) if notes else None,
            )
            for number in places
        ]
        return specs, place_of

    def _levels(self) -> list[float] | None:
        """The priorities, if any task has one."""
        distinct = {id(note): note for note in self.notes.values()}
        if not any("priority" in note for note in distinct.values()):
            return None
        return [_priority(self.notes.get(number)) for number in range(len(self.keys))]


def _priority(note: Mapping[str, Any] | None) -> float:
    return float(note.get("priority", 0.0)) if note else 0.0
