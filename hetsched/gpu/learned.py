"""What was learned of GPU tasks, kept from one start to the next in a small SQLite file.

What is forgotten stays forgotten, though processes that live may have learned of the same functions and will want to
write it. So the file keeps *marks* of forgetting, each a number and a pattern. Numbers grow from one mark to the next;
they are microseconds since 1970, or more, so that they grow too where the file was lost in between. A process keeps the
number of the last mark that it has obeyed, at first the moment when it started to learn. It reads what was forgotten
since, forgets it too, and until it has it does not write of such functions.
"""

from __future__ import annotations

import json
import os
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from time import monotonic, time
from typing import TYPE_CHECKING, Any, NamedTuple

from hetsched.core.evidence import Evidence
from hetsched.core.forgetting import fits
from hetsched.core.gpu import Lesson
from hetsched.core.makers import Maker

if TYPE_CHECKING:
    import sqlite3

__all__ = ["MOST_ROWS", "Learned", "Row", "default_path", "moment"]

MOST_ROWS = 10_000
"""So many functions are remembered; of more, those that were noted last."""

# How long others that write are waited for, once; as long as they do not let go they are waited for no more.
_READ_SECONDS = 0.2
_WRITE_SECONDS = 1.0
_FORGET_SECONDS = 2.0  # each time, since a person waits for the answer
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

_ALL = "select mark, pattern from forgotten order by mark"
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


def moment() -> int:
    """This moment, as a number of a mark."""
    return int(time() * 1e6)


class Learned:
    """The file; several processes and threads may use it at once.

    A file that is damaged, or that cannot be read or written, is warned of once and then left alone: nothing is known,
    and nothing is noted. One that others hold on to is warned of once too, and used again when they have let go.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = default_path() if path is None else Path(path)
        self._name = str(self.path)
        self._lock = threading.Lock()
        self._known: dict[str, Row] = {}
        self._marks: list[Mark] = []
        """Those that were read last."""
        self._not_before = 0.0
        """When the file is read again after others did not let go of it (seconds of the monotonic clock)."""
        self._read_at: tuple[int, int] | None = None
        self._broken = False
        self._held = False
        """Others did not let go of the file in the time that they were given."""
        self._said = False

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
        if not known:
            return list(makers)
        return [
            maker._replace(evidence=maker.evidence + row.evidence) if (row := known.get(maker.digest)) else maker
            for maker in makers
        ]

    def forgotten(self, since: int) -> tuple[list[str], int]:
        """What was forgotten after the mark ``since``, as far as was read: patterns, and the last mark's number."""
        marks = self._marks
        if not marks or marks[-1].number <= since:
            return [], since
        later = _later(marks, since)
        return [mark.pattern for mark in later], later[-1].number

    def note(self, lessons: Iterable[Lesson], since: int | None = None) -> None:
        """Remember lessons; what was remembered of the same function goes. Never raises.

        They were learned after the mark ``since`` (None: just now): those on functions that were forgotten later are
        passed over.
        """
        now = time()
        found = list(lessons)
        if not found:
            return

        def write(file: sqlite3.Connection) -> None:
            later = [] if since is None else _later(_marks(file), since)
            rows = [
                (function, name, verdict, json.dumps(evidence), wrong, right + wrong, first, now)
                for function, name, verdict, evidence, right, wrong, first in found
                if not any(fits(name, mark.pattern) for mark in later)
            ]
            file.executemany("insert or replace into learned values (?, ?, ?, ?, ?, ?, ?, ?)", rows)
            file.execute(_BOUND, (MOST_ROWS,))

        self._use(write, _WRITE_SECONDS, writes=True)

    def rows(self) -> list[Row]:
        """All that is remembered, by name."""
        return sorted(self._load().values(), key=lambda row: (row.name, row.function))

    def forget(self, pattern: str = "*") -> int:
        """Forget functions whose name, or its last word, fits a shell pattern; returns how many were in the file.

        It lasts: processes that live now forget what they have learned of such functions when they read this, and do
        not write it down before. Raises TimeoutError where other processes do not let go of the file.
        """
        gone: list[tuple[str]] = []

        def write(file: sqlite3.Connection) -> None:
            names = file.execute("select function, name from learned").fetchall()
            gone[:] = [(function,) for function, name in names if fits(name, pattern)]
            file.executemany("delete from learned where function = ?", gone)
            number = max([moment(), *(mark.number + 1 for mark in _marks(file))])
            file.execute("insert into forgotten values (?, ?)", (number, pattern))
            file.execute("delete from forgotten where mark not in (" + _LAST + ")", (_MOST_MARKS,))

        if self._use(write, _FORGET_SECONDS, writes=True, asked=True):
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
                self._known, self._read_at = {}, None
            if stamp == self._read_at or self._broken or (self._held and monotonic() < self._not_before):
                return self._known
        known: dict[str, Row] = {}
        marks: list[Mark] = []

        def read(file: sqlite3.Connection) -> None:
            marks.extend(_marks(file))
            for function, name, verdict, evidence, *numbers in file.execute("select * from learned"):
                known[function] = Row(function, name, verdict, _evidence(evidence), *numbers)

        if not self._use(read, _READ_SECONDS):
            return self._known
        with self._lock:
            self._known, self._read_at, self._marks = known, stamp, marks
        return known

    def _use(
        self, work: Callable[[sqlite3.Connection], None], seconds: float, writes: bool = False, asked: bool = False
    ) -> bool:
        """Have the file worked with, in one transaction; tells whether that could be.

        Others are given so many ``seconds`` to let go of it, but none where they did not the last time, unless a person
        has ``asked``.
        """
        import sqlite3

        if self._broken:
            return False
        wait = 0.0 if self._held and not asked else seconds
        connection: Any = None
        try:
            if writes:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self.path, timeout=wait, isolation_level=None)
            connection.execute("begin immediate" if writes else "begin")
            for table in _TABLES:
                connection.execute(table)
            work(connection)
            connection.execute("commit")
        except (sqlite3.Error, OSError, TypeError, ValueError) as error:  # rows may be of any shape
            if not (isinstance(error, sqlite3.OperationalError) and "locked" in str(error)):
                self._give_up(error)
            elif not asked:
                self._wait_no_more()
            return False
        finally:
            if connection is not None:
                connection.close()
        self._held = False
        return True

    def _wait_no_more(self) -> None:
        self._held = True
        self._not_before = monotonic() + _PAUSE_SECONDS
        if not self._said:
            self._said = True
            warnings.warn(
                f"other processes hold on to {self.path}: until they let go, what was learned of GPU tasks is neither "
                "recalled nor kept",
                stacklevel=4,
            )

    def _give_up(self, error: Exception) -> None:
        self._broken = True
        warnings.warn(
            f"what was learned of GPU tasks cannot be kept in {self.path}: {error}; `hetsched gpu forget --all` "
            "removes the file",
            stacklevel=4,
        )


def _marks(file: sqlite3.Connection) -> list[Mark]:
    marks = [Mark(number, pattern) for number, pattern in file.execute(_ALL)]
    if not all(type(mark.pattern) is str for mark in marks):
        raise ValueError("a mark of what was forgotten has no pattern")
    return marks


def _later(marks: Sequence[Mark], since: int) -> list[Mark]:
    """The marks after this one; where there may have been more than are kept, one for everything."""
    later = [mark for mark in marks if mark.number > since]
    return later if len(later) < _MOST_MARKS else [Mark(later[-1].number, "*")]


def _evidence(text: str) -> tuple[Evidence, ...]:
    return tuple(Evidence(str(kind), float(weight), str(detail)) for kind, weight, detail in json.loads(text))
