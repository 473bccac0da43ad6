"""The live runs of `fidelity`: graphs of tasks that sleep, and the clusters they run on."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dask.sizeof import sizeof
from fidelity_tasks import FOLDER, work

import hetsched
from hetsched.embedded.cluster import Embedded
from hetsched.graph.build import build
from hetsched.server.recording import Recorder

PARCEL = 500_000
"""Bytes of a result that crosses from pool to pool: from 256 KB on a worker loads in a thread."""

Graph = dict[Any, Any]


# Graphs. Each makes a task by `task(key, inputs, seconds)`.


class Maker:
    """A graph that is being made; with ``scatter`` tasks of one kind take from 0.4 to 1.6 times as long, by chance."""

    def __init__(self, seed: str, scatter: bool, nbytes: int) -> None:
        self.graph: Graph = {}
        self._chance = random.Random(seed)
        self._scatter = scatter
        self._nbytes = nbytes

    def __call__(self, key: tuple[Any, ...], inputs: Sequence[Any], seconds: float, small: bool = False) -> Any:
        if self._scatter:
            seconds *= self._chance.uniform(0.4, 1.6)
        self.graph[key] = (work, seconds, 0 if small else self._nbytes, *inputs)
        return key


def tree(task: Maker, size: int, seconds: float) -> None:
    """Leaves, and sums of two until there is one."""
    level = [task(("leaf", n), [], seconds) for n in range(size)]
    depth = 0
    while len(level) > 1:
        depth += 1
        level = [task((f"sum{depth}", n), level[n : n + 2], seconds / 2) for n in range(0, len(level), 2)]
    task(("goal", 0), level, 0.01, small=True)


def shuffle(task: Maker, size: int, seconds: float) -> None:
    """All outputs read all inputs."""
    made = [task(("load", n), [], seconds) for n in range(size)]
    parts = [task(("join", n), made, seconds) for n in range(size)]
    task(("goal", 0), parts, 0.01, small=True)


def stencil(task: Maker, size: int, seconds: float, steps: int = 5) -> None:
    """Cells that read their neighbours, some steps long."""
    cells = [task(("step0", n), [], seconds) for n in range(size)]
    for step in range(1, steps):
        cells = [task((f"step{step}", n), cells[max(0, n - 1) : n + 2], seconds) for n in range(size)]
    task(("goal", 0), cells, 0.01, small=True)


def chains(task: Maker, size: int, seconds: float, steps: int = 6) -> None:
    """Chains whose links are of different kinds, read together now and then."""
    ends = [task(("begin", n), [], seconds) for n in range(size)]
    for step in range(steps):
        ends = [task((f"link{step}", n), [end], seconds * (1 + step % 3) / 2) for n, end in enumerate(ends)]
        if step % 3 == 2:
            middle = task(("middle", step), ends, 0.02, small=True)
            ends = [task((f"after{step}", n), [end, middle], seconds / 2) for n, end in enumerate(ends)]
    task(("goal", 0), ends, 0.01, small=True)


def bag(task: Maker, size: int, seconds: float) -> None:
    """Tasks that have nothing to do with each other, a few of them long."""
    made = [task((f"kind{n % 3}", n), [], seconds * (5 if n % 11 == 10 else 1 + n % 3)) for n in range(size)]
    task(("goal", 0), made, 0.01, small=True)


def mixed(task: Maker, size: int, seconds: float) -> None:
    """Load on a core, compute on a device, write on a core."""
    loads = [task(("load", n), [], seconds) for n in range(size)]
    done = [task(("kernel", n), [load], seconds / 2) for n, load in enumerate(loads)]
    wrote = [task(("write", n), [one], seconds) for n, one in enumerate(done)]
    task(("goal", 0), wrote, 0.01, small=True)


def meeting(task: Maker, size: int, seconds: float) -> None:
    """Data of two pools, of which pairs are read."""
    here = [task(("left", n), [], seconds) for n in range(size)]
    there = [task(("right", n), [], seconds) for n in range(size)]
    met = [task(("pair", n), [here[n], there[n]], seconds) for n in range(size)]
    task(("goal", 0), met, 0.01, small=True)


DEVICE = {"kernel": {"executor": "gpu"}}
PLACES = {"left": {"pool": "a"}, "right": {"pool": "b"}}
TWO_POOLS = ("a", "b")


class Case(NamedTuple):
    """What runs: a graph, and on what."""

    name: str
    make: Callable[[Maker, int, float], None]
    size: int
    seconds: float
    scatter: bool = False
    workers: int = 4
    """0: the embedded cluster."""
    threads: int = 1
    gpus: int = 0
    pools: Sequence[str] = ()
    notes: Mapping[Any, Any] = {}

    def graph(self) -> Graph:
        """The graph, the same each time."""
        task = Maker(self.name, self.scatter, PARCEL if self.pools else 0)
        self.make(task, self.size, self.seconds)
        return task.graph


CASES = (
    Case("tree", tree, 32, 0.12),
    Case("tree, scattered", tree, 64, 0.12, True, threads=2),
    Case("shuffle", shuffle, 16, 0.15),
    Case("shuffle, scattered", shuffle, 24, 0.2, True, threads=2),
    Case("stencil", stencil, 12, 0.1),
    Case("stencil, scattered", stencil, 16, 0.15, True, threads=2),
    Case("chains", chains, 6, 0.1, threads=2, workers=2),
    Case("chains, scattered", chains, 8, 0.1, True),
    Case("bag, scattered", bag, 50, 0.05, True),
    Case("cores and devices", mixed, 20, 0.1, workers=2, threads=2, gpus=1, notes=DEVICE),
    Case("cores and devices, scattered", mixed, 24, 0.1, True, workers=2, threads=2, gpus=1, notes=DEVICE),
    Case("two pools, tree", tree, 32, 0.12, True, pools=TWO_POOLS),
    Case("two pools, shuffle", shuffle, 12, 0.15, True, pools=TWO_POOLS),
    Case("two pools, stencil", stencil, 12, 0.1, True, pools=TWO_POOLS),
    Case("two pools, joined", meeting, 12, 0.12, True, pools=TWO_POOLS, notes=PLACES),
    Case("embedded, tree", tree, 32, 0.12, True, 0, 4),
    Case("embedded, shuffle", shuffle, 16, 0.15, True, 0, 4),
    Case("embedded, stencil", stencil, 12, 0.1, True, 0, 4),
    Case("embedded, bag", bag, 50, 0.05, True, 0, 4),
    Case("embedded, cores and devices", mixed, 20, 0.1, True, 0, 4, 2, notes=DEVICE),
)

COMPARED = (
    Case("policies: bag", bag, 40, 0.05, True),
    Case("policies: tree, two pools", tree, 32, 0.1, True, pools=TWO_POOLS),
    Case("policies: stencil, two pools", stencil, 12, 0.1, True, pools=TWO_POOLS),
    Case("policies: chains", chains, 6, 0.08, True, threads=1),
)


# Clusters


def run_live(case: Case, path: Path, policy: str = "earliest_finish") -> None:
    """Run a case, and record it in a file."""
    if case.workers:
        _run_on_cluster(case, path, policy)
    else:
        _run_here(case, path, policy)


def _run_on_cluster(case: Case, path: Path, policy: str) -> None:
    os.environ[FOLDER] = str(path.parent)
    table = path.parent / "pools.json"
    table.write_text("{}")
    with hetsched.LocalCluster(
        case.workers, case.threads, gpus=case.gpus, pools=case.pools or None, policy=policy, record=path
    ) as cluster:
        if case.pools:
            places = enumerate(cluster.workers.values())
            table.write_text(json.dumps({pid: case.pools[n % len(case.pools)] for n, pid in places}))
        with hetsched.Client(cluster.address, token_file=cluster.token_file) as client:
            client.get(case.graph(), ("goal", 0), annotations=case.notes)


class _Heard:
    """A scheduler all of whose events are written down."""

    def __init__(self, scheduler: Any, write: Recorder) -> None:
        self._scheduler = scheduler
        self._write = write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scheduler, name)

    def handle(self, event: Any, now: float) -> Any:
        """Write it down, and hand it on."""
        self._write(now, event)
        return self._scheduler.handle(event, now)


def _run_here(case: Case, path: Path, policy: str) -> None:
    from hetsched.core.events import WorkerJoined

    cluster = Embedded(case.threads, case.gpus, sizeof, policy=policy)
    with Recorder(path) as write:
        write(0.0, WorkerJoined("embedded", cluster._capacity))  # it had joined before anybody could listen
        feeder = cluster._feeder
        feeder.scheduler = _Heard(feeder.scheduler, write)  # type: ignore[assignment]
        built = build(case.graph(), ("goal", 0), None, case.notes)
        cluster.run(built.tasks, list(built.places.values()))
        cluster.close()
