"""What was learned of GPU tasks, kept from one start to the next in a small SQLite file.

What is forgotten stays forgotten, though processes that live may have learned of the same functions and will want to
write it. So the file keeps *marks* of forgetting, each a number and a pattern. Numbers grow from one mark to the next;
they are microseconds since 1970, or more, so that they grow too where the file was lost in between. A process notes
down which was the last mark when it met a function, and does not write of functions that were forgotten since.
"""

from __future__ import annotations

import fnmatch
import json
import os
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from time import monotonic, time
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
_PAUSE_SECONDS = 10.0  # until a file that others held on to is read again
_TABLES = (
    """
    create table if not exists learned (
        function text primary key, name text, verdict text, evidence text, wrong integer, ran integer, first integer,
        noted real
    ) without rowid
    """,
    "create table if not exists forgotten (mark integer primary key, pattern text)",
)
_BOUND = """
    delete from learned where function in
    (select function from learned order by noted desc, function limit -1 offset ?)
"""

_MOST_MARKS = 100
_MOST_MET = 2 * MOST_ROWS

_LAST = "select mark from forgotten order by mark desc limit ?"


class Mark(NamedTuple):
    """At which number functions of which pattern were forgotten."""

    number: int
    pattern: str


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
        self._mark = 0
        """The last mark that was read."""
        self._met: dict[str, int] = {}
        """What was the last mark when a function was met; for those not in it the last mark stands."""
        self._is_read = False
        """There was no file, or it could be read: only from then on it is known which mark is the last."""
        self._not_before = 0.0
        """When the file is looked at again after others did not let go of it (seconds of the monotonic clock)."""
        self._read_at: tuple[int, int] | None = None
        self._broken = False

    def is_stale(self) -> bool:
        """Tell whether the file has changed since it was read. Looks at its time, and does not read it."""
        return not self._broken and monotonic() >= self._not_before and self._stamp() != self._read_at

    def refresh(self) -> None:
        """Read the file, if it has changed; never raises."""
        self._load()

    def recall(self, makers: Sequence[Maker], read: bool = True) -> list[Maker]:
        """Add to functions what is remembered of them. Reads the file if it has changed; never raises.

        Without ``read`` it goes by what :meth:`refresh` has read last, and does not look at the file.
        """
        known = self._load() if read else self._known
        self._meet(makers)
        if not known:
            return list(makers)
        return [
            maker._replace(evidence=maker.evidence + row.evidence) if (row := known.get(maker.digest)) else maker
            for maker in makers
        ]

    def note(self, lessons: Iterable[Lesson]) -> None:
        """Remember lessons; what was remembered of the same function goes. Never raises.

        Lessons on functions that were forgotten after they were met here are passed over.
        """
        now = time()
        found = list(lessons)
        if not found:
            return

        def write(file: sqlite3.Connection) -> None:
            marks = _marks(file)
            rows = [
                (function, name, verdict, json.dumps(evidence), wrong, right + wrong, first, now)
                for function, name, verdict, evidence, right, wrong, first in found
                if not _is_forgotten(name, self._met.get(function, self._mark), marks)
            ]
            file.executemany("insert or replace into learned values (?, ?, ?, ?, ?, ?, ?, ?)", rows)
            file.execute(_BOUND, (MOST_ROWS,))

        self._use(write, writes=True)

    def rows(self) -> list[Row]:
        """All that is remembered, by name."""
        return sorted(self._load().values(), key=lambda row: (row.name, row.function))

    def forget(self, pattern: str = "*") -> int:
        """Forget functions whose name, or its last word, fits a shell pattern; returns how many were in the file.

        It lasts: what processes that live now have learned of such functions, they do not write down. Raises
        TimeoutError where other processes do not let go of the file.
        """
        gone: list[tuple[str]] = []

        def write(file: sqlite3.Connection) -> None:
            names = file.execute("select function, name from learned").fetchall()
            gone[:] = [(function,) for function, name in names if fits(name, pattern)]
            file.executemany("delete from learned where function = ?", gone)
            number = max([int(time() * 1e6), *(mark.number + 1 for mark in _marks(file))])
            file.execute("insert into forgotten values (?, ?)", (number, pattern))
            file.execute("delete from forgotten where mark not in (" + _LAST + ")", (_MOST_MARKS,))

        if self._use(write, writes=True):
            return len(gone)
        if not self._broken:
            raise TimeoutError(f"other processes are using {self.path}: nothing was forgotten")
        return 0

    def forget_all(self) -> None:
        """Forget everything; a file that is damaged is made anew. Raises OSError where that cannot be."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.forget()
        if self._broken:
            self.path.unlink(missing_ok=True)
            self._broken = False
            self.forget()

    def _meet(self, makers: Sequence[Maker]) -> None:
        with self._lock:
            met, mark = self._met, self._mark
            self._is_read = self._is_read or self._stamp() is None
            if not self._is_read:
                return
            for maker in makers:
                if len(met) < _MOST_MET:
                    met.setdefault(maker.digest, mark)

    def _stamp(self) -> tuple[int, int] | None:
        """Tells whether the file has changed; None where there is none."""
        try:
            found = os.stat(self._name)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size

    def _load(self) -> dict[str, Row]:
        stamp = self._stamp()
        with self._lock:
            if stamp is None:  # nothing was learned yet, or it is all gone
                self._known, self._read_at, self._is_read = {}, None, True
            if stamp == self._read_at or self._broken:
                return self._known
        known: dict[str, Row] = {}
        marks: list[Mark] = []

        def read(file: sqlite3.Connection) -> None:
            marks.extend(_marks(file))
            for function, name, verdict, evidence, *numbers in file.execute("select * from learned"):
                known[function] = Row(function, name, verdict, _evidence(evidence), *numbers)

        if not self._use(read):
            self._not_before = monotonic() + _PAUSE_SECONDS
            return self._known
        with self._lock:
            self._known, self._read_at, self._is_read = known, stamp, True
            self._mark = max([self._mark, *(mark.number for mark in marks)])
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
            for table in _TABLES:
                connection.execute(table)
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


def _marks(file: sqlite3.Connection) -> list[Mark]:
    marks = [Mark(number, pattern) for number, pattern in file.execute("select mark, pattern from forgotten")]
    if not all(type(mark.pattern) is str for mark in marks):
        raise ValueError("a mark of what was forgotten has no pattern")
    return marks


def _is_forgotten(name: str, met: int, marks: Sequence[Mark]) -> bool:
    """Tell whether a function that was met after this mark was forgotten; also where there may have been more marks."""
    later = [mark for mark in marks if mark.number > met]
    return len(later) >= _MOST_MARKS or any(fits(name, mark.pattern) for mark in later)


def _evidence(text: str) -> tuple[Evidence, ...]:
    return tuple(Evidence(str(kind), float(weight), str(detail)) for kind, weight, detail in json.loads(text))
