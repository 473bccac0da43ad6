"""From tasks to what goes over the wire: columns of a graph, its payloads, and what the scheduler reads of tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hetsched.comm.columns import Gathered, Steady
from hetsched.comm.functions import Function
from hetsched.comm.messages import GraphPart
from hetsched.comm.pickling import PYTHON
from hetsched.core.needs import PYTHON as BY_VALUE
from hetsched.core.types import Key, TaskSpec
from hetsched.detection import wanted
from hetsched.graph.makers import Makers
from hetsched.worker.collector import collector_paused

from .payloads import Frames, Payload, Payloads
from .sayable import sayable, sayable_note

__all__ = ["PART_BYTES", "PART_TASKS", "Part", "parts_of"]

PART_TASKS = 2000
"""So many tasks go out in one message."""

PART_BYTES = 32 * 2**20
"""A message with so many bytes of frames takes no further payload."""

_MOST_INPUTS: int = 50_000  # of all tasks of one message
_PYTHON = f"{PYTHON[0]}.{PYTHON[1]}"


class Part(NamedTuple):
    """A message without the graph's number, and its frames, which come to ``nbytes``."""

    message: GraphPart
    frames: Frames
    nbytes: int


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
    """Packs the parts of one graph. Annotations are known by identity: the tasks keep them alive meanwhile."""

    def __init__(self, pickle: int, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._payloads = Payloads(pickle)
        self._notes: dict[tuple[int, bool], dict[str, Any] | None] = {}
        self._numbers: dict[int, int] = {}
        self._makers = Makers() if wanted() else None

    def pack(self, tasks: Sequence[TaskSpec], total: int, first: int, urgency: int) -> tuple[Part, int]:
        """Make a message of tasks, or of the first of them; returns it and how many it has."""
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
            gathered, used = self._payloads.gather(tasks, done)
            places = []
            for function in used:
                place = functions.setdefault(function.digest, len(data))
                if place == len(data):
                    data.append(function.data)
                    nbytes += len(function.data)
                places.append(place)
            start = 0
            for payload in self._payloads.pickled(gathered, 0, gathered.places.count, tasks, done):
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

    def _note_all(
        self, gathered: Gathered, start: int, payload: Payload, used: list[Function],
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
