"""Moves results between memory, packed host memory and files."""

from __future__ import annotations

import errno
import pickle
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any, Final, NamedTuple, TypeAlias

from hetsched.comm.serialize import deserialize, serialize
from hetsched.core.types import TaskId

from .spill_files import SpillFiles
from .usage import UNKNOWN, Usage

__all__ = ["MISSING", "NOWHERE", "RETRY_SECONDS", "Away", "Dump", "Load", "Spiller", "dump_here", "load_here"]

RETRY_SECONDS = 30.0
"""After a write that failed the disk is left alone for this time, or until a file of ours goes."""

Dump: TypeAlias = Callable[[Any], tuple[Any, Sequence[Any]]]
"""Gives a value's header, which msgpack can take, and its frames: contiguous buffers in host memory."""
Load: TypeAlias = Callable[[Any, Sequence[Any]], Any]
"""Makes a value of what a :data:`Dump` gave."""

MISSING: Any = object()
"""Stands for no result."""


def dump_here(value: Any) -> tuple[Any, Sequence[Any]]:
    """Serialise for this very process: device objects as such, so that they are on the device again when loaded."""
    return serialize(value, pickle.HIGHEST_PROTOCOL, ("cuda", "rocm"))


def load_here(header: Any, frames: Sequence[Any]) -> Any:
    """Make a value of what :func:`dump_here` gave."""
    return deserialize(header, frames)


NOWHERE: Final[Mapping[TaskId, int]] = {}
"""No device of any result is known."""


class Away(NamedTuple):
    """A result that is not in memory as itself: its size there, and what it is in now."""

    size: tuple[int, int]
    packed: tuple[Any, Sequence[Any]] | None
    path: Path | None
    stored: int
    """Bytes of the file."""
    lock: threading.Lock
    """Held by the one who reads it, so that others wait and find it in memory."""


