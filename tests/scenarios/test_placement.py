"""Which worker a task runs on: scenarios P03 to P22 as far as annotations, resources and late workers go.

Automated: P03 (the annotation), P07, P09, P10, P12, P13, P15, P19, P22.

P01, P04, P06 and the rest of P03 and P07 (pools that spread to neighbours by themselves) are in ``test_pools.py``.

P12 and P19 with tasks that nobody has marked are in ``test_unmarked.py``. P16 is in ``tests/gpu/test_detection.py``,
P18 in ``test_devices.py``, P21 in ``test_gpu.py``.
"""

from __future__ import annotations

import datetime
import logging
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack

import dask
import dask.array as da
import numpy as np
import pytest
from gates import Gate, pass_gate
from programs import SCHEDULER, WORKER, finish, ready_address, running, until

import hetsched
from hetsched import Client, LocalCluster
from hetsched.errors import NoWorkerError

pytestmark = pytest.mark.limit(60)

HETSCHED = (sys.executable, "-m", "hetsched.cli.group")

SCALE = 0.5
"""Of the seconds in the scenarios."""


def where(*_args, **_kwargs):
    return hetsched.current_task().worker


def stay(seconds, *_args):
    """Run for a time; tells where and when."""
    began = time.time()
    time.sleep(seconds)
    return hetsched.current_task().worker, began, time.time()


def hold(gate, *_args):
    pass_gate(gate)
    return hetsched.current_task().worker


def most_at_once(spans):
    ends = sorted([(began, 1) for _, began, _ in spans] + [(ended, -1) for _, _, ended in spans])
    now = most = 0
    for _, step in ends:
        now += step
        most = max(most, now)
    return most


class Logged(logging.Handler):
    """What the client's log says, and an event for each word that is waited for."""

    def __init__(self):
        super().__init__()
        self.said = []
        self._more = threading.Condition()

    def emit(self, record):
        with self._more:
            self.said.append(record.getMessage())
            self._more.notify_all()

    def wait(self, seconds):
        """The next sentence."""
        with self._more:
            assert self._more.wait_for(lambda: self.said, seconds)
            return self.said.pop(0)


@pytest.fixture
def client_log():
    log = logging.getLogger("hetsched.client")
    handler = Logged()
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)


# P03, P07: pools by annotation


def test_p03_no_pool_lifts_the_restriction(tmp_path):
    gate = Gate(tmp_path)
    with LocalCluster(pools=["A", "B"], threads_per_worker=1) as cluster, Client(cluster) as client:
        assert client.gather(client.map(where, range(8), pool="A")) == ["worker-0"] * 8
        with hetsched.annotate(pool="A"):
            held = dask.delayed(hold)(gate.path)
            bound = dask.delayed(where)(1)
            with hetsched.annotate(pool=None):
                free = dask.delayed(where)(2)
                after = dask.delayed(where)(free)
        holding, waiting = client.compute(held), client.compute(bound)
        gate.reached()  # A has no room now
        assert client.compute([free, after], sync=True) == ["worker-1"] * 2
        assert not waiting.done()
        gate.open()
        assert client.gather([holding, waiting]) == ["worker-0"] * 2


