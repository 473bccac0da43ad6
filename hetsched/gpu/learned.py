"""What was learned of GPU tasks, kept from one start to the next in a small SQLite file."""

from __future__ import annotations

import fnmatch
import json
import os
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
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
_BOUND = """
    delete from learned where function in
    (select function from learned order by noted desc, function limit -1 offset ?)
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
        self._name = str(self.path)
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

        def write(file: sqlite3.Connection) -> None:
            file.executemany("insert or replace into learned values (?, ?, ?, ?, ?, ?, ?, ?)", rows)
            file.execute(_BOUND, (MOST_ROWS,))

        self._use(write, writes=True)

    def rows(self) -> list[Row]:
        """All that is remembered, by name."""
        return sorted(self._load().values(), key=lambda row: (row.name, row.function))

    def forget(self, pattern: str = "*") -> int:
        """Forget functions whose name, or its last word, fits a shell pattern; returns how many."""
        gone = [row.function for row in self.rows() if fits(row.name, pattern)]

        def write(file: sqlite3.Connection) -> None:
            file.executemany("delete from learned where function = ?", [(function,) for function in gone])

        return len(gone) if gone and self._use(write, writes=True) else 0

    def _load(self) -> dict[str, Row]:
        try:
            found = os.stat(self._name)
        except OSError:
            return {}  # nothing was learned yet
        stamp = found.st_mtime_ns, found.st_size
        with self._lock:
            if stamp == self._read_at or self._broken:
                return self._known
        known: dict[str, Row] = {}

        def read(file: sqlite3.Connection) -> None:
            for function, name, verdict, evidence, *numbers in file.execute("select * from learned"):
                known[function] = Row(function, name, verdict, _evidence(evidence), *numbers)

        if not self._use(read):
            return self._known
        with self._lock:
            self._known, self._read_at = known, stamp
        return known

    def _use(self, work: Callable[[sqlite3.Connection], None], writes: bool = False) -> bool:
        """Have the file worked with, in one transaction; tells whether that could be."""
        import sqlite3

        if self._broken:
            return False
        connection: Any = None
        try:
            if writes:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self.path, timeout=_WAIT_SECONDS, isolation_level=None)
            connection.execute("begin immediate" if writes else "begin")
            connection.execute(_TABLE)
            work(connection)
            connection.execute("commit")
        except (sqlite3.Error, OSError, TypeError, ValueError) as error:  # rows may be of any shape
            self._give_up(error, isinstance(error, sqlite3.OperationalError) and "locked" in str(error))
            return False
        finally:
            if connection is not None:
                connection.close()
        return True

    def _give_up(self, error: Exception, passing: bool) -> None:
        if passing:
            return  # another process was at it for long; it will be noted the next time
        self._broken = True
        warnings.warn(
            f"what was learned of GPU tasks cannot be kept in {self.path}: {error}; `hetsched gpu forget --all` "
            "removes the file",
            stacklevel=4,
        )


def fits(name: str, pattern: str) -> bool:
    """Tell whether a function's name, or its last word, fits a shell pattern."""
    return fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name.rpartition(".")[2], pattern)


def _evidence(text: str) -> tuple[Evidence, ...]:
    return tuple(Evidence(str(kind), float(weight), str(detail)) for kind, weight, detail in json.loads(text))
