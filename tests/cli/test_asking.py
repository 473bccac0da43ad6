"""``hetsched status`` and ``hetsched explain``: a running scheduler, asked from a shell."""

from __future__ import annotations

import os
import sys

import dask
import pytest
from package_source import ROOT
from plugged import Clumsy, Shelf
from programs import SCHEDULER, finish, ready_address, running

import hetsched
from hetsched import Client, LocalCluster
from hetsched.cli.asking import read_key, told
from hetsched.errors import ProtocolError

HETSCHED = (sys.executable, "-m", "hetsched.cli.group")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("sum-1", "sum-1"),
        ("('x', 0)", ("x", 0)),
        (' ( "x",0, (1,b"2") )', ("x", 0, (1, b"2"))),
        ("3", "3"),
        ("(3)", "(3)"),
        ("('x', f())", "('x', f())"),
        ("('x", "('x"),
        ("", ""),
    ],
)
def test_a_key_is_read_as_it_is_shown(text, key):
    assert read_key(text) == key


def test_status_in_lines():
    def worker(pool=None, **resources):
        return {"executors": {"cpu": 2, "io": 16}, "resources": resources, "pool": pool, "held": 1, "nbytes": 80,
                "assigned": {"cpu": 2, "io": 1}}  # fmt: skip

    job = {"tasks": 4, "waiting": 2, "assigned": 0, "done": 1, "failed": 1, "runs": 2, "seconds": 1.5, "nbytes": 160}
    info = {
        "workers": {"a": worker(), "b": worker("P", GPU=2.0)}, "clients": {"me": {}}, "tasks": 4, "graphs": 1,
        "seconds": 61.4, "jobs": {"etl": job}, "stranded": ["a task waits"],
        "plugins": {"Good": {"errors": 0, "last": ""}, "Bad": {"errors": 1, "last": "task_moved: ValueError: x"}},
    }  # fmt: skip
    assert list(told(info)) == [
        "2 workers, 1 client, 4 tasks in 1 graph; up for 61 s",
        "workers:",
        "  a: cpu 2, io 16; was given 3 tasks, holds 1 result of 80 bytes",
        "  b, pool P: cpu 2, io 16, GPU=2; was given 3 tasks, holds 1 result of 80 bytes",
        "jobs:",
        "  etl: 1 of 4 done, 2 waiting, 1 failed; 2 runs of 1.500 s, 160 bytes",
        "no worker can run:",
        "  a task waits",
        "plugins:",
        "  Good: 0 errors",
        "  Bad: 1 error, the last of them task_moved: ValueError: x",
    ]
    empty = {**info, "workers": {}, "clients": {}, "jobs": {}, "stranded": [], "plugins": {}}
    assert list(told(empty)) == ["0 workers, 0 clients, 4 tasks in 1 graph; up for 61 s"]


def test_a_scheduler_that_is_not_there(tmp_path):
    code, said = finish(*HETSCHED, "status", "tcp://127.0.0.1:1", "--timeout", "100ms")
    assert code == 1
    assert said.startswith("hetsched: cannot ask the scheduler: there is no scheduler at tcp://127.0.0.1:1: ")
    code, said = finish(*HETSCHED, "explain", "x", "--scheduler-file", str(tmp_path / "none"))
    assert code == 1
    assert said.startswith("hetsched: cannot ask the scheduler: [Errno 2] No such file")
    assert finish(*HETSCHED, "explain", "x", "here")[0] == 1


def test_a_plugin_that_cannot_be_loaded_keeps_a_scheduler_from_starting():
    assert finish(*SCHEDULER, "--port", "0", "--plugin", "nowhere:A") == (
        1,
        "hetsched-scheduler: the plugin nowhere:A cannot be imported: ModuleNotFoundError: No module named 'nowhere'\n",
    )