def test_p07_data_that_only_its_pool_can_read(tmp_path):
    array = np.arange(400.0).reshape(20, 20)
    arrays = {"A": array, "B": 3 * array}
    with ExitStack() as stack:
        scheduler = stack.enter_context(running(*SCHEDULER, "--port", "0"))
        address = ready_address(scheduler)
        for pool, values in arrays.items():
            folder = tmp_path / pool
            folder.mkdir()
            np.save(folder / "data.npy", values)
            command = " ".join((*WORKER, address, "--no-nanny", "--pool", pool, "--nthreads", "2"))
            worker = stack.enter_context(running("sh", "-c", f"cd {folder} && exec {command}"))
            until(worker, "serves the scheduler")
        client = stack.enter_context(Client(address))
        opened = {}
        for pool in arrays:
            with hetsched.annotate(pool=pool):
                shape = dask.delayed(lambda path: np.load(path).shape)("data.npy").compute(scheduler=client)
                row = dask.delayed(lambda path, n: np.load(path)[n].copy())
                rows = [da.from_delayed(row("data.npy", n), (shape[1],), float) for n in range(shape[0])]
                opened[pool] = da.stack(rows) + 0.5
        difference = opened["B"] - opened["A"]
        np.testing.assert_array_equal(difference.compute(scheduler=client), 2 * array)
        assert difference.mean().compute(scheduler=client) == (2 * array).mean()
        (tmp_path / "A" / "data.npy").unlink()
        with hetsched.annotate(pool="A"), pytest.raises(FileNotFoundError):
            client.submit(lambda: np.load("data.npy")).result()


# P09, P10: resources


@pytest.fixture(scope="module")
def two():
    """Two workers of four threads, one GPU lane and one licence."""
    with LocalCluster(2, 4, gpus=1, resources={"licence": 1}) as cluster, Client(cluster) as client:
        client.gather(client.map(stay, [0] * 8))
        yield client


@pytest.mark.parametrize("demand", [{"executor": "gpu"}, {"resources": {"GPU": 1}}, {"resources": {"licence": 1}}])
def test_p09_resource_counts_are_kept(two, demand):
    seconds = 0.1 * SCALE
    began = time.time()
    demanding = two.map(stay, [seconds] * 20, key="demanding", **demand)
    plain = two.map(stay, [seconds] * 20, key="plain")
    spans, beside = two.gather([demanding, plain])
    lasted = time.time() - began
    by_worker = {name: [span for span in spans if span[0] == name] for name in ("worker-0", "worker-1")}
    assert {name: most_at_once(found) for name, found in by_worker.items()} == {"worker-0": 1, "worker-1": 1}
    assert min(map(len, by_worker.values())) >= 5
    assert lasted < 1.6 * SCALE + 1  # on one worker it would be 2 s, and 4 s with the plain ones after them
    first, last = min(span[1] for span in spans), max(span[2] for span in spans)
    assert any(first < began < last for _, began, _ in beside)


@pytest.fixture(scope="module")
def one():
    """A worker of everything."""
    with LocalCluster(1, 1, gpus=1, resources={"foo": 1}, pools=["P"]) as cluster, Client(cluster) as client:
        yield cluster, client


@pytest.mark.parametrize("demand", [{"resources": {"foo": 1}}, {"executor": "gpu"}, {"pool": "P"}])
def test_p10_a_late_worker_gets_its_share(one, tmp_path, demand):
    cluster, client = one
    gate = Gate(tmp_path)
    first = client.submit(hold, gate.path, **demand)
    gate.reached()
    rest = client.map(stay, [0.01] * 40, **demand)
    late = cluster.add_worker("late", gpus=1, resources={"foo": 1}, pool="P")
    # What the first worker was given before the second came it may keep, and no more.
    done = client.as_completed(rest)
    ran = Counter(next(done).result()[0] for _ in range(30))
    gate.open()
    ran.update(future.result()[0] for future in done)
    assert first.result() == "worker-0"
    assert ran.total() == 40
    assert ran[late] >= 30
    cluster.kill_worker(late)


# P12, P15: GPU workers


def test_p12_cpu_tasks_do_not_use_up_the_gpu_node(tmp_path):
    with LocalCluster(0, 2) as cluster, Client(cluster) as client:
        cluster.add_worker("gpu-node", nthreads=2, gpus=1)
        for name in ("cpu-1", "cpu-2"):
            cluster.add_worker(name, nthreads=2)
        gates = [Gate(tmp_path, f"{n}") for n in range(3)]
        held = [client.submit(hold, gate.path) for gate in gates]
        for gate in gates:
            gate.reached()
        for gate in gates:
            gate.open()
        assert {"gpu-node"}.isdisjoint(client.gather(held))
        assert client.submit(where, executor="gpu").result() == "gpu-node"


