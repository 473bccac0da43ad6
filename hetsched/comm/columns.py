"""What is in a payload: the functions, arguments and annotations of consecutive tasks, column by column.

A pickle of columns is smaller than one of rows, and made in less time: most columns are one value for all tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

__all__ = ["Columns", "Gathered", "Steady", "annotations_at", "call_at", "is_bare"]

Columns: TypeAlias = "tuple[Any, Any, Any, Any, Any, Any]"
"""``(places, args, kwargs, own, noted, notes)``.

``places`` in the payload's functions, -1 for a task with a function of its ``own``; ``args`` are tuples, None for all
dependencies in order; ``noted`` is one more than the place in ``notes``, 0 for none. Each of these is a list, or one
value that holds for all tasks (None for ``args``). ``kwargs`` and ``own`` have, by place, those of the tasks that have
any.
"""


class Steady:
    """A column of small numbers that is one value for all tasks more often than not."""

    __slots__ = ("count", "many", "value")

    def __init__(self) -> None:
        self.count = 0
        self.value = 0
        self.many: list[int] | None = None
        """The numbers, where they are not all ``value``."""

    def add(self, value: int, count: int) -> None:
        """Add one number for the next tasks."""
        if self.many is not None:
            self.many += [value] * count
        elif not self.count:
            self.value = value
        elif value != self.value:
            self.many = [self.value] * self.count + [value] * count
        self.count += count

    def at(self, place: int) -> int:
        """The number of a task."""
        return self.value if self.many is None else self.many[place]

    def part(self, first: int, last: int) -> Any:
        """Those of some tasks: a list, or the one number that they have."""
        if self.many is None:
            return self.value
        values = self.many[first:last]
        same = values[0]
        return same if values.count(same) == len(values) else values


class Gathered:
    """Consecutive tasks of a graph on their way into payloads."""

    __slots__ = ("args", "kwargs", "noted", "notes", "own", "places")

    def __init__(self) -> None:
        self.places = Steady()
        self.args: list[tuple[Any, ...] | None] = []
        """Empty where there are none but None."""
        self.kwargs: dict[int, dict[str, Any]] = {}
        self.own: dict[int, Any] = {}
        self.noted = Steady()
        self.notes: list[Mapping[str, Any]] = []

    def add(self, place: int, note: int, count: int) -> None:
        """Add tasks that have the same function and annotations."""
        if count:
            self.places.add(place, count)
            self.noted.add(note, count)

    def columns(self, first: int, last: int) -> Columns:
        """The columns of the tasks from ``first`` up to, and without, ``last``."""
        args = self.args[first:last] if self.args else ()
        noted, notes = self._notes(first, last)
        return (
            self.places.part(first, last),
            args if args.count(None) < len(args) else None,
            _within(self.kwargs, first, last) if self.kwargs else None,
            _within(self.own, first, last) if self.own else None,
            noted,
            notes,
        )

    def _notes(self, first: int, last: int) -> tuple[Any, Sequence[Mapping[str, Any]]]:
        noted = self.noted.part(first, last)
        if isinstance(noted, int):
            return (1, self.notes[noted - 1 : noted]) if noted else (0, ())
        if len(noted) == self.noted.count:
            return noted, self.notes
        places = {which: place for place, which in enumerate(sorted({0, *noted}))}
        return [places[which] for which in noted], [self.notes[which - 1] for which in places if which]


def is_bare(columns: Columns) -> bool:
    """Whether these are tasks without arguments of their own, of one function and with one set of annotations."""
    places, args, kwargs, own, noted, notes = columns
    return args is None and kwargs is None and own is None and isinstance(places, int) and noted == 1 and bool(notes)


def _within(values: dict[int, Any], first: int, last: int) -> dict[int, Any] | None:
    return {n - first: value for n, value in values.items() if first <= n < last} or None


def call_at(columns: Columns, place: int) -> tuple[int, Any, Any, Any]:
    """``(place among the functions, args, kwargs, own function)`` of one of its tasks."""
    places, args, kwargs, own = columns[:4]
    which: int = places if type(places) is int else places[place]
    return (
        which,
        None if args is None else args[place],
        kwargs.get(place) if kwargs else None,
        own[place] if which < 0 else None,
    )


def annotations_at(columns: Columns, place: int) -> dict[str, Any] | None:
    """The annotations of one of its tasks, None for none."""
    noted: Any = columns[4]
    which: int = noted if type(noted) is int else noted[place]
    notes: Sequence[dict[str, Any]] = columns[5]
    return notes[which - 1] if which else None
