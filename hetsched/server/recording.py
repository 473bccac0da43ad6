"""Write down all that happens to a scheduler, and read it again: for finding out later why something went as it did.

A recording is a stream of msgpack: ``["hetsched recording", 1]``, then ``[now, event, fields]`` for each event, with
the fields in the order of :mod:`hetsched.core.events`. Functions, arguments, results and errors are not in it: a task
is ``[key, dependencies, annotations]``, an error the kind of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import msgpack

from hetsched.core.events import Event, TasksFailed
from hetsched.core.types import TaskSpec
from hetsched.errors import ProtocolError

__all__ = ["FLUSH_SECONDS", "Recorded", "Recorder", "read_recording"]

FLUSH_SECONDS = 1.0
"""What happened longer ago is in the file, whatever becomes of the process, once something else happens."""

_HEAD = ("hetsched recording", 1)


class Recorded(NamedTuple):
    """One event: when (seconds on the scheduler's clock), its name and its fields."""

    now: float
    event: str
    fields: tuple[Any, ...]


class Recorder:
    """Writes events to a new file, or over an old one. Raises OSError where it cannot be written."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = open(path, "wb")  # noqa: SIM115 - closed by close()
        self._pack = msgpack.Packer(default=_plain)
        self._file.write(self._pack.pack(_HEAD))
        self._flushed = float("-inf")

    def __call__(self, now: float, event: Event) -> None:
        """Write an event. Raises OSError."""
        fields: tuple[Any, ...] = tuple(event)
        if isinstance(event, TasksFailed):
            failures = [(task, attempt, _kind(error), may_retry) for task, attempt, error, may_retry in event.failures]
            fields = (event.worker, event.executor, failures, event.device)
        self._file.write(self._pack.pack((now, type(event).__name__, fields)))
        if now - self._flushed > FLUSH_SECONDS:
            self._file.flush()
            self._flushed = now

    def close(self) -> None:
        """Write what is left and close."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_recording(path: str | os.PathLike[str]) -> Iterator[Recorded]:
    """Read a recording, event by event; one that breaks off is read as far as it goes.

    Raises OSError, and ProtocolError for a file that is no recording.
    """
    with open(path, "rb") as file:
        unpacker = msgpack.Unpacker(file, use_list=False, strict_map_key=False)
        if next(unpacker, None) != _HEAD:
            raise ProtocolError(f"{os.fspath(path)} is not a recording of this version of hetsched")
        for now, event, fields in unpacker:
            yield Recorded(now, event, fields)


def _kind(error: Any) -> str:
    return str(error[0]) if isinstance(error, tuple) and error else type(error).__name__


def _plain(value: Any) -> Any:
    if isinstance(value, TaskSpec):
        return value.key, value.dependencies, value.annotations
    raise TypeError(f"a {type(value).__name__} cannot be recorded")
