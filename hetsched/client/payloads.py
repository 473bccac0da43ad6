"""Pickle what tasks call and their arguments: many tasks in one pickle, as long as it is small and by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Any, NamedTuple

from hetsched.comm.columns import Columns, Gathered, is_bare
from hetsched.comm.functions import Function, dump_function
from hetsched.comm.pickling import Pickled, dumps
from hetsched.core.types import EACH, Key, Ref, TaskSpec
from hetsched.worker.plan import OnList

from .sayable import check_carried

__all__ = ["PAYLOAD_BYTES", "PAYLOAD_TASKS", "Frames", "Payload", "Payloads"]

PAYLOAD_TASKS = 256
"""So many tasks at most are in one pickle."""

PAYLOAD_BYTES = 1 << 16
"""A pickle of several tasks has about so many bytes at most, its buffers included."""

_BY_NAME = frozenset({FunctionType, BuiltinFunctionType, type})
_SMALL = frozenset({Ref, int, float, bool, type(None), complex})

Frames = list[Any]
"""Pickles, and buffers beside them."""


class Payload(NamedTuple):
    """A pickle of the arguments of so many tasks, with ``nbytes`` in its frames; ``by_value``: there is code inside."""

    tasks: int
    frames: Frames
    nbytes: int
    by_value: bool


class Payloads:
    """Makes the payloads of one graph. Functions are known by identity: the tasks keep them alive meanwhile."""

    def __init__(self, pickle: int) -> None:
        self._pickle = pickle
        self._functions: dict[int, Function] = {}
        self._on_list: dict[int, OnList] = {}
        self._whole: dict[int, Mapping[str, Any]] = {}
        self._bare: tuple[int, Any, Pickled] | None = None
        """A payload in which one function and one set of annotations is all there is."""
        self._run = PAYLOAD_TASKS
        self._often: Counter[int] | None = None
        """How many tasks of a message have a function, by id; counted where that matters."""

    def gather(self, tasks: Sequence[TaskSpec], first: int) -> tuple[Gathered, list[Function]]:
        """What is pickled of a message's next tasks, as many as are likely to fit, and the functions it speaks of.

        Raises what pickling a function raises, and AnnotationError where an annotation cannot be pickled.
        """
        if not first:
            self._often = None
        known: dict[int, int] = {}
        notes: dict[int, int] = {}
        used: list[Function] = []
        gathered = Gathered()
        every, kwargs = gathered.args, gathered.kwargs
        func: Any = None
        note: Any = None
        place = which = 0
        room = PAYLOAD_BYTES
        each: Any = EACH
        n = alike = 0  # from ``alike`` on, tasks have the same function and annotations
        nearest: list[TaskSpec] = [*tasks[first : first + self._run]]
        for spec in nearest:
            args: Any = spec.args
            if args is not each:
                room -= _known_size(args)
                if room < 0 and n:
                    break
                if not every:
                    every += [None] * n
                every.append(args)
            elif every:
                every.append(None)
            if spec.kwargs:
                kwargs[n] = spec.kwargs
            if not n or spec.func is not func or spec.annotations is not note or place < 0:
                gathered.add(place, which, n - alike)
                alike = n
                func, note = spec.func, spec.annotations
                place = self._place(func, spec.key, known, used, tasks)
                which = self._carried(spec, notes, gathered.notes)
                if place < 0:
                    gathered.own[n] = self._shared(func)
            n += 1
        gathered.add(place, which, n - alike)
        return gathered, used

    def pickled(
        self, gathered: Gathered, lo: int, hi: int, tasks: Sequence[TaskSpec], first: int
    ) -> Iterator[Payload]:
        """Pickle a run: as a whole if it is small and known by name to all, else in pieces.

        Raises what pickling an argument raises, with a note that names the task.
        """
        buffers: list[memoryview] = []
        count = hi - lo
        columns = gathered.columns(lo, hi)
        try:
            data, has_code = self._dump(columns, buffers)
        except Exception as error:  # an argument's own code
            if count == 1:
                error.add_note(f"the arguments of the task {tasks[first + lo].key!r} cannot be sent")
                raise
            data, has_code, buffers = b"", True, []
        nbytes = len(data) + sum(view.nbytes for view in buffers)
        if count > 1 and has_code:
            alone = [payload for n in range(lo, hi) for payload in self.pickled(gathered, n, n + 1, tasks, first)]
            yield from self._together(gathered, lo, alone)
        elif count > 1 and nbytes > 2 * PAYLOAD_BYTES:
            size = max(1, min(count // 2, count * PAYLOAD_BYTES // nbytes))
            self._run = max(size, PAYLOAD_TASKS // 8)
            for start in range(lo, hi, size):
                yield from self.pickled(gathered, start, min(start + size, hi), tasks, first)
        else:
            if nbytes < PAYLOAD_BYTES // 2:
                self._run = min(PAYLOAD_TASKS, 2 * self._run)
            yield Payload(count, [data, *buffers], nbytes, has_code)

    def _shared(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """One and the same object for wrappers of the same function."""
        if type(func) is OnList:
            return self._on_list.setdefault(id(func.func), func)
        return func

    def _place(
        self, func: Any, key: Key, known: dict[int, int], used: list[Function], tasks: Sequence[TaskSpec]
    ) -> int:
        """The place of a function among those used; -1 for one that is better pickled with its one task."""
        func = self._shared(func)
        place = known.get(id(func))
        if place is None:
            if type(func) not in _BY_NAME:
                if self._often is None:
                    self._often = Counter([id(self._shared(spec.func)) for spec in tasks])
                if self._often[id(func)] == 1:
                    return -1
            place = known[id(func)] = len(used)
            used.append(self._function(func, key))
        return place

    def _carried(self, spec: TaskSpec, places: dict[int, int], notes: list[Mapping[str, Any]]) -> int:
        """Annotations for the task to read, whole. Raises AnnotationError where one cannot be pickled."""
        note = spec.annotations
        if not note:
            return 0
        place = places.get(id(note))
        if place is None:
            if id(note) not in self._whole:
                check_carried(spec.key, note, self._pickle)
                self._whole[id(note)] = note
            notes.append(note)
            place = places[id(note)] = len(notes)
        return place

    def _function(self, func: Callable[..., Any], key: Key) -> Function:
        function = self._functions.get(id(func))
        if function is None:
            try:
                function = self._functions[id(func)] = dump_function(func, self._pickle)
            except Exception as error:  # the function's own code
                error.add_note(f"the function of the task {key!r} cannot be sent: {func!r:.200}")
                raise
        return function

    def _dump(self, columns: Columns, buffers: list[memoryview]) -> tuple[bytes, bool]:
        """Pickle columns; those with no arguments are often those of the payload before."""
        if is_bare(columns):
            if self._bare is None or self._bare[0] != columns[0] or self._bare[1] is not columns[5][0]:
                self._bare = columns[0], columns[5][0], dumps(columns, self._pickle, (), buffers)
            pickled = self._bare[2]
        else:
            pickled = dumps(columns, self._pickle, (), buffers)
        return pickled.data, pickled.has_code

    def _together(self, gathered: Gathered, lo: int, alone: list[Payload]) -> Iterator[Payload]:
        """Join small neighbours that are alike: by value, or by name."""
        start = 0
        while start < len(alone):
            by_value = alone[start].by_value
            nbytes = 0
            end = start
            while end < len(alone) and alone[end].by_value is by_value and (end == start or nbytes < PAYLOAD_BYTES):
                nbytes += alone[end].nbytes
                end += 1
            if end == start + 1:
                yield alone[start]
            else:
                buffers: list[memoryview] = []
                data, _, has_code, _ = dumps(gathered.columns(lo + start, lo + end), self._pickle, (), buffers)
                nbytes = len(data) + sum(view.nbytes for view in buffers)
                yield Payload(end - start, [data, *buffers], nbytes, has_code)
            start = end


def _known_size(args: tuple[Any, ...]) -> int:
    """The bytes of arguments that say how many they have."""
    size = 0
    for arg in args:
        kind = type(arg)
        if kind in _SMALL:
            continue
        if kind is str or kind is bytes or kind is bytearray:
            size += len(arg)
        elif kind.__module__ == "numpy":
            size += getattr(arg, "nbytes", 0)
    return size