class Spiller:
    """What a store holds, and the ways between the places; see :class:`hetsched.worker.store.Store`.

    ``lock`` is held for changes, and never while user code runs or a file is read or written. So whoever has written or
    read a result looks, under the lock, whether it is still the one that was there before.
    """

    def __init__(
        self,
        directory: str | Path | None,
        dump: Dump,
        load: Load,
        say: Callable[[str], None] | None = None,
        locate: Callable[[Any], int | None] | None = None,
    ) -> None:
        self.lock = threading.Lock()
        self.fast: dict[TaskId, Any] = {}
        """Results in memory as themselves; may be read without the lock."""
        self.away: dict[TaskId, Away] = {}
        self.usage = Usage()
        self.disk_nbytes = self.written = self.read = self.lost = 0
        self.clock = monotonic
        self._dump = dump
        self._load = load
        self._say = say
        self._locate = locate
        self._said: set[str] = set()
        self._files = SpillFiles(directory)
        self._unloadable: set[TaskId] = set()
        """What could not be made of its file: made anew, it stays in memory."""
        self._rest_until = 0.0
        self._closed = False

    def located(self, sizes: Iterable[tuple[TaskId, int, int]]) -> dict[TaskId, int]:
        """The devices of those results that are on one that is known (without the lock, as it looks into them)."""
        where: dict[TaskId, int] = {}
        for key, _, cuda in sizes if self._locate is not None else ():
            device = self._device_of(self.fast.get(key)) if cuda else UNKNOWN
            if device != UNKNOWN:
                where[key] = device
        return where

    def _device_of(self, value: Any) -> int:
        device = self._locate(value) if self._locate is not None else None
        return UNKNOWN if device is None else device

    def count_many(self, sizes: Iterable[tuple[TaskId, int, int]], where: Mapping[TaskId, int] = NOWHERE) -> None:
        """Count those results, given as ``(task, nbytes, cuda_nbytes)``, that are in memory (with the lock held).

        ``where`` is what :meth:`located` gave of them.
        """
        fast, unloadable, count = self.fast, self._unloadable, self.usage.count
        for key, nbytes, cuda in sizes:
            if key in fast:
                device = where.get(key, UNKNOWN) if cuda else UNKNOWN
                count(key, nbytes - cuda if nbytes > cuda else 0, cuda, key not in unloadable, device)

    def forget(self, key: TaskId) -> Path | None:
        """Count a result no more, and drop it if it is away (with the lock held); give the file to :meth:`remove`."""
        self.usage.forget(key)
        away = self.away.pop(key, None)
        if away is None:
            return None
        self.disk_nbytes -= away.stored
        return away.path

    def remove(self, path: Path | None) -> None:
        """Remove a file that is nobody's now."""
        if path is not None:
            self._files.remove(path)
            self._rest_until = 0.0  # there may be space again

    def fetch(self, key: TaskId, target: int | None, device_target: int | None, each: Sequence[int] = ()) -> Any:
        """Give a result, and bring it back into memory if it is away; KeyError if it is not here."""
        while True:
            with self.lock:
                value = self.fast.get(key, MISSING)
                if value is not MISSING:
                    return value
                away = self.away.get(key)
            if away is None:
                raise KeyError(key)
            with away.lock:
                value = self._unpack(key, away) if self.away.get(key) is away else MISSING
                if value is MISSING:
                    continue
                device = self._device_of(value) if away.size[1] else UNKNOWN
                with self.lock:
                    path = self._came_back(key, value, away, device)
            self.remove(path)
            self.fit(target, device_target, each, keep=key)
            return value

    def fit(
        self, target: int | None, device_target: int | None, each: Sequence[int] = (), keep: TaskId | None = None
    ) -> None:
        """Move what is too much, but not ``keep``; nothing is too much for a target of None.

        ``each`` holds the targets of the single devices, where there are several.
        """
        for device, most in enumerate(each):
            if self.usage.held.get(device, 0) > most:
                self.shrink_device(most, keep, device)
        if device_target is not None and self.usage.cuda_nbytes > device_target:
            self.shrink_device(device_target, keep)
        if target is not None and self.usage.host_nbytes > target:
            self.shrink(target, keep)

    def shrink(self, goal: int, keep: TaskId | None = None) -> int:
        """Write results to disk until ``goal`` bytes are left in host memory; return the bytes that went."""
        freed = 0
        while not self._closed and (not self._rest_until or self.clock() >= self._rest_until):
            with self.lock:
                key = self.usage.take_host(goal, keep)
            if key is None:
                break
            freed += self._to_disk(key)
        return freed

    def shrink_device(self, goal: int, keep: TaskId | None = None, device: int | None = None) -> int:
        """Pack results until ``goal`` bytes are left on devices, or on one ``device``; return the bytes that went."""
        freed = 0
        while True:
            with self.lock:
                key = self.usage.take_device(goal, keep, device)
            if key is None:
                return freed
            freed += self._to_host(key)

    def close(self) -> None:
        """Remove the files, and the results in them from what is here."""
        with self.lock:
            self._closed = True
            for key in [key for key, away in self.away.items() if away.path is not None]:
                self.forget(key)
        self._files.close()

    def _to_disk(self, key: TaskId) -> int:
        value, away = self.fast.get(key, MISSING), self.away.get(key)
        packed = away.packed if away is not None else self._pack(key, value)
        if packed is None:
            return 0
        try:
            path, stored = self._files.write(*packed)
        except OSError as error:
            self._not_written(key, error)
            return 0
        except Exception as error:  # not what a Dump should have given
            self._stays(key, value, error)
            return 0
        with self.lock:
            size = self.usage.sizes.get(key)
            there: Any = self.away.get(key) if away is not None else self.fast.get(key, MISSING)
            if there is (value if away is None else away) and size is not None and not self._closed:
                back = size if away is None else away.size
                self._leaves(key, Away(back, None, path, stored, threading.Lock()))
                self.disk_nbytes += stored
                self.written += 1
                return size[0]
            if self._closed:
                self.usage.put_back(key)
        self._files.remove(path)
        return 0

    def _to_host(self, key: TaskId) -> int:
        value = self.fast.get(key, MISSING)
        packed = self._pack(key, value)
        if packed is None:
            return 0
        held = sum(memoryview(frame).nbytes for frame in packed[1])
        with self.lock:
            size = self.usage.sizes.get(key)
            if size is None or self.fast.get(key, MISSING) is not value:
                return 0
            self._leaves(key, Away(size, packed, None, 0, threading.Lock()))
            self.usage.count(key, held, 0)
        return size[1]

    def _leaves(self, key: TaskId, away: Away) -> None:
        self.away[key] = away  # before it goes from the other: a look without the lock must find it in one of them
        self.fast.pop(key, None)
        self.usage.forget(key)

    def _came_back(self, key: TaskId, value: Any, away: Away, device: int) -> Path | None:
        if self.away.get(key) is not away:  # taken out or written to disk meanwhile: it is the reader's alone
            return None
        self.fast[key] = value
        self.read += away.path is not None
        path = self.forget(key)
        self.count_many([(key, sum(away.size), away.size[1])], {key: device})
        return path

    def _pack(self, key: TaskId, value: Any) -> tuple[Any, Sequence[Any]] | None:
        if value is MISSING:
            return None
        try:
            return self._dump(value)
        except BaseException as error:  # user code, even at this point
            self._stays(key, value, error)
            return None

    def _stays(self, key: TaskId, value: Any, error: BaseException) -> None:
        with self.lock:
            self.usage.put_back(key, movable=False)
        name = f"{type(value).__module__}.{type(value).__qualname__}"
        self._tell(name, f"a result of type {name} cannot be serialised and stays in memory: {error!r}")

    def _not_written(self, key: TaskId, error: OSError) -> None:
        with self.lock:
            self.usage.put_back(key)
            if self._closed:
                return
            self._rest_until = self.clock() + RETRY_SECONDS
        folder = self._files.folder
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            self._tell("full", f"the disk is full: results stay in memory rather than in {folder}")
        else:
            self._tell("write", f"cannot write to {folder}, results stay in memory: {error}")

    def _unpack(self, key: TaskId, away: Away) -> Any:
        try:
            header, frames = away.packed or self._files.read(away.path)  # type: ignore[arg-type]
        except (OSError, ValueError) as error:
            self._lose(key, away, False, f"a result on disk is lost: {error}")
            return MISSING
        try:
            return self._load(header, frames)
        except MemoryError:
            raise
        except Exception as error:
            self._lose(key, away, True, f"a result that was serialised cannot be made again: {error!r}")
            return MISSING

    def _lose(self, key: TaskId, away: Away, unloadable: bool, sentence: str) -> None:
        with self.lock:
            if self.away.get(key) is not away:  # taken out meanwhile, and its file with it
                return
            if unloadable:
                self._unloadable.add(key)
            self.lost += 1
            path = self.forget(key)
        self.remove(path)
        self._tell("unloadable" if unloadable else "lost", sentence)

    def _tell(self, kind: str, sentence: str) -> None:
        with self.lock:
            told = self._say is None or kind in self._said
            self._said.add(kind)
        if not told and self._say is not None:
            self._say(sentence)
