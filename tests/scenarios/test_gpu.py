"""GPU tasks that nobody has marked, on a cluster: scenario P21, and what belongs to it. The device is a stand-in."""

from __future__ import annotations

import os
import threading
from collections import Counter
from pathlib import Path

import dask
import pytest

import hetsched
from hetsched import Client, LocalCluster
from hetsched.gpu.learned import Learned

pytestmark = [pytest.mark.limit(60), pytest.mark.filterwarnings("ignore:.*on a device.*")]

DEVICE = Path(__file__).parent / "device"


def note(log, name):
    """Write down, in a file all processes share, what ran where."""
    lane = threading.current_thread().name.rpartition("-")[0].removeprefix("hetsched-")
    line = f"{name} {hetsched.current_task().worker} {lane}\n"
    with open(log, "a", encoding="utf-8") as file:
        file.write(line)


def make(log, n, on_device=True):
    import fakegpu

    note(log, "make")
    return getattr(fakegpu, "Array")([n]) if on_device else [n]  # noqa: B009 - so that the code says nothing


def fetch(log, array):
    note(log, "fetch")
    return int(array._view[0])


def picky(log, n):
    note(log, "picky")
    if not threading.current_thread().name.startswith("hetsched-gpu"):
        raise type("CUDARuntimeError", (RuntimeError,), {"__module__": "cupy_backends.cuda.api.runtime"})("no context")
    return n


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.syspath_prepend(str(DEVICE))
    with LocalCluster(0, 2) as cluster, Client(cluster) as client:
        cluster.add_worker("gpu-1", gpus=1)
        yield cluster, client


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "ran"

    def lines(name):
        """What ran of a kind since the last look: ``(worker, lane)``, counted."""
        found = [line.split() for line in path.read_text().splitlines()]
        os.truncate(path, 0)
        return Counter(tuple(where) for kind, *where in found if kind == name)

    lines.path = str(path)
    return lines


def test_p21_what_was_learned_is_told_to_all_and_can_be_unlearned(cluster, log):
    cluster, client = cluster
    first = client.submit(make, log.path, 0)
    hetsched.wait([first])
    assert log("make") == {("gpu-1", "cpu"): 1}
    found = client.explain(first)["gpu"]
    assert (found["verdict"], found["because"]) == ("gpu", "result: its result is on a device")
    cluster.add_worker("gpu-2", gpus=1)
    cluster.add_worker("cpu", gpus=0)
    # The first that gpu-2 runs is in its GPU lane, and none is on the worker without one.
    some = client.map(make, [log.path] * 3, range(3), workers=["gpu-2", "cpu"])
    hetsched.wait(some)
    assert log("make") == {("gpu-2", "gpu"): 3}
    # An annotation is stronger.
    hetsched.wait([client.submit(make, log.path, 1, workers="gpu-1", executor="cpu")])
    assert log("make") == {("gpu-1", "cpu"): 1}
    # Ten results on the host, and it is a CPU task.
    for n in range(12):
        client.submit(make, log.path, n, False, workers="gpu-1").result()
    where = log("make")
    assert where["gpu-1", "gpu"] >= 10
    hetsched.wait([client.submit(make, log.path, 1, False, workers="cpu")])
    assert log("make") == {("cpu", "cpu"): 1}


def test_what_reads_a_device_s_data_stays_with_it(cluster, log):
    cluster, client = cluster
    cluster.add_worker("cpu", gpus=0)
    arrays = client.map(make, [log.path] * 10, range(10), executor="gpu")
    sums = client.map(fetch, [log.path] * 10, arrays)
    assert client.gather(sums) == list(range(10))
    assert log("fetch") == {("gpu-1", "gpu"): 10}
    # also where the arrays were there before
    assert client.gather(client.map(fetch, [log.path] * 10, arrays)) == list(range(10))
    assert log("fetch") == {("gpu-1", "gpu"): 10}


def test_a_task_that_fails_for_want_of_a_device_goes_to_one(cluster, log):
    cluster, client = cluster
    cluster.add_worker("cpu", gpus=0)
    assert client.submit(picky, log.path, 5, workers=["cpu", "gpu-1"]).result() == 5
    where = log("picky")
    assert where.pop(("gpu-1", "gpu")) == 1
    assert sum(where.values()) == 1
    assert client.gather(client.map(picky, [log.path] * 6, range(6))) == list(range(6))
    assert log("picky") == {("gpu-1", "gpu"): 6}


def test_without_any_lane_it_runs_on_the_cpu_and_is_explained(monkeypatch, log):
    monkeypatch.syspath_prepend(str(DEVICE))
    with LocalCluster(1, 1, gpus=0) as cluster, Client(cluster) as client:
        futures = client.map(make, [log.path] * 3, range(3))
        hetsched.wait(futures)
        assert log("make") == {("worker-0", "cpu"): 3}
        found = client.explain(futures[2])
        assert found["gpu"]["because"].endswith("no worker that it may run on has a GPU lane, so it runs on the CPU")
        assert found["gpu"]["because"] in found["text"]


def test_what_was_forgotten_is_not_written_by_the_scheduler_that_had_learned_it(monkeypatch, tmp_path, log):
    monkeypatch.syspath_prepend(str(DEVICE))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = Learned(tmp_path / "hetsched" / "gpu.sqlite")
    for then, ran in ((0, []), (1, [1])):
        learns = dask.config.set({"hetsched.gpu.learn": True})
        with learns, LocalCluster(1, 1, gpus=1) as cluster, Client(cluster) as client:
            hetsched.wait(client.map(make, [log.path] * 3, range(3)))
            assert client.explain(client.submit(make, log.path, 3))["gpu"]["verdict"] == "gpu"
            file.forget()
            for n in range(then):  # what it learns of this is new
                hetsched.wait([client.submit(make, log.path, 4 + n)])
        assert [row.ran for row in file.rows()] == ran
