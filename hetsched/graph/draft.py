"""A graph on its way from dask's forms to task specs: columns, one entry per task that is needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hetsched.core.order import order
from hetsched.core.types import Key, TaskSpec
from hetsched.errors import CycleError

__all__ = ["Draft"]


class Draft:
    """Tasks by number: ``deps`` are numbers of others, ``args`` speak of them by their position in ``deps``."""

    __slots__ = ("args", "deps", "funcs", "keys", "kwargs", "notes")

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.funcs: list[Callable[..., Any]] = []
        self.args: list[tuple[Any, ...]] = []
        self.kwargs: list[dict[str, Any] | None] = []
        self.deps: list[Sequence[int]] = []
        self.notes: list[dict[str, Any] | None] = []

    def __len__(self) -> int:
        return len(self.keys)

    def reserve(self, key: Key, note: dict[str, Any] | None) -> int:
        """Give a task its number; what it does is filled in later."""
        number = len(self.keys)
        self.keys.append(key)
        self.funcs.append(_nothing)
        self.args.append(())
        self.kwargs.append(None)
        self.deps.append(())
        self.notes.append(note)
        return number

    def specs(self) -> tuple[list[TaskSpec], list[int]]:
        """Put the tasks into their order; returns them and, for each number, its place in it.

        Raises CycleError, naming keys, where tasks wait for each other.
        """
        deps = self.deps
        try:
            places = order(deps, self._levels())
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
                kwargs[number],
                [place_of[d] for d in deps[number]] if deps[number] else (),
                notes[number],
            )
            for number in places
        ]
        return specs, place_of

    def _levels(self) -> list[float] | None:
        """The priorities, if the tasks differ in them."""
        if not any(note is not None and "priority" in note for note in self.notes):
            return None
        return [_priority(note) for note in self.notes]


def _priority(note: Mapping[str, Any] | None) -> float:
    return float(note.get("priority", 0.0)) if note else 0.0


def _nothing() -> None:
    """Stands for a task that is not read yet."""
