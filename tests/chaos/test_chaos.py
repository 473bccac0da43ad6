"""Workers killed and frozen at random moments, and new ones started, while work is done: all results are right.

A seed says what is done, to whom, and when; how that falls together with the work is the machine's. A run that fails
prints its seed and all that was done.
"""

from __future__ import annotations

import gc
import random
import signal
import threading
import time

import pytest
from chaotic import Persist, Shuffle, Tree

from hetsched import Client, LocalCluster

pytestmark = pytest.mark.limit(240)

SILENCE = 0.6
"""Seconds after which a frozen worker is lost."""

WORKERS = 3
PAUSES = (0.0, 0.25)
"""Seconds between two acts of harm."""

RUN_SECONDS = 1.0
"""So long is work done again and again in a run, while harm is."""

RUNS_A_CLUSTER = 10
SECONDS = 45.0
"""A run that takes longer hangs."""


class Harm(threading.Thread):
    """Does something to some worker again and again, until it is told to end."""

    def __init__(self, cluster: LocalCluster, seed: int) -> None:
        super().__init__(name="harm")
        self._cluster = cluster
        self._random = random.Random(seed)
        self._ended = threading.Event()
        self._began = time.monotonic()
        self.done: list[str] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        """Do harm."""
        try:
            while not self._ended.wait(self._random.uniform(*PAUSES)):
                self._act()
        except BaseException as error:  # of the test, or of the cluster: it is shown in the end
            self.error = error

    def _act(self) -> None:
        names = sorted(self._cluster.workers)
        act = self._random.choice(["kill", "freeze", "freeze for a moment", "add"])
        if act == "add" or len(names) < 2:
            if len(names) < WORKERS + 1:
                self._note(f"add {self._cluster.add_worker()}")
            return
        name = self._random.choice(names)
        self._note(f"{act} {name}")
        if act == "kill":
            self._cluster.kill_worker(name)
            return
        self._cluster.kill_worker(name, signal.SIGSTOP)
        # For longer than it takes to be missed, or not so long.
        self._ended.wait(self._random.uniform(0, SILENCE) / 4 + (SILENCE if act == "freeze" else 0))
        self._cluster.kill_worker(name, signal.SIGCONT)

    def _note(self, act: str) -> None:
        self.done.append(f"{time.monotonic() - self._began:.3f} s: {act}")

    def end(self) -> None:
        """Stop, and have all workers run again."""
        self._ended.set()
        self.join()
        if self.error is not None:
            raise self.error


def run(cluster: LocalCluster, seed: int) -> None:
    """One run of one workload, and of what is left of the cluster afterwards."""
    workload = [Shuffle(8, 200, seed), Tree(256, seed), Persist(12, 2000, seed)][seed % 3]
    found: list[object] = []
    with Client(cluster) as client:
        harm = Harm(cluster, seed)

        def work() -> None:
            until = time.monotonic() + RUN_SECONDS
            try:
                while not found or time.monotonic() < until:
                    found.append(workload.run(client))
            except BaseException as error:
                found.append(error)

        working = threading.Thread(target=work, name="work", daemon=True)
        harm.start()
        working.start()
        try:
            working.join(SECONDS)
        finally:
            harm.end()
        what = f"seed {seed}, {type(workload).__name__}:\n" + "\n".join(harm.done)
        assert not working.is_alive(), f"{what}\nhangs; {client.scheduler_info()}\n{cluster.log()[-5000:]}"
        assert found == [workload.right] * len(found), f"{what}\ngives {found}\n{cluster.log()[-5000:]}"
        while len(cluster.workers) < WORKERS:
            cluster.add_worker()
        assert workload.run(client) == workload.right
        gc.collect()  # persisted collections hold their results
        client.scheduler_info()  # what is released is told with it, or before what is asked next
        info = client.scheduler_info()
        assert (info["tasks"], info["graphs"]) == (0, 0), what


def chaos(first: int, count: int) -> None:
    """Some runs with one cluster."""
    with LocalCluster(WORKERS, 1, memory_limit=0, silence=SILENCE) as cluster:
        for seed in range(first, first + count):
            run(cluster, seed)


def test_a_few_runs():
    chaos(0, 6)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 150, RUNS_A_CLUSTER))
def test_fifty_runs(first):
    chaos(first, RUNS_A_CLUSTER)
