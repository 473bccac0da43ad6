"""A graph on its way from dask's forms to task specs: columns, one entry per task that is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hetsched.core.annotations import resolve, varies
from hetsched.core.order import order
from hetsched.core.types import Key, TaskSpec
from hetsched.errors import CycleError

__all__ = ["Draft"]


class Draft:
    """Tasks by number: ``deps`` are numbers of others, ``args`` speak of them by their position in ``deps``.

    ``kwargs`` and ``notes`` (annotations) hold an entry only for the tasks that have any.
    """

    __slots__ = ("_last", "args", "deps", "distinct", "funcs", "keys", "kwargs", "notes", "part_of")

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.funcs: list[Callable[..., Any]] = []
        self.args: list[tuple[Any, ...]] = []
        self.deps: list[tuple[int, ...]] = []
        self.kwargs: dict[int, dict[str, Any]] = {}
        self.notes: dict[int, dict[str, Any]] = {}
        self.distinct: dict[int, dict[str, Any]] = {}
        """All annotations that tasks have, or had, by their id."""
        self._last: dict[str, Any] | None = None
        self.part_of: dict[int, Key] = {}
        """Of tasks that were part of another in the graph, the key of that one."""

    def __len__(self) -> int:
        return len(self.keys)

    def annotate(self, number: int, note: dict[str, Any]) -> None:
        """Give a task its annotations, all of them."""
        self.notes[number] = note
        if note is not self._last:
            self._last = self.distinct[id(note)] = note

    def resolve(self) -> None:
        """Call, with each task's key, what its annotations leave to be called; for a part it is the whole task's.

        Raises AnnotationError, and what is called raises.
        """
        notes = self.notes
        varying = {known for known, note in self.distinct.items() if varies(note)}
        if varying:
            for number, note in [*notes.items()]:
                if id(note) in varying:
                    self.annotate(number, resolve(note, self.part_of.get(number, self.keys[number])))
            for known in varying:
                del self.distinct[known]

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
        if not any("priority" in note for note in self.distinct.values()):
            return None
        of = {known: float(note.get("priority", 0.0)) for known, note in self.distinct.items()}
        levels = [0.0] * len(self.keys)
        for number, note in self.notes.items():
            levels[number] = of[id(note)]
        return levels
