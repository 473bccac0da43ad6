"""Tasks that came over the wire: their functions and arguments are loaded when the first of them runs."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hetsched.comm.columns import annotations_at, call_at
from hetsched.comm.functions import load_function
from hetsched.comm.messages import OrderRow, Orders, PayloadsDropped
from hetsched.core.commands import RunTask, RunTasks
from hetsched.core.types import EACH, TaskSpec
from hetsched.errors import ProtocolError

__all__ = ["Shelf", "Shipped"]


class _Parcel:
    """A payload as it arrived, unpickled at most once."""

    __slots__ = ("_code", "_frames", "_functions", "_loaded", "_lock")

    def __init__(self, frames: Sequence[Any], code: Sequence[tuple[bytes, Any]]) -> None:
        self._frames: Sequence[Any] = frames
        self._code = code
        self._functions: list[Any] = [None] * len(code)
        self._lock = threading.Lock()
        self._loaded: Any = None

    def task(self, place: int) -> tuple[Any, tuple[Any, ...], dict[str, Any] | None]:
        """The function and arguments of one of its tasks; raises whatever loading them raises."""
        which, args, kwargs, own = call_at(self._columns(), place)
        func = own if which < 0 else self._functions[which]
        if func is None:
            func = self._functions[which] = load_function(*self._code[which])
        return func, EACH if args is None else args, kwargs

    def annotations(self, place: int) -> dict[str, Any] | None:
        """The annotations of one of its tasks."""
        return annotations_at(self._columns(), place)

    def _columns(self) -> Any:
        loaded = self._loaded
        return self._load() if loaded is None else loaded

    def _load(self) -> Any:
        # Not in one piece with the look before: compiled code holds on to what it has seen of an attribute.
        with self._lock:
            loaded = self._loaded
            if loaded is None:
                first, *buffers = self._frames
                loaded = self._loaded = pickle.loads(first, buffers=buffers)
                self._frames = ()
            return loaded


class Shipped(TaskSpec):
    """A task whose function and arguments are in a parcel."""

    __slots__ = ("_parcel", "_place")

    def __init__(self, task: int, parcel: _Parcel, place: int) -> None:
        super().__init__(task, _unloaded)
        self._parcel = parcel
        self._place = place

    def loaded(self) -> TaskSpec:
        """Load it; raises what its pickles raise."""
        func, args, kwargs = self._parcel.task(self._place)
        return TaskSpec(self.key, func, args, kwargs, (), self._parcel.annotations(self._place))

    def __call__(self, inputs: Sequence[Any]) -> Any:
        """Run the task on the results of its dependencies; raises what loading and running it raise."""
        func, args, kwargs = self._parcel.task(self._place)
        if args is EACH and not kwargs:
            return func(*inputs)
        return TaskSpec(self.key, func, args, kwargs)(inputs)


class Shelf:
    """The parcels of a worker, as long as the scheduler's tasks may speak of them."""

    def __init__(self) -> None:
        self._parcels: dict[int, _Parcel] = {}
        self._code: dict[bytes, Any] = {}

    def unpack(self, orders: Orders, frames: Iterator[Any]) -> RunTasks:
        """Take what comes with orders; return them as the worker's mind knows them.

        Raises ProtocolError where they speak of what never came.
        """
        try:
            for digest in orders.functions:
                self._code[digest] = next(frames)
            for number, count, digests in orders.payloads:
                code = [(digest, self._code[digest]) for digest in digests]
                self._parcels[number] = _Parcel([next(frames) for _ in range(count)], code)
            parcels: Mapping[int, _Parcel] = self._parcels
            tasks = [_order(row, parcels) for row in orders.rows]
        except (KeyError, StopIteration, RuntimeError) as error:
            raise ProtocolError(f"orders speak of a payload that never came: {error!r}") from error
        return RunTasks(orders.worker, tasks)

    def drop(self, message: PayloadsDropped) -> None:
        """Forget what no task will speak of any more."""
        for number in message.payloads:
            self._parcels.pop(number, None)
        for digest in message.functions:
            self._code.pop(digest, None)


def _order(row: OrderRow, parcels: Mapping[int, _Parcel]) -> RunTask:
    task, rank, number, place, prefix, executor, inputs, uses, attempt, resources, holders = row
    spec = Shipped(task, parcels[number], place)
    return RunTask(
        task, int(rank), spec, prefix, executor, inputs, uses, attempt, tuple(resources), holders  # type: ignore[arg-type]
    )


def _unloaded(*args: Any) -> Any:
    raise AssertionError("a task that was sent is run by calling it")
