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

    def _use(self, work, writes=False):
        self.threads.add(threading.current_thread().name)
        return super()._use(work, writes)


def double(x):
    return 2 * x


def test_the_loop_does_not_wait_for_the_file(tmp_path):
    file = Watched(tmp_path / "gpu.sqlite")
    with threaded_cluster("w") as cluster:
        cluster.cluster.server._learned = file
        with hetsched.Client(cluster.scheduler_address) as client:
            assert client.submit(double, 1).result() == 2
            (maker,) = file.asked
            Learned(file.path).note([Lesson(maker.digest, maker.name, "gpu", FOUND, 5, 0, 0)])
            future = client.submit(double, 2)
            assert future.result() == 4
            assert client.explain(future)["gpu"]["because"] != "nothing was seen of a device"
    assert file.threads
    assert "cluster" not in file.threads
