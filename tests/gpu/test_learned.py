"""The file of what was learned: kept, bounded, shared between processes, and left alone where it is damaged."""

from __future__ import annotations

import sqlite3
import subprocess
import sys

import pytest

from hetsched.core.evidence import CODE, RESULT, Evidence
from hetsched.core.gpu import Lesson
from hetsched.core.makers import Maker
from hetsched.gpu import learned
from hetsched.gpu.learned import Learned, moment

FOUND = (Evidence(RESULT, 1.0, "its result is on a device"),)
LESSON = Lesson("d" * 32, "put", "gpu", FOUND, 5, 2, 1)


@pytest.fixture
def file(tmp_path):
    return Learned(tmp_path / "cache" / "gpu.sqlite")


def test_what_is_noted_is_recalled_by_another(file) -> None:
    makers = [Maker("d" * 32, "m.put", (Evidence(CODE, 0.4, "hint"),)), Maker("e" * 32, "m.other")]
    assert file.recall(makers) == makers
    file.note([LESSON])
    again = Learned(file.path)
    assert again.recall(makers) == [makers[0]._replace(evidence=(Evidence(CODE, 0.4, "hint"), *FOUND)), makers[1]]
    (row,) = again.rows()
    assert row[:7] == ("d" * 32, "put", "gpu", FOUND, 2, 7, 1)
    again.note([LESSON._replace(verdict="cpu", evidence=())])
    assert file.recall(makers) == makers  # the later one counts
    file.note([])


def test_it_is_bounded(file, monkeypatch) -> None:
    monkeypatch.setattr(learned, "MOST_ROWS", 3)
    for n in range(5):
        file.note([LESSON._replace(function=f"{n}")])
    assert sorted(row.function for row in file.rows()) == ["2", "3", "4"]


def test_forgetting_by_name(file) -> None:
    names = ["m.put", "m.take", "other.put", "put"]
    file.note([LESSON._replace(function=name, name=name) for name in names])
    assert file.forget("m.*") == 2
    assert file.forget("put") == 2
    assert file.rows() == []
    assert file.forget() == 0


PUT = [Maker("d" * 32, "m.put")]
OTHER = LESSON._replace(function="e" * 32, name="other")


def test_what_was_forgotten_is_not_written_again_by_who_has_learned_it(file) -> None:
    live, told = Learned(file.path), moment()
    live.note([LESSON], told)
    assert file.forget("p*") == 1
    live.note([LESSON, OTHER], told)
    assert [row.name for row in file.rows()] == ["other"]
    # When it has read that, and forgotten it too, it may learn anew.
    live.refresh()
    patterns, last = live.forgotten(told)
    assert (patterns, live.forgotten(last)) == (["p*"], ([], last))
    live.note([LESSON], last)
    assert [row.name for row in file.rows()] == ["other", "put"]
    started = Learned(file.path)
    started.refresh()
    assert started.forgotten(max(moment(), last))[0] == []  # as of who begins to learn now


def test_what_was_not_written_yet_is_forgotten_too(file) -> None:
    live, told = Learned(file.path), moment()
    assert live.recall(PUT) == PUT
    assert file.forget("p*") == 0
    live.note([LESSON], told)
    assert file.rows() == []


def test_everything_is_forgotten_for_good_also_in_a_file_that_is_made_anew(file) -> None:
    file.forget()
    live, told = Learned(file.path), moment()
    live.refresh()
    assert live.forgotten(told) == ([], told)
    file.path.write_bytes(b"no database at all" * 100)
    file.forget_all()
    live.note([LESSON], told)
    assert file.rows() == []
    live.refresh()
    assert live.forgotten(told)[0] == ["*"]


def test_several_forgettings_are_told_together_and_of_too_many_all_is_forgotten(file, monkeypatch) -> None:
    monkeypatch.setattr(learned, "_MOST_MARKS", 3)
    live, told = Learned(file.path), moment()
    for n in range(2):
        file.forget(f"other{n}")
    live.refresh()
    patterns, last = live.forgotten(told)
    assert (patterns, last > told) == (["other0", "other1"], True)
    file.forget("third")
    live.refresh()
    assert live.forgotten(last)[0] == ["third"]
    assert live.forgotten(told)[0] == ["*"]  # there may have been a mark before these three
    live.note([LESSON], told)
    assert file.rows() == []
    live.note([LESSON], last)
    assert [row.name for row in file.rows()] == ["put"]


def test_marks_grow_where_the_clock_goes_back(file, monkeypatch) -> None:
    live, told = Learned(file.path), moment()
    file.forget("a")
    monkeypatch.setattr(learned, "time", lambda: 1.0)
    file.forget("b")
    live.refresh()
    assert live.forgotten(told)[0] == ["a", "b"]