def make(nbytes):
    return np.zeros(nbytes, np.uint8)


def use(array, seconds):
    time.sleep(seconds)
    return hetsched.current_task().worker


@pytest.fixture(scope="module")
def gpu_data():
    """100 MB on a GPU worker, beside an idle worker without a GPU."""
    with LocalCluster(0, 4) as cluster, Client(cluster) as client:
        cluster.add_worker("gpu-1", gpus=1)
        large = client.submit(make, 100_000_000, executor="gpu")
        hetsched.wait([large])
        cluster.add_worker("cpu", gpus=0)
        yield cluster, client, large


def test_p15_gpu_data_does_not_leave_for_gpu_work(gpu_data):
    _, client, large = gpu_data
    assert client.gather(client.map(use, [large] * 10, seconds=0.01, executor="gpu")) == ["gpu-1"] * 10
    assert list(client.who_has([large]).values()) == [["gpu-1"]]


def test_p15_what_is_small_moves_rather_than_waits(gpu_data):
    cluster, client, _ = gpu_data
    small = client.submit(make, 10, executor="gpu")
    hetsched.wait([small])
    cluster.add_worker("gpu-2", gpus=1)
    client.submit(make, 1, workers="gpu-2").result()  # its first task waits for this module to be imported
    ran = Counter(client.gather(client.map(use, [small] * 10, seconds=0.1, executor="gpu", key="slow")))
    assert set(ran) == {"gpu-1", "gpu-2"}
    assert min(ran.values()) >= 3


def test_p15_what_is_large_waits_rather_than_moves(gpu_data):
    _, client, large = gpu_data
    assert client.gather(client.map(use, [large] * 10, seconds=0.01, executor="gpu")) == ["gpu-1"] * 10
    assert list(client.who_has([large]).values()) == [["gpu-1"]]


# Copies


def test_copies_are_kept_by_as_many_workers_as_was_asked_for(two):
    """A result that many read, or that must not be lost with its worker, is on all of them."""
    with hetsched.annotate(replicate="all"):
        everywhere = two.submit(make, 1000)
    with hetsched.annotate(replicate=1):
        once = two.submit(make, 1000)
    hetsched.wait([everywhere, once])
    while len(two.who_has(everywhere)[everywhere.key]) < 2:
        assert len(two.who_has(once)[once.key]) == 1
    assert sorted(two.who_has(everywhere)[everywhere.key]) == ["worker-0", "worker-1"]
    assert len(two.who_has(once)[once.key]) == 1


# P13: what nobody can do


def test_p13_a_resource_that_does_not_exist(client_log):
    with dask.config.set({"hetsched.scheduler.no-worker-warning": 0.2}):
        cluster = LocalCluster(1, 1, resources={"foo": 2}, pools=["P"])
    with cluster, Client(cluster) as client, Client(cluster) as other:
        future = client.submit(where, key="tpu-task-1", resources={"TPU": 1})
        said = client_log.wait(10)
        assert said == (
            "a task waits for a worker that could run it ('tpu-task'): executor 'cpu': 1 of 1 worker; "
            "resources TPU=1: 0 of 1; together: none; the cluster has executors cpu, io, process; of resources at most "
            "foo=2 on a worker; pools P"
        )
        assert said in cluster.log()
        assert client.scheduler_info()["stranded"] == (said,)
        why = said.partition("('tpu-task'): ")[2].partition("; the cluster")[0]
        assert f"  who could run it: {why}" in client.explain(future)["text"].splitlines()
        code, status = finish(*HETSCHED, "status", cluster.address, "--token-file", cluster.token_file)
        assert (code, f"  {said}" in status.splitlines()) == (0, True)
        assert not future.done()
        assert cluster.add_worker("tpu", resources={"TPU": 1}) == future.result()
        assert other.scheduler_info()["stranded"] == ()
    assert client_log.said == []  # once, and only those whose task it is


