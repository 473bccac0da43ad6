"""What the last computation did, task by task."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

import hetsched
from hetsched import Report, TaskRow

pytestmark = pytest.mark.filterwarnings("ignore:no GPU was found:UserWarning")


def inc(x):
    return x + 1


DSK = {("load", 0): (np.zeros, 10), ("load", 1): (np.zeros, 10), "total-0a1b": (sum, [("load", 0), ("load", 1)])}


def test_one_row_per_task():
    hetsched.get(DSK, "total-0a1b", num_workers=1, annotations={"load": {"executor": "io", "priority": 2}})
    report = hetsched.last_report()
    assert type(report) is Report
    assert len(report) == 3
    assert list(report) == report.tasks
    rows = {row.key: row for row in report}
    assert set(rows) == set(DSK)
    for key, row in rows.items():
        assert type(row) is TaskRow
        assert 0 <= row.start <= row.stop <= report.seconds
        assert (row.worker, row.nbytes, row.cuda_nbytes) == ("embedded", 80, 0)
        if key == "total-0a1b":
            assert (row.prefix, row.executor, dict(row.annotations)) == ("total", "cpu", {})
        else:
            assert (row.prefix, row.executor) == ("load", "io")
            assert dict(row.annotations) == {"executor": "io", "priority": 2}
    assert report.tasks[-1].key == "total-0a1b"
    assert report.tasks[-1].start >= max(row.stop for row in report.tasks[:-1])


def test_sums_by_executor():
    notes = {("load", 0): {"executor": "io"}, ("load", 1): {"executor": "gpu"}}
    hetsched.get(DSK, "total-0a1b", annotations=notes)
    report = hetsched.last_report()
    sums = report.by_executor()
    assert {name: (n, nbytes, cuda) for name, (n, _, nbytes, cuda) in sums.items()} == {
        "io": (1, 80, 0), "gpu": (1, 80, 0), "cpu": (1, 80, 0),
    }  # fmt: skip
    assert all(seconds >= 0 for _, seconds, _, _ in sums.values())
    assert repr(report).startswith("<Report 3 tasks in ")
    assert "1 on io" in repr(report)


def test_bytes_on_a_device():
    class OnDevice:
        @property
        def __cuda_array_interface__(self):
            return {"shape": (5,), "typestr": "<f8", "data": (1, False), "version": 3}

    hetsched.get({"d": (OnDevice,)}, "d")
    (row,) = hetsched.last_report()
    assert (row.nbytes, row.cuda_nbytes) == (40, 40)


def test_literals_have_no_row():
    hetsched.get({"a": 1, "b": "a", "c": (inc, "b")}, ["a", "c"])
    assert [row.key for row in hetsched.last_report()] == ["c"]
    hetsched.get({"a": 1}, "a")
    assert hetsched.last_report().tasks == []
    assert "none" in repr(hetsched.last_report())


def test_what_fails_leaves_the_last_report():
    hetsched.get({"good": (inc, 1)}, "good")
    before = hetsched.last_report()
    with pytest.raises(ValueError, match="x"):
        hetsched.get({"a": (int, "x")}, "a")
    assert hetsched.last_report() is before


def test_a_retried_task_has_one_row():
    tries = []

    def flaky():
        tries.append(1)
        if len(tries) < 3:
            raise OSError

    hetsched.get({"a": (flaky,)}, "a", annotations={"a": {"retries": 5}})
    assert [row.key for row in hetsched.last_report()] == ["a"]


def test_each_thread_has_its_own():
    both = threading.Barrier(2)
    seen = {}

    def call(name):
        hetsched.get(
            {name: (both.wait, 20), f"{name}2": (inc, name)}, f"{name}2", annotations={name: {"executor": "io"}}
        )
        both.wait(20)
        seen[name] = [row.key for row in hetsched.last_report()]

    threads = [threading.Thread(target=call, args=(name,)) for name in ("p", "q")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {"p": ["p", "p2"], "q": ["q", "q2"]}


def test_inner_calls_have_reports_of_their_own():
    inner = []

    def outer():
        hetsched.get({"in": (inc, 1)}, "in")
        inner.append([row.key for row in hetsched.last_report()])

    hetsched.get({"out": (outer,)}, "out")
    assert inner == [["in"]]
    assert [row.key for row in hetsched.last_report()] == ["out"]


def test_there_is_none_before_the_first():
    code = "import hetsched; assert hetsched.last_report() is None"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_thread_that_computed_nothing_sees_the_last_of_any():
    hetsched.get({"a": (inc, 1)}, "a")
    seen = []
    thread = threading.Thread(target=lambda: seen.append(hetsched.last_report()))
    thread.start()
    thread.join()
    assert seen == [hetsched.last_report()]
