"""Scenarios P12 and P19 with tasks that nobody has marked: their code, or their inputs, say that they are for the GPU.

The device library is a stand-in that has cupy's name. Only workers may import it.
"""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest
from gates import Gate, pass_gate

import hetsched
from hetsched import Client, LocalCluster

pytestmark = [pytest.mark.limit(60), pytest.mark.filterwarnings("ignore::hetsched.errors.DeviceWarning")]

CUPY = """
import os, threading, types

import numpy

_mine = threading.local()

def context():
    if not hasattr(_mine, "made"):
        _mine.made = True
        with open(os.environ["FAKE_LOG"], "a") as log:
            log.write(f"{os.getpid()} {threading.current_thread().name}\\n")

class ndarray:
    def __init__(self, values):
        context()
        self.values = values

    shape = property(lambda self: self.values.shape)
    dtype = property(lambda self: self.values.dtype)
    strides = property(lambda self: self.values.strides)
    itemsize = property(lambda self: self.values.itemsize)
    nbytes = property(lambda self: self.values.nbytes)
    device = types.SimpleNamespace(id=0)
    data = property(lambda self: types.SimpleNamespace(ptr=self.values.ctypes.data))

    def get(self):
        return self.values

    def __mul__(self, other):
        return ndarray(self.values * other)

def full(shape, value):
    return ndarray(numpy.full(shape, value))
"""


@pytest.fixture
def contexts(tmp_path, monkeypatch):
    """What gives each thread that has made something on the device: its process and its name."""
    (tmp_path / "cupy.py").write_text(CUPY)
    log = tmp_path / "contexts"
    log.touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("FAKE_LOG", str(log))
    yield lambda: [tuple(line.split(maxsplit=1)) for line in log.read_text().splitlines()]
    assert "cupy" not in sys.modules


def place():
    """Which worker and which lane this task runs in."""
    lane = threading.current_thread().name.rpartition("-")[0].removeprefix("hetsched-")
    return hetsched.current_task().worker, lane


def hold(gate):
    pass_gate(gate)
    return place()


def there_and_back(n):
    import cupy

    return place(), int(cupy.full(4, n).get().sum())


def make(n):
    import cupy

    return cupy.full(10, n)


def double(array):
    return array * 2


def total(array):
    values = array if isinstance(array, np.ndarray) else array.get()
    return place(), int(values.sum())


def test_p12_cpu_tasks_do_not_use_up_the_gpu_node_and_gpu_tasks_find_it(tmp_path, contexts):
    with LocalCluster(0, 2) as cluster, Client(cluster) as client:
        cluster.add_worker("gpu-node", nthreads=2, gpus=1)
        for name in ("cpu-1", "cpu-2"):
            cluster.add_worker(name, nthreads=2, gpus=0)
        gates = [Gate(tmp_path, f"{n}") for n in range(3)]
        held = [client.submit(hold, gate.path) for gate in gates]
        for gate in gates:
            gate.reached()
        # While three of four CPU threads are taken, from the first task of its kind on:
        assert client.gather(client.map(there_and_back, range(6))) == [(("gpu-node", "gpu"), 4 * n) for n in range(6)]
        assert client.submit(place).result()[0] in ("cpu-1", "cpu-2")
        for gate in gates:
            gate.open()
        assert {worker for worker, _ in client.gather(held)} <= {"cpu-1", "cpu-2"}
        pid = cluster.workers["gpu-node"]
    assert contexts() == [(str(pid), "hetsched-gpu-1")]


def test_p19_the_gpu_does_not_leak_into_other_processes_or_threads(contexts):
    with LocalCluster(0, 2) as cluster, Client(cluster) as client:
        cluster.add_worker("gpu", nthreads=2, gpus=1)
        cluster.add_worker("cpu", nthreads=2, gpus=0)
        doubled = client.map(double, client.map(make, range(8)))
        # What takes and gives host data in between, and is no GPU task:
        assert {lane for _, lane in client.gather(client.map(lambda _: place(), range(8)))} == {"cpu"}
        sums = [20 * n for n in range(8)]
        assert client.gather(client.map(total, doubled, workers=["cpu"])) == [(("cpu", "cpu"), n) for n in sums]
        assert client.gather(client.map(total, doubled, workers=["gpu"])) == [(("gpu", "gpu"), n) for n in sums]
        assert [type(value) for value in client.gather(doubled)] == [np.ndarray] * 8
        pid = cluster.workers["gpu"]
    assert contexts() == [(str(pid), "hetsched-gpu-1")]
