"""What tasks run, as bytes: pickles of functions and arguments, on their way to the workers that need them.

A scheduler keeps them while a task speaks of them, hands them on, and never looks inside.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn
from weakref import WeakValueDictionary

from hetsched.core.commands import RunTask
from hetsched.core.events import GraphExtended, GraphSubmitted
from hetsched.core.types import TaskSpec
from hetsched.errors import ProtocolError

from .digests import digest_of
from .messages import GraphPart, OrderRow, Orders, PayloadsDropped

__all__ = ["Code", "Depot", "Payload", "Supplies"]

_SMALL = 1 << 63


class Code:
    """A function's pickle, named by its digest."""

    __slots__ = ("__weakref__", "_gone", "data", "digest")

    def __init__(self, digest: bytes, data: Any, gone: deque[Any]) -> None:
        self.digest = digest
        self.data = data
        self._gone = gone

    def __del__(self) -> None:
        self._gone.append(self.digest)


class Payload:
    """The functions and arguments of some consecutive tasks of a graph."""

    __slots__ = ("_gone", "code", "frames", "number")

    def __init__(self, number: int, frames: Sequence[Any], code: Sequence[Code], gone: deque[Any]) -> None:
        self.number = number
        self.frames = frames
        self.code = code
        self._gone = gone

    def __del__(self) -> None:
        self._gone.append(self.number)


class Depot:
    """All payloads of a scheduler. They go when the last task that speaks of them has."""

    def __init__(self) -> None:
        self._next = 0
        self._code: WeakValueDictionary[bytes, Code] = WeakValueDictionary()
        self._gone: deque[Any] = deque()

    def take(self, part: GraphPart, frames: Iterator[Any]) -> GraphSubmitted | GraphExtended:
        """Make the scheduler's event of a part and its frames.

        Raises ProtocolError where the columns do not fit each other, and for a function that is not the one its digest
        names, which others may have sent.
        """
        count = len(part.keys)
        if len(part.dependencies) not in (0, count) or len(part.noted) not in (0, 1, count):
            raise ProtocolError("the columns of a graph differ in length")
        if sum(tasks for tasks, _, _ in part.payloads) != count or any(tasks < 1 for tasks, _, _ in part.payloads):
            raise ProtocolError("the payloads of a graph do not fit its tasks")
        if any(not 0 <= n <= len(part.notes) for n in part.noted):
            raise ProtocolError("a task has annotations that are not there")
        code = [self._keep(digest, next(frames, None)) for digest in part.functions]
        tasks: list[TaskSpec] = []
        keys, dependencies = part.keys, part.dependencies or [()] * count
        notes: list[Mapping[str, Any] | None] = [None, *part.notes]
        noted = part.noted if len(part.noted) != 1 else [part.noted[0]] * count
        for size, frame_count, used in part.payloads:
            if any(not 0 <= n < len(code) for n in used):
                raise ProtocolError("a payload has functions that are not there")
            own = [frame for _, frame in zip(range(frame_count), frames, strict=False)]
            if len(own) != frame_count or not own:
                raise ProtocolError("a payload has no frames")
            payload = Payload(self._next, own, tuple(code[n] for n in used), self._gone)
            self._next += 1
            position = len(tasks)
            for place in range(size):
                note = notes[noted[position]] if noted else None
                spec = TaskSpec(keys[position], _not_here, (payload, place), None, dependencies[position], note)
                tasks.append(spec)
                position += 1
        made_by = part.made_by if len(part.made_by) != 1 else [part.made_by[0]] * count
        if part.first:
            return GraphExtended(part.client, part.graph, tasks, part.wanted, part.makers, made_by)
        return GraphSubmitted(
            part.client, part.graph, tasks, part.wanted, part.urgency, None, part.externals, part.total, part.makers,
            made_by,
        )

    def _keep(self, digest: bytes, data: Any) -> Code:
        if data is None:
            raise ProtocolError("a function has no frame")
        if digest_of(data) != digest:
            raise ProtocolError("a function came under a digest that is not its own")
        known = self._code.get(digest)
        if known is None:
            known = self._code[digest] = Code(digest, data, self._gone)
        return known

    def gone(self) -> list[int | bytes]:
        """Take the numbers of payloads and the digests of functions that no task speaks of any more."""
        found: list[int | bytes] = []
        while self._gone:
            found.append(self._gone.popleft())
        return found


class Supplies:
    """What one worker has been sent."""

    __slots__ = ("_code", "_payloads")

    def __init__(self) -> None:
        self._code: set[bytes] = set()
        self._payloads: set[int] = set()

    def orders(self, worker: str, tasks: Sequence[RunTask], addresses: Mapping[str, str]) -> tuple[Orders, list[Any]]:
        """Say what to run, and add what the worker has not got yet: the message and its frames."""
        rows: list[OrderRow] = []
        functions: list[bytes] = []
        code_frames: list[Any] = []
        payloads: list[tuple[int, int, tuple[bytes, ...]]] = []
        frames: list[Any] = []
        known = self._payloads
        for task, rank, spec, prefix, executor, inputs, uses, attempt, resources, holders in tasks:
            payload, place = spec.args
            number = payload.number
            if number not in known:
                known.add(number)
                for code in payload.code:
                    if code.digest not in self._code:
                        self._code.add(code.digest)
                        functions.append(code.digest)
                        code_frames.append(code.data)
                payloads.append((number, len(payload.frames), tuple(code.digest for code in payload.code)))
                frames.extend(payload.frames)
            where = [(i, [addresses[w] for w in names if w in addresses]) for i, names in holders] if holders else ()
            said = rank if -_SMALL < rank < _SMALL else str(rank)
            row = (task, said, number, place, prefix, executor, inputs, uses, attempt, resources, where)
            rows.append(row)  # type: ignore[arg-type]
        return Orders(worker, rows, functions, payloads), code_frames + frames

    def drop(self, worker: str, gone: Sequence[int | bytes]) -> PayloadsDropped | None:
        """Say which of these the worker need not keep; None if it has none of them."""
        numbers = [n for n in gone if isinstance(n, int) and n in self._payloads]
        digests = [n for n in gone if isinstance(n, bytes) and n in self._code]
        if not numbers and not digests:
            return None
        self._payloads.difference_update(numbers)
        self._code.difference_update(digests)
        return PayloadsDropped(worker, numbers, digests)


def _not_here(*args: Any) -> NoReturn:
    raise AssertionError("a scheduler does not run tasks")
