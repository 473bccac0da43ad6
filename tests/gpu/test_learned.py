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
from hetsched.gpu.learned import Learned

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
NEW = [Maker("f" * 32, "m.put")]


def test_what_was_forgotten_is_not_written_again_by_who_has_learned_it(file) -> None:
    live = Learned(file.path)
    live.recall(PUT)
    live.note([LESSON])
    assert file.forget("p*") == 1
    live.recall(PUT)  # it meets it again, and still has what it learned before
    live.note([LESSON, LESSON._replace(function="e" * 32, name="other")])
    assert [row.name for row in file.rows()] == ["other"]
    # What it meets from now on it may learn; and so may who starts.
    live.recall(NEW)
    live.note([LESSON._replace(function="f" * 32)])
    assert [row.function for row in file.rows()] == ["e" * 32, "f" * 32]
    started = Learned(file.path)
    assert started.recall(PUT) == PUT
    started.note([LESSON])
    assert len(file.rows()) == 3


def test_what_was_not_written_yet_is_forgotten_too(file) -> None:
    live = Learned(file.path)
    assert live.recall(PUT) == PUT
    assert file.forget("p*") == 0
    live.note([LESSON])
    assert file.rows() == []


def test_everything_is_forgotten_for_good_also_in_a_file_that_is_made_anew(file) -> None:
    file.forget()
    live = Learned(file.path)
    live.recall(PUT)
    file.path.write_bytes(b"no database at all" * 100)
    file.forget_all()
    live.note([LESSON])
    assert file.rows() == []
    live.recall(NEW)
    live.note([LESSON, LESSON._replace(function="f" * 32)])
    assert [row.function for row in file.rows()] == ["f" * 32]


def test_marks_and_what_was_met_are_bounded(file, monkeypatch) -> None:
    monkeypatch.setattr(learned, "_MOST_MARKS", 3)
    monkeypatch.setattr(learned, "_MOST_MET", 2)
    live = Learned(file.path)
    live.recall(PUT)
    for n in range(3):
        file.forget(f"other{n}")
    live.note([LESSON])
    assert file.rows() == []  # there may have been a mark before these three
    met = [Maker(f"{n}", "m.put") for n in range(3)]
    live.recall(met)
    file.forget("none")
    live.note([LESSON._replace(function=f"{n}") for n in range(3)])
    # Of what was not noted down as met the last mark that was read stands, and "none" does not fit.
    assert [row.function for row in file.rows()] == ["0", "1", "2"]


def test_what_was_met_before_there_was_a_file_is_forgotten_with_it(file) -> None:
    live = Learned(file.path)
    live.recall(PUT, read=False)
    file.forget()
    live.refresh()
    live.note([LESSON])
    assert file.rows() == []


def test_one_forgetting_is_not_for_ever_where_the_first_read_failed(file, monkeypatch) -> None:
    file.forget()
    live = Learned(file.path)
    use = live._use
    monkeypatch.setattr(live, "_use", lambda work, writes=False: False)
    live.recall(PUT)
    assert not live.is_stale()  # not again at once
    monkeypatch.setattr(live, "_use", use)
    live.recall(PUT)
    live.note([LESSON])
    assert [row.function for row in file.rows()] == [LESSON.function]


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


def test_while_another_process_is_at_it_for_long_nothing_is_noted_or_said(file, monkeypatch) -> None:
    monkeypatch.setattr(learned, "_WAIT_SECONDS", 0.01)
    file.note([LESSON])
    other = sqlite3.connect(file.path, isolation_level=None)
    other.execute("begin exclusive")
    file.note([LESSON._replace(function="e")])
    other.execute("rollback")
    other.close()
    assert [row.function for row in file.rows()] == ["d" * 32]
    file.note([LESSON._replace(function="e")])
    assert len(file.rows()) == 2


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
