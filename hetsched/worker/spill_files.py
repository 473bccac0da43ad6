"""Files that hold serialised results: one a result, in a folder of the process's own, made at the first one."""

from __future__ import annotations

import os
import shutil
import struct
import tempfile
import threading
import weakref
from collections.abc import Iterable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import msgpack

from hetsched.comm.transports import flat

from .spill_folders import prefix_of, spill_parent

__all__ = ["SpillFiles"]

_LENGTH = struct.Struct("<Q")


class SpillFiles:
    """Writes, reads and removes; safe to use from several threads. Lengths are in bytes.

    The folder is made inside ``directory`` (the system's for temporary files if None), for this user alone. It is
    removed by :meth:`close`, else when the process ends in an orderly way, else by
    :func:`hetsched.worker.spill_folders.remove_left`.
    """

    def __init__(self, directory: str | Path | None = None) -> None:
        self._parent = spill_parent(directory)
        self._folder: Path | None = None
        self._remover: weakref.finalize[..., SpillFiles] | None = None
        self._closed = False
        self._serial = count()
        self._lock = threading.Lock()

    @property
    def folder(self) -> Path:
        """Where the files are, or will be."""
        return self._folder or self._parent

    def write(self, header: Any, frames: Iterable[Any]) -> tuple[Path, int]:
        """Write a serialised result to a new file; return its path and its length.

        Raises OSError when the disk is full or cannot be written to, and leaves no part of a file then. A folder that
        somebody deleted is made anew.
        """
        views = [flat(frame) for frame in frames]
        head = msgpack.packb([header, [view.nbytes for view in views]])
        parts = [_LENGTH.pack(len(head)), head, *views]
        path = self._new_path(None)
        try:
            try:
                write_file(path, parts)
            except FileNotFoundError:
                path = self._new_path(path.parent)
                write_file(path, parts)
        except BaseException:
            self.remove(path)
            raise
        return path, sum(len(part) for part in parts)

    def read(self, path: Path) -> tuple[Any, list[bytearray]]:
        """Read what :meth:`write` was given. Raises OSError, and ValueError where the file is not whole."""
        with path.open("rb", buffering=0) as file:
            (length,) = _LENGTH.unpack(_read(file, _LENGTH.size))
            left = os.fstat(file.fileno()).st_size - _LENGTH.size - length
            if left < 0:
                raise ValueError(f"{path} is too short")
            header, lengths = msgpack.unpackb(_read(file, length), use_list=False, strict_map_key=False)
            if sum(lengths) != left:
                raise ValueError(f"{path} has {left} bytes of data, {sum(lengths)} were written")
            return header, [_read(file, nbytes) for nbytes in lengths]

    def remove(self, path: Path) -> None:
        """Remove a file, if it is there."""
        with suppress(OSError):
            path.unlink()

    def close(self) -> None:
        """Remove the folder with all that is in it; nothing can be written any more."""
        with self._lock:
            self._closed = True
            if self._remover is not None:
                self._remover()

    def _new_path(self, gone: Path | None) -> Path:
        """Name a file, in another folder than one that is ``gone``."""
        with self._lock:
            if self._closed:
                raise FileNotFoundError(f"{self.folder} was closed")
            if self._folder is None or self._folder == gone:
                self._parent.mkdir(parents=True, exist_ok=True)
                self._folder = Path(tempfile.mkdtemp(prefix=prefix_of(os.getpid()), dir=self._parent))
                self._remover = weakref.finalize(self, shutil.rmtree, self._folder, True)
            return self._folder / str(next(self._serial))


def write_file(path: Path, parts: list[Any]) -> None:
    """Write buffers one after the other into a new file, without joining them. Raises OSError."""
    with path.open("xb") as file:
        for part in parts:
            file.write(part)


def _read(file: Any, nbytes: int) -> bytearray:
    buffer = bytearray(nbytes)
    view, start = memoryview(buffer), 0
    while start < nbytes:
        got = file.readinto(view[start:])
        if not got:
            raise ValueError(f"{file.name} ends after {start} bytes of {nbytes}")
        start += got
    return buffer
