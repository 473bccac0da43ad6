"""From tasks to what goes over the wire: columns of a graph, pickles of functions, and of arguments by the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Any, NamedTuple

from hetsched.comm.columns import Columns, Gathered, Steady, is_bare
from hetsched.comm.functions import Function, dump_function
from hetsched.comm.messages import GraphPart
from hetsched.comm.pickling import PYTHON, Pickled, dumps
from hetsched.core.needs import PYTHON as BY_VALUE
from hetsched.core.types import EACH, Key, Ref, TaskSpec
from hetsched.detection import wanted
from hetsched.graph.makers import Makers
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

_MOST_INPUTS: int = 50_000  # of all tasks of one message
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
        count = min(PART_TASKS, total - first)
        with collector_paused(count):
            part, count = packer.pack(tasks[first : first + count], total, first, urgency)
        upto = want
        while upto < len(wanted) and wanted[upto] < first + count:
            upto += 1
        yield part._replace(message=part.message._replace(wanted=wanted[want:upto]))
        want = upto
        first += count


def _named(tasks: Sequence[TaskSpec]) -> tuple[list[Key], Sequence[Sequence[int]]]:
    """The keys and dependencies of tasks, or of the first of them, where they have very many inputs."""
    several: list[TaskSpec] = [*tasks]
    keys: list[Key] = [spec.key for spec in several]
    dependencies: list[Sequence[int]] = []
    inputs = 0
    for spec in several:
        needs = spec.dependencies
        if needs:
            inputs += len(needs)
        dependencies.append(needs)
    while inputs > _MOST_INPUTS and len(keys) > 1:
        inputs -= len(dependencies.pop())
        keys.pop()
    return keys, dependencies if inputs else ()


class _Packer:
    """Packs the parts of one graph. Functions are known by identity: the tasks keep them alive meanwhile."""

    def __init__(self, pickle: int, most_bytes: int) -> None:
        self._pickle = pickle
        self._most_bytes = most_bytes
        self._functions: dict[int, Function] = {}
        self._on_list: dict[int, OnList] = {}
        self._notes: dict[tuple[int, bool], dict[str, Any] | None] = {}
        self._whole: dict[int, Mapping[str, Any]] = {}
        self._bare: tuple[int, Any, Pickled] | None = None
        """A payload in which one function and one set of annotations is all there is."""
        self._numbers: dict[int, int] = {}
        self._run = PAYLOAD_TASKS
        self._makers = Makers() if wanted() else None
        self._often: Counter[int] | None = None
        """How many tasks of a message have a function, by id; counted where that matters."""

    def pack(self, tasks: Sequence[TaskSpec], total: int, first: int, urgency: int) -> tuple[Part, int]:
        """Make a message of tasks, or of the first of them; returns it and how many it has."""
        self._often = None
        keys, dependencies = _named(tasks)
        tasks = tasks[: len(keys)] if len(keys) < len(tasks) else tasks
        functions: dict[bytes, int] = {}
        data: Frames = []
        payloads: list[tuple[int, int, Sequence[int]]] = []
        frames: Frames = []
        notes: dict[int, dict[str, Any]] = {}
        noted = Steady()
        nbytes = done = 0
        while done < len(tasks) and (not done or nbytes < self._most_bytes):
            gathered, used = self._gather(tasks, done)
            places = []
            for function in used:
                place = functions.setdefault(function.digest, len(data))
                if place == len(data):
                    data.append(function.data)
                    nbytes += len(function.data)
                places.append(place)
            start = 0
            for payload in self._pickled(gathered, 0, gathered.places.count, tasks, done):
                payloads.append((payload.tasks, len(payload.frames), places))
                frames += payload.frames
                nbytes += payload.nbytes
                self._note_all(gathered, start, payload, used, notes, noted, keys, done)
                start += payload.tasks
            done += start
        if done < len(keys):
            keys, dependencies = keys[:done], dependencies[:done]
        one = noted.part(0, done)
        makers, made_by = ([], []) if self._makers is None else self._makers.take(tasks[:done])
        alike = bool(made_by) and made_by.count(made_by[0]) == done
        message = GraphPart(
            "", -1, total, first, sayable(keys), dependencies, (), [*notes.values()],
            () if not notes else [one] if isinstance(one, int) else one, tuple(functions), payloads, urgency,
            (), makers, made_by[:1] if alike else made_by,
        )  # fmt: skip
        return Part(message, data + frames, nbytes), done

    def _shared(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """One and the same object for wrappers of the same function."""
        if type(func) is OnList:
            return self._on_list.setdefault(id(func.func), func)
        return func

    def _gather(self, tasks: Sequence[TaskSpec], first: int) -> tuple[Gathered, list[Function]]:
        """What is pickled of the next tasks, as many as are likely to fit, and the functions it speaks of."""
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

    def _pickled(
        self, gathered: Gathered, lo: int, hi: int, tasks: Sequence[TaskSpec], first: int
    ) -> Iterator[_Payload]:
        """Pickle a run: as a whole if it is small and known by name to all, else in pieces."""
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
            alone = [payload for n in range(lo, hi) for payload in self._pickled(gathered, n, n + 1, tasks, first)]
            yield from self._together(gathered, lo, alone)
        elif count > 1 and nbytes > 2 * PAYLOAD_BYTES:
            size = max(1, min(count // 2, count * PAYLOAD_BYTES // nbytes))
            self._run = max(size, PAYLOAD_TASKS // 8)
            for start in range(lo, hi, size):
                yield from self._pickled(gathered, start, min(start + size, hi), tasks, first)
        else:
            if nbytes < PAYLOAD_BYTES // 2:
                self._run = min(PAYLOAD_TASKS, 2 * self._run)
            yield _Payload(count, [data, *buffers], nbytes, has_code)

    def _dump(self, columns: Columns, buffers: list[memoryview]) -> tuple[bytes, bool]:
        """Pickle columns; those with no arguments are often those of the payload before."""
        if is_bare(columns):
            if self._bare is None or self._bare[0] != columns[0] or self._bare[1] is not columns[5][0]:
                self._bare = columns[0], columns[5][0], dumps(columns, self._pickle, (), buffers)
            pickled = self._bare[2]
        else:
            pickled = dumps(columns, self._pickle, (), buffers)
        return pickled.data, pickled.has_code

    def _together(self, gathered: Gathered, lo: int, alone: list[_Payload]) -> Iterator[_Payload]:
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
                yield _Payload(end - start, [data, *buffers], nbytes, has_code)
            start = end

    def _note_all(
        self, gathered: Gathered, start: int, payload: _Payload, used: list[Function],
        notes: dict[int, dict[str, Any]], noted: Steady, keys: Sequence[Key], done: int,
    ) -> None:  # fmt: skip
        """Say to the scheduler what the tasks of a payload are annotated with, and which have code inside."""
        many = 1 if gathered.places.many is None and gathered.noted.many is None else payload.tasks
        for n in range(start, start + many):
            place = gathered.places.at(n)
            which = gathered.noted.at(n)
            by_value = payload.by_value or (place >= 0 and used[place].by_value)
            number = 0
            if which or by_value:
                sent = self._note(keys[done + n], gathered.notes[which - 1] if which else {}, by_value)
                if id(sent) not in notes:
                    notes[id(sent)] = sent
                    self._numbers[id(sent)] = len(notes)
                number = self._numbers[id(sent)]
            noted.add(number, payload.tasks if many == 1 else 1)

    def _note(self, key: Key, note: Mapping[str, Any], by_value: bool) -> dict[str, Any]:
        known = (id(note) if note else 0), by_value
        sent = self._notes.get(known)
        if sent is None:
            sent = sayable_note(key, note)
            if by_value:
                sent[BY_VALUE] = _PYTHON
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