def test_reading_apart_from_recalling(file) -> None:
    """As the scheduler does it, whose loop waits for no file."""
    live = Learned(file.path)
    assert not live.is_stale()
    file.note([LESSON])
    assert live.is_stale()
    assert live.recall(PUT, read=False) == PUT
    live.refresh()
    assert not live.is_stale()
    assert live.recall(PUT, read=False) == [PUT[0]._replace(evidence=FOUND)]
    file.path.unlink()
    assert live.is_stale()
    live.refresh()
    assert not live.is_stale()
    assert live.recall(PUT, read=False) == PUT


def test_a_file_of_before_there_were_marks(file) -> None:
    file.note([LESSON])
    with sqlite3.connect(file.path) as other:
        other.execute("drop table forgotten")
    other.close()
    assert Learned(file.path).recall(PUT) == [PUT[0]._replace(evidence=FOUND)]
    assert Learned(file.path).forget("put") == 1


def test_a_damaged_file_is_warned_of_once_and_left_alone(file) -> None:
    file.path.parent.mkdir()
    file.path.write_bytes(b"no database at all" * 100)
    with pytest.warns(UserWarning, match="what was learned of GPU tasks cannot be kept in .*: file is not a database"):
        assert file.recall([Maker("d", "m")]) == [Maker("d", "m")]
    file.note([LESSON])
    assert file.rows() == []
    assert file.path.read_bytes().startswith(b"no database")


@pytest.mark.parametrize(
    "damage",
    [
        "update learned set evidence = 'null'",
        "update learned set evidence = '[[null, null, null]]'",
        "update learned set evidence = '[1]'",
        "alter table learned add column more text",
        "insert into forgotten values (1, null)",
        "drop table forgotten; create table forgotten (what integer)",
    ],
)
def test_rows_of_another_shape_are_damage_too(file, damage) -> None:
    file.note([LESSON])
    with sqlite3.connect(file.path) as other:
        other.executescript(damage)
    other.close()
    with pytest.warns(UserWarning, match="cannot be kept"):
        assert Learned(file.path).recall([Maker("d" * 32, "m")]) == [Maker("d" * 32, "m")]


def test_a_place_where_nothing_can_be_written(tmp_path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    file = Learned(tmp_path / "cache" / "gpu.sqlite")
    with pytest.warns(UserWarning, match="cannot be kept"):
        file.note([LESSON])
    file.note([LESSON])


@pytest.fixture
def waits(monkeypatch):
    """How long each use of a file would wait for others, in its order; none waits truly."""
    found = []

    def connect(path, timeout, **options):
        found.append(timeout)
        return sqlite3_connect(path, timeout=0, **options)

    sqlite3_connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", connect)
    return found


def test_a_file_that_others_hold_on_to_is_waited_for_once_and_then_warned_of(file, waits, monkeypatch) -> None:
    now = 100.0
    monkeypatch.setattr(learned, "monotonic", lambda: now)
    file.note([LESSON])
    other = sqlite3.connect(file.path, 0, isolation_level=None)
    other.execute("begin exclusive")
    waits.clear()
    live = Learned(file.path)
    with pytest.warns(UserWarning, match=r"other processes hold on to .*: until they let go, what was learned of GPU"):
        assert live.recall(PUT) == PUT
    for _ in range(5):
        assert live.recall(PUT) == PUT
        assert not live.is_stale()
    assert waits == [learned._READ_SECONDS]
    live.note([OTHER])
    now += 11.0
    live.recall(PUT)  # looked at again, and not waited for
    live.recall(PUT)
    assert waits == [learned._READ_SECONDS, 0.0, 0.0]
    with pytest.raises(TimeoutError, match="nothing was forgotten"):
        live.forget("p")
    assert waits[3:] == [learned._FORGET_SECONDS]
    other.execute("rollback")
    other.close()
    now += 11.0
    assert live.recall(PUT) == [PUT[0]._replace(evidence=FOUND)]
    live.note([OTHER])
    assert waits[4:] == [0.0, learned._WRITE_SECONDS]  # it was let go, and may be waited for
    assert [row.name for row in file.rows()] == ["other", "put"]


def test_a_writer_waits_once_too(file, waits) -> None:
    file.note([LESSON])
    other = sqlite3.connect(file.path, 0, isolation_level=None)
    other.execute("begin exclusive")
    waits.clear()
    with pytest.warns(UserWarning, match="other processes hold on to"):
        file.note([OTHER])
    file.note([OTHER])
    assert file.recall(PUT) == PUT
    assert waits == [learned._WRITE_SECONDS, 0.0]
    other.execute("rollback")
    other.close()


def test_many_processes_at_once(file) -> None:
    program = (
        "import sys; from hetsched.gpu.learned import Learned; from hetsched.core.gpu import Lesson\n"
        "file = Learned(sys.argv[1])\n"
        "for n in range(10): file.note([Lesson(f'{sys.argv[2]}-{n}', 'f', 'gpu', (), 0, 0, 0)])"
    )
    command = [sys.executable, "-W", "error", "-c", program, str(file.path)]
    running = [subprocess.Popen([*command, str(n)]) for n in range(3)]
    assert [process.wait() for process in running] == [0] * 3
    assert len(file.rows()) == 30
