"""What was learned of GPU tasks, kept from one start to the next in a small SQLite file."""

from __future__ import annotations

import fnmatch
import json
import os
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any, NamedTuple

from hetsched.core.evidence import Evidence
from hetsched.core.gpu import Lesson
from hetsched.core.makers import Maker

if TYPE_CHECKING:
    import sqlite3

__all__ = ["MOST_ROWS", "Learned", "Row", "default_path"]

MOST_ROWS = 10_000
"""So many functions are remembered; of more, those that were noted last."""

_WAIT_SECONDS = 2.0  # for another process that writes
_TABLE = """
    create table if not exists learned (
        function text primary key, name text, verdict text, evidence text, wrong integer, ran integer, first integer,
        noted real
    ) without rowid
"""


class Row(NamedTuple):
    """What is remembered of a function; ``noted`` is seconds since 1970, ``ran`` how many tasks it was learned from."""

    function: str
    name: str
    verdict: str
    evidence: tuple[Evidence, ...]
    wrong: int
    ran: int
    first: int
    noted: float


def default_path() -> Path:
    """The file in the user's cache directory: ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "hetsched" / "gpu.sqlite"


class Learned:
    """The file; several processes and threads may use it at once.

    A file that is damaged, or that cannot be read or written, is warned of once and then left alone: nothing is known,
    and nothing is noted.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = default_path() if path is None else Path(path)
        self._lock = threading.Lock()
        self._known: dict[str, Row] = {}
        self._read_at: tuple[int, int] | None = None
        self._broken = False

    def recall(self, makers: Sequence[Maker]) -> list[Maker]:
        """Add to functions what is remembered of them. Reads the file if it has changed; never raises."""
        known = self._load()
        if not known:
            return list(makers)
        return [
            maker._replace(evidence=maker.evidence + row.evidence) if (row := known.get(maker.digest)) else maker
            for maker in makers
        ]

    def note(self, lessons: Iterable[Lesson]) -> None:
        """Remember lessons; what was remembered of the same function goes. Never raises."""
        now = time()
        rows = [
            (function, name, verdict, json.dumps(evidence), wrong, right + wrong, first, now)
            for function, name, verdict, evidence, right, wrong, first in lessons
        ]
        if not rows:
            return
        with self._open(write=True) as file:
            if file is not None:
                file.execute(_TABLE)
                file.executemany("insert or replace into learned values (?, ?, ?, ?, ?, ?, ?, ?)", rows)
                file.execute(
                    "delete from learned where function in (select function from learned order by noted desc, function "
                    "limit -1 offset ?)",
                    (MOST_ROWS,),
                )

    def rows(self) -> list[Row]:
        """All that is remembered, by name."""
        return sorted(self._load().values(), key=lambda row: (row.name, row.function))

    def forget(self, pattern: str = "*") -> int:
        """Forget functions whose name, or its last word, fits a shell pattern; returns how many."""
        gone = [row.function for row in self.rows() if fits(row.name, pattern)]
        with self._open(write=True) as file:
            if file is None:
                return 0
            file.execute(_TABLE)
            file.executemany("delete from learned where function = ?", [(function,) for function in gone])
        return len(gone)

    def _load(self) -> dict[str, Row]:
        try:
            found = self.path.stat()
        except OSError:
            return {}  # nothing was learned yet
        stamp = found.st_mtime_ns, found.st_size
        with self._lock:
            if stamp == self._read_at or self._broken:
                return self._known
        known: dict[str, Row] = {}
        with self._open() as file:
            if file is not None:
                file.execute(_TABLE)
                for function, name, verdict, evidence, *numbers in file.execute("select * from learned"):
                    known[function] = Row(function, name, verdict, _evidence(evidence), *numbers)
        with self._lock:
            self._known, self._read_at = known, stamp
        return known

    @contextmanager
    def _open(self, write: bool = False) -> Iterator[sqlite3.Connection | None]:
        """Open the file for one transaction; gives None where that cannot be."""
        import sqlite3

        if self._broken:
            yield None
            return
        connection: Any = None
        try:
            if write:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self.path, timeout=_WAIT_SECONDS)
            with connection:
                if write:
                    connection.execute("begin immediate")
                yield connection
        except (sqlite3.Error, OSError, ValueError) as error:
            self._give_up(error, isinstance(error, sqlite3.OperationalError) and "locked" in str(error))
        finally:
            if connection is not None:
                connection.close()

    def _give_up(self, error: Exception, passing: bool) -> None:
        if passing:
            return  # another process was at it for long; it will be noted the next time
        self._broken = True
        warnings.warn(
            f"what was learned of GPU tasks cannot be kept in {self.path}: {error}; `hetsched gpu forget --all` "
            "removes the file",
            stacklevel=3,
        )


def fits(name: str, pattern: str) -> bool:
    """Tell whether a function's name, or its last word, fits a shell pattern."""
    return fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name.rpartition(".")[2], pattern)


def _evidence(text: str) -> tuple[Evidence, ...]:
    return tuple(Evidence(str(kind), float(weight), str(detail)) for kind, weight, detail in json.loads(text))
