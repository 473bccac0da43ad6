"""``hetsched gpu``: what is remembered on this machine, what a scheduler thinks, and forgetting."""

from __future__ import annotations

import sqlite3

import pytest
from click.testing import CliRunner
from threaded_cluster import threaded_cluster

from hetsched.cli.group import hetsched
from hetsched.core.evidence import RESULT, Evidence
from hetsched.core.gpu import Lesson
from hetsched.gpu import learned
from hetsched.gpu.learned import Learned, default_path

LESSON = Lesson("d" * 32, "m.put", "gpu", (Evidence(RESULT, 1.0, "its result is on a device"),), 498, 2, 2)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def call(*args):
        done = CliRunner().invoke(hetsched, ["gpu", *args])
        return done.exit_code, done.output.splitlines()

    return call


def test_what_is_remembered_here(run) -> None:
    assert run("report") == (0, [f"{default_path()}: 0 functions", "nothing was seen of a device"])
    follow = LESSON._replace(function="e" * 32, name="m.follow", evidence=(), right=5, wrong=0, first=0)
    Learned().note([LESSON, follow])
    assert run("report") == (
        0,
        [
            f"{default_path()}: 2 functions",
            "prefix    verdict         belief  right  wrong  first  evidence",
            "m.follow  gpu (by input)  0.00    5      0      0",
            "m.put     gpu             1.00    498    2      2      result: its result is on a device",
        ],
    )


def test_forgetting(run) -> None:
    Learned().note([LESSON, LESSON._replace(function="e" * 32, name="m.follow")])
    assert run("forget") == (2, [
        "Usage: hetsched gpu forget [OPTIONS] [PATTERN]",
        "Try 'hetsched gpu forget --help' for help.",
        "",
        "Error: say of which functions, by a PATTERN, or --all",
    ])  # fmt: skip
    assert run("forget", "fol*") == (0, ["forgot 1 functions"])
    assert [row.name for row in Learned().rows()] == ["m.put"]
    assert run("forget", "--all") == (0, [f"forgot everything in {default_path()}"])
    assert Learned().rows() == []
    default_path().write_bytes(b"no database at all" * 100)
    assert run("forget", "--all") == (0, [f"forgot everything in {default_path()}"])
    default_path().unlink()
    assert run("forget", "fol*") == (0, ["forgot 0 functions"])


def test_forgetting_while_another_process_is_at_it(run, monkeypatch) -> None:
    Learned().note([LESSON])
    monkeypatch.setattr(learned, "_FORGET_SECONDS", 0.01)
    other = sqlite3.connect(default_path(), isolation_level=None)
    other.execute("begin exclusive")
    for what in ("m.*", "--all"):
        code, (line,) = run("forget", what)
        assert (code, line) == (
            1, f"hetsched gpu forget: other processes are using {default_path()}: nothing was forgotten",
        )  # fmt: skip
    other.close()


class OnDevice:
    """Looks to whoever asks as if it were on a device."""

    nbytes = 8
    __cuda_array_interface__ = {"shape": (1,), "typestr": "<f8", "data": (1 << 20, False), "version": 3}


def test_what_a_scheduler_thinks(run) -> None:
    import hetsched as package

    with threaded_cluster("w") as cluster, package.Client(cluster.scheduler_address) as client:
        assert client.gpu_report() == []
        package.wait([client.submit(OnDevice, key="make-1")])
        (row,) = client.gpu_report()
        assert (row.prefix, row.verdict, row.by_input, row.wrong, row.first) == ("make", "gpu", False, 1, 1)
        assert row.evidence == ((RESULT, 1.0, "its result is on a device", 1),)
        code, lines = run("report", cluster.scheduler_address)
        assert (code, lines[1].split()[:6]) == (0, ["make", "gpu", "1.00", "0", "1", "1"])
    code, (line,) = run("report", "tcp://127.0.0.1:1")
    assert code == 1
    assert line.startswith("hetsched gpu report: ")