def test_p13_an_option_makes_it_an_error(client_log):
    with dask.config.set({"hetsched.scheduler.no-workers-timeout": 0.3}):
        cluster = LocalCluster(1, 1)
    with cluster, Client(cluster) as client:
        for demand in ({"resources": {"TPU": 1}}, {"pool": "none"}, {"executor": "gpu"}, {"workers": ["nobody"]}):
            futures = client.map(where, range(3), key="t", **demand)
            after = client.submit(where, futures[1])
            for future in (*futures, after):
                with pytest.raises(NoWorkerError, match=r"no worker can run the task .*, and none came within 0\.3 s"):
                    future.result()
        assert client.submit(where).result() == "worker-0"
        assert client.scheduler_info()["stranded"] == ()


# P19: one process has the GPU


FAKE = """
import os, threading
_made = False
def context():
    global _made
    if not _made:
        _made = True
        with open(os.environ["FAKE_LOG"], "a") as log:
            log.write(f"{os.getpid()} {threading.current_thread().name}\\n")
class Array:
    def __init__(self, values):
        context()
        self.values = values
    @property
    def __cuda_array_interface__(self):
        return {"shape": self.values.shape, "typestr": self.values.dtype.str, "data": (0, False), "version": 3}
    @property
    def nbytes(self):
        return self.values.nbytes
    def get(self):
        context()
        return self.values
    def doubled(self):
        return Array(2 * self.values)
"""


@pytest.mark.filterwarnings("ignore::hetsched.errors.DeviceWarning")
def test_p19_the_gpu_does_not_leak_into_other_processes(tmp_path, monkeypatch):
    (tmp_path / "fakegpu_p19.py").write_text(FAKE)
    log = tmp_path / "contexts"
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("FAKE_LOG", str(log))
    with LocalCluster(0, 2) as cluster, Client(cluster) as client:
        cluster.add_worker("gpu", gpus=1)
        cluster.add_worker("cpu", gpus=0)
        arrays = client.map(_make_on_device, range(4), executor="gpu")
        doubled = client.map(_double, arrays, executor="gpu")
        sums = client.map(_sum, doubled, workers=["cpu"])
        assert client.gather(sums) == [0, 20, 40, 60]
        assert client.gather(client.map(_sum, doubled, workers=["gpu"])) == [0, 20, 40, 60]
        gathered = client.gather(doubled)
        assert [type(value) for value in gathered] == [np.ndarray] * 4
        pid = cluster.workers["gpu"]
    (line,) = log.read_text().splitlines()
    assert line.split()[0] == str(pid)
    assert line.split()[1].startswith("hetsched-gpu")
    assert "fakegpu_p19" not in sys.modules


def _make_on_device(n):
    import fakegpu_p19

    return fakegpu_p19.Array(np.full(10, n))


def _double(array):
    return array.doubled()


def _sum(array):
    values = array.get() if hasattr(array, "get") else array
    return int(values.sum())


# P22: tasks know of themselves


def own():
    return hetsched.current_task()


@pytest.mark.parametrize("executor", ["cpu", "io", "gpu", "process"])
def test_p22_annotations_reach_the_worker(one, executor):
    notes = {"priority": 3, "retries": 1, "job": "j", "nested": {"a": [1, (2, None)], 3: b"x"}, "day": DAY}
    _, client = one
    with hetsched.annotate(**notes, executor=executor, pool="P"):
        task = dask.delayed(own)()
    known = task.compute(scheduler=client)
    assert "test_p22_annotations_reach_the_worker" in known.annotations.pop("provenance")
    assert known == ({**notes, "executor": executor, "pool": "P"}, executor, "worker-0", "P")
    assert client.submit(own).result() == ({}, "cpu", "worker-0", "P")
    assert hetsched.current_task() is None


DAY = datetime.date(2026, 2, 3)
"""A value that a message cannot say."""
