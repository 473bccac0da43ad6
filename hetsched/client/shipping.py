"""From tasks to what goes over the wire: columns of a graph, pickles of functions, and of arguments by the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from types import BuiltinFunctionType, FunctionType
from typing import Any, NamedTuple

from hetsched.comm.functions import Function, dump_function
from hetsched.comm.messages import GraphPart
from hetsched.comm.pickling import PYTHON, dumps
from hetsched.core.types import EACH, Key, Ref, TaskSpec
from hetsched.worker.collector import collector_paused
from hetsched.worker.plan import OnList

from .sayable import check_carried, sayable, sayable_note

__all__ = ["PART_BYTES", "PART_TASKS", "PAYLOAD_BYTES", "PAYLOAD_TASKS", "Part", "parts_of"]

PART_TASKS = 2000
"""So many tasks go out in one message."""

PART_BYTES = 32 * 2**20
"""A message with so many bytes of frames takes no further payload."""

PAYLOAD_TASKS = 256
"""So many tasks at most are in one pickle."""

PAYLOAD_BYTES = 1 << 16
"""A pickle of several tasks has about so many bytes at most, its buffers included."""

_MOST_INPUTS = 50_000  # of all tasks of one message
_BY_NAME = frozenset({FunctionType, BuiltinFunctionType, type})
_SMALL = frozenset({Ref, int, float, bool, type(None), complex})
_PYTHON = f"{PYTHON[0]}.{PYTHON[1]}"

Frames = list[Any]


class Part(NamedTuple):
    """A message without the graph's number, and its frames, which come to ``nbytes``."""

    message: GraphPart
    frames: Frames
    nbytes: int


class _Payload(NamedTuple):
    tasks: int
    frames: Frames
    nbytes: int
    by_value: bool


def parts_of(
    tasks: Sequence[TaskSpec], wanted: Sequence[int], pickle: int, most_bytes: int, urgency: int = 0
) -> Iterator[Part]:
    """Make the messages that say a graph, one after the other, with pickles of a protocol of at most ``pickle``.

    ``wanted`` are positions in rising order; a message's frames have at most ``most_bytes`` unless one task alone has
    more. Raises what pickling a function or an argument raises, with a note that names the task.
    """
    packer = _Packer(pickle, min(PART_BYTES, most_bytes))
    total = len(tasks)
    first = 0
    want = 0
    while first < total:
        count = _count(tasks, first)
        with collector_paused(count):
            part, count = packer.pack(tasks[first : first + count], total, first, urgency)
        upto = want
        while upto < len(wanted) and wanted[upto] < first + count:
            upto += 1
        yield part._replace(message=part.message._replace(wanted=wanted[want:upto]))
        want = upto
        first += count


def _count(tasks: Sequence[TaskSpec], first: int) -> int:
    """How many tasks the next message takes: fewer where they have very many inputs."""
    count = min(PART_TASKS, len(tasks) - first)
    inputs = 0
    for n in range(first, first + count):
        inputs += len(tasks[n].dependencies)
        if inputs > _MOST_INPUTS:
            return max(1, n - first)
    return count


