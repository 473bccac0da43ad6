"""Workloads out of recordings (``hetsched-scheduler --record``): what ran, for how long, on which workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from hetsched.core.types import Key, prefix_of
from hetsched.errors import HetschedError
from hetsched.sims.model import Machine, Submission, Task, Workload

__all__ = ["Moved", "Recording", "read_recorded", "read_recording_of_run"]


class Moved(NamedTuple):
    """Results that went from a pool to a pool: bytes on the wire, and when (seconds; the length is measured)."""

    source: str
    target: str
    nbytes: int
    start: float
    stop: float


@dataclass(slots=True)
class Recording:
    """A run: what was submitted when, the workers, what was measured, and how long it took (seconds)."""

    submissions: list[Submission] = field(default_factory=list)
    machines: list[Machine] = field(default_factory=list)
    makespan: float = 0.0
    """From the first submission until the scheduler heard of the last task that ended."""
    ran: int = 0
    unmeasured: int = 0
    """How many tasks were submitted that never ended: they are taken for as long as others of their kind."""
    lost: list[str] = field(default_factory=list)
    """Workers that were lost before the last task ended; the simulation loses none."""
    external: int = 0
    """How many inputs were results of other graphs: they are taken to be there."""
    delays: list[float] = field(default_factory=list)
    """For each message with outcomes the seconds from the end of its last task until the scheduler had it."""
    gaps: list[float] = field(default_factory=list)
    """Seconds between the ends and the starts of tasks that followed each other in one message, on one slot."""
    transfers: list[Moved] = field(default_factory=list)
    """What workers that are in pools have measured."""


class _Graph:
    """A graph that is being read."""

    def __init__(self, base: int, at: float, total: int, urgency: int) -> None:
        self.base = base
        self.at = at
        self.total = total
        self.urgency = urgency
        self.rows: list[tuple[Key, tuple[int, ...], Mapping[str, Any] | None]] = []
        self.wanted: list[int] = []


def read_recording_of_run(path: str | Path) -> Recording:
    """Read a recording into what a simulation takes.

    Raises OSError, ProtocolError for a file that is no recording, HetschedError for one in which nothing was submitted.
    """
    from hetsched.server.recording import read_recording

    reader = _Reader()
    for now, event, fields in read_recording(path):
        take = getattr(reader, event, None)
        if take is not None:
            take(now, *fields)
    if not reader.graphs:
        raise HetschedError(f"{path}: nothing was submitted in this recording")
    return reader.done()


def read_recorded(path: str | Path, graph: int = 0) -> Workload:
    """Read one graph of a recorded run, the first being 0: tasks take what they took.

    Raises HetschedError where there is no such graph or the file is no recording, OSError where it cannot be read.
    """
    submissions = read_recording_of_run(path).submissions
    if not 0 <= graph < len(submissions):
        raise HetschedError(f"{path} has no graph {graph}: it has {len(submissions)}, the first is 0")
    return submissions[graph].workload


class _Reader:
    """Has a method for each event that matters, called with its fields; those that came later are passed over."""

    def __init__(self) -> None:
        self.found = Recording()
        self.graphs: dict[tuple[str, int], _Graph] = {}
        self._all: list[_Graph] = []
        self._next = 0
        self._took: dict[int, tuple[float, int, int | None]] = {}
        self._last = 0.0
        self._moved: dict[str, list[tuple[str, int, float, float]]] = {}
        self._added: dict[str, list[float]] = {}
        self._lost: list[tuple[float, str]] = []
        self._workers: dict[str, tuple[float, tuple[Any, ...]]] = {}

    def WorkerJoined(self, now: float, worker: str, capacity: tuple[Any, ...]) -> None:
        self._workers[worker] = now, capacity

    def WorkerLost(self, now: float, worker: str, _reason: str) -> None:
        self._lost.append((now, worker))

    def GraphSubmitted(
        self, now: float, client: str, number: int, tasks: Any, wanted: Any, urgency: int = 0, lanes: Any = None,
        externals: Any = (), total: int | None = None, *_: Any,
    ) -> None:  # fmt: skip
        graph = _Graph(self._next, now, len(tasks) if total is None else total, urgency)
        self.graphs[client, number] = graph
        self._all.append(graph)
        self._next += graph.total
        graph.rows.extend(tasks)
        graph.wanted.extend(wanted)

    def GraphExtended(self, _now: float, client: str, number: int, tasks: Any, wanted: Any, *_: Any) -> None:
        graph = self.graphs.get((client, number))
        if graph is not None:
            graph.rows.extend(tasks)
            graph.wanted.extend(wanted)

    def TasksFinished(
        self, now: float, _worker: str, executor: str, outcomes: Iterable[tuple[Any, ...]], *_: Any
    ) -> None:
        before = None
        for task, _attempt, start, stop, nbytes, cuda_nbytes in outcomes:
            known = cuda_nbytes > 0 or executor == "gpu"
            self._took[task] = stop - start, nbytes, cuda_nbytes if known else None
            if before is not None and start >= before:
                self.found.gaps.append(start - before)
            before = stop
        if before is not None:
            self.found.delays.append(now - before)
            self._last = now

    def TransfersMeasured(self, now: float, worker: str, transfers: Iterable[tuple[str, int, float]], *_: Any) -> None:
        self._moved.setdefault(worker, []).extend((peer, nbytes, seconds, now) for peer, nbytes, seconds in transfers)

    def ReplicasAdded(self, now: float, worker: str, *_: Any) -> None:
        self._added.setdefault(worker, []).append(now)

    def _transfers(self) -> Iterator[Moved]:
        """What was measured may be told later. That results are there is told at once, so it says when they came."""
        for worker, moved in self._moved.items():
            target, came = self._pool_of(worker), self._added.get(worker, [])
            known = len(came) >= len(moved)
            for n, (peer, nbytes, seconds, told) in enumerate(moved):
                stop = min(came[n], told) if known else told
                source = self._pool_of(peer)
                if source is not None and target is not None:
                    yield Moved(source, target, nbytes, stop - seconds, stop)

    def _pool_of(self, worker: str) -> str | None:
        known = self._workers.get(worker)
        return None if known is None else known[1][2]

    def done(self) -> Recording:
        """Make workloads of it all."""
        found = self.found
        first = self._all[0].at
        found.makespan = max(0.0, self._last - first)
        found.ran = len(self._took)
        found.transfers = list(self._transfers())
        found.lost = [worker for at, worker in self._lost if at < self._last]
        means = self._means()
        for number, graph in enumerate(self._all):
            tasks = []
            for position, (key, all_reads, notes) in enumerate(graph.rows):
                took = self._took.get(graph.base + position)
                found.unmeasured += took is None
                seconds, nbytes, cuda = took if took is not None else (*means.get(prefix_of(key), (0.0, 0)), None)
                reads = [d for d in all_reads if d >= 0]
                found.external += len(all_reads) - len(reads)
                tasks.append(Task(key, reads, seconds, nbytes, notes, cuda_nbytes=cuda))
            workload = Workload(f"graph-{number}", tasks, sorted(set(graph.wanted)))
            found.submissions.append(Submission(workload, graph.at - first, True, graph.urgency))
        for name, (now, capacity) in self._workers.items():
            found.machines.append(_machine(name, max(0.0, now - first), capacity))
        return found

    def _means(self) -> dict[str, tuple[float, int]]:
        sums: dict[str, tuple[int, float, int]] = {}
        for graph in self._all:
            for position, (key, _, _) in enumerate(graph.rows):
                took = self._took.get(graph.base + position)
                if took is not None:
                    count, seconds, nbytes = sums.get(prefix_of(key), (0, 0.0, 0))
                    sums[prefix_of(key)] = count + 1, seconds + took[0], nbytes + took[1]
        return {kind: (seconds / n, nbytes // n) for kind, (n, seconds, nbytes) in sums.items()}


def _machine(name: str, arrives: float, capacity: tuple[Any, ...]) -> Machine:
    executors, resources, pool, window, ahead = capacity[:5]
    return Machine(
        name, cpus=0, pool=pool, resources=dict(resources), executors=dict(executors), window=window, ahead=ahead,
        arrives=arrives,
    )  # fmt: skip