def test_plugins_of_a_scheduler_by_option_setting_and_entry_point(tmp_path):
    package = tmp_path / "made_up-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Name: made-up\nVersion: 1\n")
    (package / "entry_points.txt").write_text("[hetsched.plugins]\nours = plugged:Shelf\n")
    path = os.pathsep.join([str(tmp_path), str(ROOT), str(ROOT / "tests")])
    file = str(tmp_path / "scheduler.json")
    command = (*SCHEDULER, "--port", "0", "--scheduler-file", file, "--plugin", "plugged:shelf")
    with running(*command, PYTHONPATH=path, DASK_HETSCHED__SCHEDULER__PLUGINS="['plugged:Clumsy']") as scheduler:
        address = ready_address(scheduler)
        code, said = finish(*HETSCHED, "status", "--scheduler-file", file)
        assert (code, said.splitlines()[1:]) == (
            0, ["plugins:", "  Clumsy: 0 errors", "  Shelf: 0 errors", "  ours: 0 errors"]
        )  # fmt: skip
        with Client(address) as client, pytest.raises(ProtocolError, match="does not take plugins from clients"):
            client.register_plugin("plugged:Shelf")


def where(*_):
    return hetsched.current_task().worker


@pytest.fixture(scope="module")
def cluster():
    with dask.config.set({"hetsched.scheduler.no-worker-warning": 0.1}):
        cluster = LocalCluster(2, 1, plugins=[Shelf])
    with cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with Client(cluster) as client:
        yield client


@pytest.mark.limit(60)
def test_plugins_on_a_cluster_and_what_the_shell_says(cluster, client):
    with hetsched.annotate(shelf=1, job="books"):
        futures = client.map(where, range(6), key="read")
    assert client.gather(futures) == ["worker-1"] * 6
    assert client.register_plugin("plugged:Clumsy") == "Clumsy"
    client.submit(where, key="clumsy-1").result()
    with hetsched.annotate(shelf=None, job="lost"):
        lost = client.submit(where, key=("lost", 0))
    why = "executor 'cpu': 2 of 2 workers; plugin 'Shelf': 0 of 2; together: none"
    told = client.explain(("lost", 0))
    assert told == client.explain(lost)
    assert told["text"].splitlines()[:2] == [
        "('lost', 0): READY, and no worker can run it on the executor 'cpu'", f"  who could run it: {why}"
    ]  # fmt: skip
    with pytest.raises(KeyError, match="there is no task 'read-7' now: it was released, or never came"):
        client.explain("read-7")
    asked = (cluster.address, "--token-file", cluster.token_file)
    assert finish(*HETSCHED, "explain", "('lost',0)", *asked) == (0, told["text"] + "\n")
    code, said = finish(*HETSCHED, "explain", "('los", *asked)
    assert (code, said) == (
        1, 'hetsched: there is no task "(\'los" now: it was released, or never came; there is (\'lost\', 0)\n'
    )  # fmt: skip
    while not client.scheduler_info()["stranded"]:
        pass
    code, said = finish(*HETSCHED, "status", *asked)
    lines = said.splitlines()
    assert code == 0
    assert lines[0].startswith("2 workers, 2 clients, 7 tasks in 2 graphs; up for ")
    assert [line for line in lines if line.startswith("  books: 6 of 6 done; 6 runs of ")]
    assert "  lost: 0 of 1 done, 1 waiting; 0 runs of 0.000 s, 0 bytes" in lines
    assert [line for line in lines if line.startswith("  a task waits for a worker that could run it ('lost'): exec")]
    assert "  Shelf: 0 errors" in lines
    dropped = client.scheduler_info()["plugins"]["Clumsy"]
    assert dropped["errors"] >= 2
    assert dropped["last"] == "task_moved: RuntimeError: dropped clumsy-1"
    assert "RuntimeError: dropped clumsy-1" in cluster.log()
    lost.cancel()


def test_a_class_that_the_scheduler_cannot_import_is_refused():
    class Local(Clumsy):
        pass

    with pytest.raises(ValueError, match="cannot be imported by the scheduler, which is a process of its own"):
        LocalCluster(1, 1, plugins=[Local])
