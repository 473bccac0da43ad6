"""Keeps the results of a worker: in memory, and beyond a limit those used longest ago on disk.

A result is in one of three places: as itself in memory; *packed*, that is serialised, in host memory, when there were
too many on the device it was on; in a file. A reader always gets the object itself as it was stored, and never a
stand-in: what is read comes back first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hetsched.core.types import TaskId

from .spilling import MISSING, NOWHERE, Dump, Load, Spiller, dump_here, load_here
from .usage import UNKNOWN

__all__ = ["Store", "StoreStats"]


class StoreStats(NamedTuple):
    """How many results are where, their bytes, and what has been done so far."""

    in_memory: int
    packed: int
    on_disk: int
    nbytes: int
    """In host memory, by what was noted; packed ones counted."""
    cuda_nbytes: int
    disk_nbytes: int
    written: int
    read: int
    lost: int
    """Results whose file was gone or that could not be made of it."""
    on_devices: tuple[int, ...] = ()
    """``cuda_nbytes`` of each device, where there are several; of what is on one that is known."""


class Store(MutableMapping[TaskId, Any]):
    """Results by task; safe to use from several threads.

    ``store[task]`` of what is in memory costs little more than a dict's; of what is away it reads a file and may write
    others. KeyError says that the result is not here, or no more: whoever needs it has to get it anew.

    ``target`` is the limit of host memory and ``device_target`` that of device memory, in bytes; None and 0 are none.
    ``device_targets``, where there are several devices, are those of each; ``locate`` tells the number of a result's
    device, and one of which it gives None counts for ``device_target`` alone. All hold for what was noted
    (:meth:`note`), or for all that is stored where ``measure`` is given. ``say`` gets a sentence on each kind of
    trouble, once, on any thread: a full disk, a value that cannot be serialised, a file that is gone. None of them does
    harm to anything else. ``directory`` is for the files (None: the system's for temporary ones).
    """

    def __init__(
        self,
        target: int | None = None,
        directory: str | Path | None = None,
        *,
        device_target: int | None = None,
        dump: Dump = dump_here,
        load: Load = load_here,
        measure: Callable[[Any], tuple[int, int]] | None = None,
        device_targets: Sequence[int] = (),
        locate: Callable[[Any], int | None] | None = None,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.target = target or None
        self.device_target = device_target or None
        self.device_targets = tuple(device_targets)
        self._spiller = Spiller(directory, dump, load, say, locate)
        self._locates = locate is not None
        self._lock = self._spiller.lock
        self._fast = self._spiller.fast
        self._away = self._spiller.away
        self._usage = self._spiller.usage
        self._recording = False
        """Reads are noted: only where something may soon have to leave."""
        self._measure = measure

    def __getitem__(self, key: TaskId) -> Any:
        """Give a result; KeyError if it is not here."""
        try:
            value = self._fast[key]
        except KeyError:
            return self._fetch(key)
        if self._recording:
            self._usage.reads.append(key)
        return value

    def __setitem__(self, key: TaskId, value: Any) -> None:
        """Keep a result in place of what was there. Unless the store measures it counts only when it is noted."""
        old = gone = None
        # What nobody has counted is not about to leave, so there is nothing to undo.
        if key in self._usage.sizes or key in self._away:
            with self._lock:
                gone = self._spiller.forget(key)
                old = self._fast.get(key)  # kept until the lock is free: what it runs when it goes is not ours
                self._fast[key] = value
            self._spiller.remove(gone)
        else:
            self._fast[key] = value
        del old
        if self._measure is not None:
            self.note(key, *self._measure(value))

    def __delitem__(self, key: TaskId) -> None:
        """Let a result go, without reading it; KeyError if it is not here."""
        if not self._take_out(key)[1]:
            raise KeyError(key)

    def pop(self, key: TaskId, default: Any = MISSING) -> Any:
        """Take a result out and give it; with a default, one that is away is dropped unread and the default given."""
        if default is MISSING:
            read = self._fetch(key)
            value, _ = self._take_out(key)
            return read if value is MISSING else value
        gone = None
        with self._lock:
            value = self._fast.pop(key, default)
            if key in self._usage.sizes or key in self._away:
                gone = self._spiller.forget(key)
        if gone is not None:
            self._spiller.remove(gone)
        return value

    def drop(self, keys: Iterable[TaskId]) -> list[Any]:
        """Let results go, unread; return what was in memory, for the caller to let go of with no lock held."""
        values: list[Any] = []
        files: list[Path] = []
        fast, away, sizes = self._fast, self._away, self._usage.sizes
        with self._lock:
            for key in keys:
                values.append(fast.pop(key, None))
                if key in sizes or key in away:
                    path = self._spiller.forget(key)
                    if path is not None:
                        files.append(path)
        for path in files:
            self._spiller.remove(path)
        return values

    def __contains__(self, key: object) -> bool:
        """Tell whether a result is here, in memory or away."""
        if key in self._fast or key in self._away:
            return True
        with self._lock:  # it may have come back between the two
            return key in self._fast

    def __iter__(self) -> Iterator[TaskId]:
        """Go through the tasks whose results were here at the start."""
        with self._lock:
            return iter([*self._fast, *self._away])

    def __len__(self) -> int:
        """Count the results."""
        with self._lock:
            return len(self._fast) + len(self._away)

    def peek(self, key: TaskId, default: Any = None) -> Any:
        """Give a result that can be had without reading a file, else the default; this is no use of it."""
        return self._fast.get(key, default)

    def in_memory(self, key: TaskId) -> bool:
        """Tell whether a result can be had without reading a file."""
        return key in self._fast

    def note(self, key: TaskId, nbytes: int, cuda_nbytes: int = 0) -> None:
        """Say how many bytes a result takes in all and on a device. See :meth:`note_many`."""
        self.note_many([(key, nbytes, cuda_nbytes)])

    def note_many(self, sizes: Iterable[tuple[TaskId, int, int]]) -> None:
        """Say how many bytes results take, as ``(task, nbytes, cuda_nbytes)``; unknown tasks are passed over.

        Writes to disk what is too much then, in the caller's thread: call it with no lock held.
        """
        where: Mapping[TaskId, int] = NOWHERE
        if self._locates:
            sizes = list(sizes)
            where = self._spiller.located(sizes)
        usage = self._usage
        with self._lock:
            self._spiller.count_many(sizes, where)
            self._recording = (
                (self.target is not None and usage.host_nbytes > self.target // 2)
                or (self.device_target is not None and usage.cuda_nbytes > self.device_target // 2)
                or any(usage.held.get(n, 0) > most // 2 for n, most in enumerate(self.device_targets))
            )
        self._fit()

    def make_room(self, target: int | None = None) -> int:
        """Write results to disk until ``target`` bytes (the store's own limit if None) are left; return what went."""
        goal = self.target if target is None else target
        return 0 if goal is None else self._spiller.shrink(goal)

    def spill_device(self, nbytes: int | None = None, device: int | None = None) -> int:
        """Pack device results into host memory, at least ``nbytes`` or all; return the bytes of device memory freed.

        With a ``device``, all of those that are not known to be on another. They are on the device again when they are
        read. What is beyond the limit of host memory then goes to disk.
        """
        shrink = self._spiller.shrink_device
        if device is None:
            freed = shrink(0 if nbytes is None else max(self._usage.cuda_nbytes - nbytes, 0))
        else:
            freed = shrink(0, device=device) + shrink(0, device=UNKNOWN)
        self._fit()
        return freed

    def device_room(self) -> Sequence[int] | None:
        """How many bytes of device memory results may still take before some have to leave; None: there is no limit.

        The first number is for all devices together, the others, where there are several, for each.
        """
        target, held = self.device_target, self._usage.held
        if target is None:
            return None
        each = [most - held.get(n, 0) for n, most in enumerate(self.device_targets)]
        return [target - self._usage.cuda_nbytes, *each]

    def stats(self) -> StoreStats:
        """Tell what is where."""
        spiller, usage = self._spiller, self._usage
        with self._lock:
            on_disk = sum(away.path is not None for away in self._away.values())
            return StoreStats(
                in_memory=len(self._fast),
                packed=len(self._away) - on_disk,
                on_disk=on_disk,
                nbytes=usage.host_nbytes,
                cuda_nbytes=usage.cuda_nbytes,
                disk_nbytes=spiller.disk_nbytes,
                written=spiller.written,
                read=spiller.read,
                lost=spiller.lost,
                on_devices=tuple(usage.held.get(n, 0) for n in range(len(self.device_targets))),
            )

    def close(self) -> None:
        """Remove the files and the results in them; what is in memory stays. Nothing is written any more."""
        self._spiller.close()

    def _fetch(self, key: TaskId) -> Any:
        return self._spiller.fetch(key, self.target, self.device_target, self.device_targets)

    def _fit(self) -> None:
        self._spiller.fit(self.target, self.device_target, self.device_targets)

    def _take_out(self, key: TaskId) -> tuple[Any, bool]:
        with self._lock:
            away = key in self._away
            gone = self._spiller.forget(key)
            value = self._fast.pop(key, MISSING)
        if gone is not None:
            self._spiller.remove(gone)
        return value, away or value is not MISSING
