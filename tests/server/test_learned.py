"""The scheduler's process reads and writes what was learned of GPU tasks, and its loop does not wait for the file."""

from __future__ import annotations

import threading

from threaded_cluster import threaded_cluster

import hetsched
from hetsched.core.evidence import RESULT, Evidence
from hetsched.core.gpu import Lesson
from hetsched.core.makers import Maker
from hetsched.gpu.learned import Learned

FOUND = (Evidence(RESULT, 1.0, "its result is on a device"),)


class Watched(Learned):
    """Writes down which functions were asked about, and which threads used the file."""

    def __init__(self, path):
        super().__init__(path)
        self.threads = set()
        self.asked: list[Maker] = []

    def recall(self, makers, read=True):
        self.asked += makers
        return super().recall(makers, read)

    def _use(self, *args, **options):
        self.threads.add(threading.current_thread().name)
        return super()._use(*args, **options)


def double(x):
    return 2 * x


class OnDevice:
    """Looks to whoever asks as if it were on a device."""

    nbytes = 8
    __cuda_array_interface__ = {"shape": (1,), "typestr": "<f8", "data": (1 << 20, False), "version": 3}


def make(n):
    return OnDevice()


def test_the_loop_does_not_wait_for_the_file(tmp_path):
    file = Watched(tmp_path / "gpu.sqlite")
    with threaded_cluster("w") as cluster:
        cluster.cluster.server._lessons.file = file
        with hetsched.Client(cluster.scheduler_address) as client:
            assert client.submit(double, 1).result() == 2
            (maker,) = file.asked
            Learned(file.path).note([Lesson(maker.digest, maker.name, "gpu", FOUND, 5, 0, 0)])
            future = client.submit(double, 2)
            assert future.result() == 4
            assert client.explain(future)["gpu"]["because"] != "nothing was seen of a device"
    assert file.threads
    assert "cluster" not in file.threads


def test_what_a_person_has_forgotten_the_scheduler_forgets_with_the_next_graph_at_the_latest(tmp_path):
    file = Learned(tmp_path / "gpu.sqlite")
    with threaded_cluster("w") as cluster:
        cluster.cluster.server._lessons.file = file
        with hetsched.Client(cluster.scheduler_address) as client:
            hetsched.wait([client.submit(make, n, key=f"{name}-{n}") for n in range(3) for name in ("put", "take")])
            assert [(row.prefix, row.verdict) for row in client.gpu_report()] == [("put", "gpu"), ("take", "gpu")]
            Learned(file.path).forget("put")
            assert client.submit(double, 1).result() == 2
            assert [(row.prefix, row.verdict) for row in client.gpu_report()] == [("take", "gpu")]
    assert [row.name for row in file.rows()] == ["take"]