class _Packer:
    """Packs the parts of one graph. Functions are known by identity: the tasks keep them alive meanwhile."""

    def __init__(self, pickle: int, most_bytes: int) -> None:
        self._pickle = pickle
        self._most_bytes = most_bytes
        self._functions: dict[int, Function] = {}
        self._on_list: dict[int, OnList] = {}
        self._notes: dict[tuple[int, bool], dict[str, Any] | None] = {}
        self._whole: dict[int, Mapping[str, Any]] = {}
        self._run = PAYLOAD_TASKS

    def pack(self, tasks: Sequence[TaskSpec], total: int, first: int, urgency: int) -> tuple[Part, int]:
        """Make a message of tasks, or of the first of them; returns it and how many it has."""
        funcs = [self._shared(spec.func) for spec in tasks]
        often = Counter(map(id, funcs))
        functions: dict[bytes, int] = {}
        data: Frames = []
        payloads: list[tuple[int, int, Sequence[int]]] = []
        frames: Frames = []
        values: list[bool] = []
        nbytes = done = 0
        while done < len(tasks) and (not done or nbytes < self._most_bytes):
            count = self._length(tasks, done)
            entries, used, by_value = self._entries(tasks, funcs, often, done, done + count)
            places = []
            for function in used:
                place = functions.setdefault(function.digest, len(data))
                if place == len(data):
                    data.append(function.data)
                    nbytes += len(function.data)
                places.append(place)
            for payload in self._pickled(entries, tasks, done):
                payloads.append((payload.tasks, len(payload.frames), places))
                frames += payload.frames
                nbytes += payload.nbytes
                flags = by_value[len(values) - done :][: payload.tasks]
                values += [True] * payload.tasks if payload.by_value else flags
            done += count
        tasks = tasks[:done] if done < len(tasks) else tasks
        notes, noted = self._noted(tasks, values)
        dependencies = [spec.dependencies for spec in tasks]
        keys = sayable([spec.key for spec in tasks])
        message = GraphPart(
            "", -1, total, first, keys, dependencies, (), notes, noted, tuple(functions), payloads, urgency
        )
        return Part(message, data + frames, nbytes), done

    def _shared(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """One and the same object for wrappers of the same function."""
        if type(func) is OnList:
            return self._on_list.setdefault(id(func.func), func)
        return func

    def _length(self, tasks: Sequence[TaskSpec], first: int) -> int:
        """How many tasks the next payload takes: as many as are likely to fit."""
        room = PAYLOAD_BYTES
        count = 0
        for spec in islice(tasks, first, first + self._run):
            if spec.args is not EACH:
                size = _known_size(spec.args)
                if size:
                    room -= size
                    if room < 0:
                        return max(1, count)
            count += 1
        return count

    def _entries(
        self, tasks: Sequence[TaskSpec], funcs: Sequence[Any], often: Mapping[int, int], first: int, last: int
    ) -> tuple[list[Any], list[Function], list[bool]]:
        """What is pickled of some tasks, the functions it speaks of, and which tasks have a function by value."""
        places: dict[int, int] = {}
        used: list[Function] = []
        entries: list[Any] = []
        by_value: list[bool] = []
        for n in range(first, last):
            spec = tasks[n]
            func = funcs[n]
            args = None if spec.args is EACH else spec.args
            kwargs = spec.kwargs or None
            known = id(func)
            place = places.get(known)
            if place is None:
                if often[known] == 1 and type(func) not in _BY_NAME:
                    entries.append((-1, args, kwargs, func, *self._carried(spec)))
                    by_value.append(False)
                    continue
                place = places[known] = len(used)
                used.append(self._function(func, spec.key))
            note = self._carried(spec)
            entries.append((place, args, kwargs, None, *note) if note else (place, args, kwargs))
            by_value.append(used[place].by_value)
        return entries, used, by_value

    def _carried(self, spec: TaskSpec) -> tuple[Mapping[str, Any], ...]:
        """Annotations for the task to read, whole. Raises AnnotationError where one cannot be pickled."""
        note = spec.annotations
        if not note:
            return ()
        if id(note) not in self._whole:
            check_carried(spec.key, note, self._pickle)
            self._whole[id(note)] = note
        return (note,)

    def _function(self, func: Callable[..., Any], key: Key) -> Function:
        function = self._functions.get(id(func))
        if function is None:
            try:
                function = self._functions[id(func)] = dump_function(func, self._pickle)
            except Exception as error:  # the function's own code
                error.add_note(f"the function of the task {key!r} cannot be sent: {func!r:.200}")
                raise
        return function

    def _pickled(self, entries: list[Any], tasks: Sequence[TaskSpec], first: int) -> Iterator[_Payload]:
        """Pickle a run: as a whole if it is small and known by name to all, else in pieces."""
        buffers: list[memoryview] = []
        try:
            data, _, has_code, _ = dumps(entries, self._pickle, (), buffers)
        except Exception as error:  # an argument's own code
            if len(entries) == 1:
                error.add_note(f"the arguments of the task {tasks[first].key!r} cannot be sent")
                raise
            data, has_code, buffers = b"", True, []
        nbytes = len(data) + sum(view.nbytes for view in buffers)
        if len(entries) > 1 and has_code:
            alone = [payload for n, entry in enumerate(entries) for payload in self._pickled([entry], tasks, first + n)]
            yield from self._together(entries, alone)
        elif len(entries) > 1 and nbytes > 2 * PAYLOAD_BYTES:
            size = max(1, min(len(entries) // 2, len(entries) * PAYLOAD_BYTES // nbytes))
            self._run = max(size, PAYLOAD_TASKS // 8)
            for start in range(0, len(entries), size):
                yield from self._pickled(entries[start : start + size], tasks, first + start)
        else:
            if nbytes < PAYLOAD_BYTES // 2:
                self._run = min(PAYLOAD_TASKS, 2 * self._run)
            yield _Payload(len(entries), [data, *buffers], nbytes, has_code)

    def _together(self, entries: list[Any], alone: list[_Payload]) -> Iterator[_Payload]:
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
                data, _, has_code, _ = dumps(entries[start:end], self._pickle, (), buffers)
                nbytes = len(data) + sum(view.nbytes for view in buffers)
                yield _Payload(end - start, [data, *buffers], nbytes, has_code)
            start = end

    def _noted(self, tasks: Sequence[TaskSpec], values: Sequence[bool]) -> tuple[list[dict[str, Any]], Sequence[int]]:
        notes: list[dict[str, Any]] = []
        places: dict[int, int] = {}
        noted: list[int] = []
        for spec, by_value in zip(tasks, values, strict=True):
            note = spec.annotations
            if not note and not by_value:
                noted.append(0)
                continue
            sent = self._note(spec.key, note or {}, by_value)
            place = places.get(id(sent))
            if place is None:
                notes.append(sent)
                place = places[id(sent)] = len(notes)
            noted.append(place)
        return notes, noted if notes else ()

    def _note(self, key: Key, note: Mapping[str, Any], by_value: bool) -> dict[str, Any]:
        known = (id(note) if note else 0), by_value
        sent = self._notes.get(known)
        if sent is None:
            sent = sayable_note(key, note)
            if by_value:
                sent["python"] = _PYTHON
            self._notes[known] = sent
        return sent


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
