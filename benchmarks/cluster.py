"""A cluster of processes on this machine against dask.distributed's, the same workers and threads for both.

Run it with ``python benchmarks/cluster.py`` (half an hour, most of it theirs) or ``--quick`` (a few minutes, smaller
graphs: a try, not a result). It needs ``distributed``, and psutil to look at the scheduler's process. Every figure is a
median of ``--runs`` runs, ours and theirs in turn. Tasks do nothing. The graphs are there already; converting and
sending them is part of the time. ``distributed`` is measured at its default settings and with
``worker-saturation`` infinite, and the better figure is taken.
"""

from __future__ import annotations

import argparse
import compileall
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import cluster_systems as systems
import distributed
import psutil
from cluster_tasks import chain, fill, independent, touch, tree, waiting

import hetsched


class Row(NamedTuple):
    """One line of the table. ``ratio`` is theirs over ours: above 1 is better than theirs."""

    workload: str
    ours: float
    theirs: float
    unit: str
    ratio: float
    wanted: float

    def line(self) -> str:
        """The row in Markdown."""
        mark = "ok" if self.ratio >= self.wanted else "**missed**"
        ratio = f"{self.ratio:.1f}" if self.ratio >= 10 else f"{self.ratio:.2f}"
        times = f"{self.ours:.4g} | {self.theirs:.4g} {self.unit}"
        return f"| {self.workload} | {times} | {ratio} | {self.wanted:g} | {mark} |"


def seconds(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def compare(clusters: list[systems.System], graph: tuple[dict[Any, Any], Any], runs: int, theirs: int) -> list[float]:
    """Median wall times of a get: ours, then the best of theirs."""
    dsk, key = graph
    medians = []
    for system in clusters:
        count = runs if system.ours else theirs
        system.get(dsk, key)
        medians.append(statistics.median(seconds(lambda s=system: s.get(dsk, key)) for _ in range(count)))
    return [medians[0], min(medians[1:])]


def scheduler_costs(system: systems.System, n: int) -> tuple[float, float, float]:
    """CPU seconds and bytes a task in the scheduler's process, and seconds until the first task ran."""
    scheduler = psutil.Process(system.scheduler_pid)
    with tempfile.TemporaryDirectory() as folder:
        first, gate = Path(folder, "first"), Path(folder, "gate")
        graph, key = waiting(n, str(first), str(gate))
        time.sleep(1)
        rss = scheduler.memory_info().rss  # before the other graph, whose memory would be used again
        began = time.time()
        computing = system.start(graph, key)
        while not first.exists():
            time.sleep(0.002)
        until_first = first.stat().st_mtime - began
        system.settle(n)
        held = (scheduler.memory_info().rss - rss) / n
        gate.touch()
        computing.join()
    graph, key = independent(n)
    before = scheduler.cpu_times()
    system.get(graph, key)
    after = scheduler.cpu_times()
    cpu = (after.user + after.system - before.user - before.system) / n
    return cpu, held, until_first


def transfer(system: systems.System, nbytes: int, runs: int) -> float:
    """Seconds to bring an array from one worker to the other, the median."""
    taken = []
    for _ in range(runs):
        there = system.submit(fill, nbytes, worker=0)
        system.wait(there)
        taken.append(seconds(lambda there=there: system.wait(system.submit(touch, there, worker=1))))
        del there
    return statistics.median(taken)


def start(kind: type[systems.System]) -> float:
    """Seconds from nothing to the first result of a local cluster of two workers."""
    began = time.perf_counter()
    with kind(local=True) as system:
        system.wait(system.submit(abs, -1))  # of no module that the workers would have to load first
        return time.perf_counter() - began


@contextmanager
def all_systems() -> Iterator[list[systems.System]]:
    with systems.Hetsched() as ours, systems.Distributed() as default, systems.Distributed(saturation="inf") as full:
        yield [ours, default, full]


def measure(options: argparse.Namespace) -> Iterator[Row]:
    quick, runs = options.quick, options.runs
    theirs = options.their_runs or (1 if quick else runs)
    sizes = (1_000, 200, 1_000, 10_000) if quick else (10_000, 2_000, 10_000, 100_000)
    n, links, leaves, many = sizes
    many = options.many or many
    with all_systems() as clusters:
        for name, graph, count, wanted in (
            (f"{n:,} independent tasks and their sum", independent(n), n, 25.0),
            (f"chain of {links:,}", chain(links), links, 25.0),
            (f"tree over {leaves:,} leaves", tree(leaves), 2 * leaves, 25.0),
        ):
            ours, other = compare(clusters, graph, runs, theirs)
            yield Row(name, ours / count * 1e6, other / count * 1e6, "us a task", other / ours, wanted)
        costs = [scheduler_costs(system, many) for system in clusters]
        cpu, held, first = ([c[i] for c in costs] for i in range(3))
        name = f"scheduler, {many:,} tasks: CPU"
        yield Row(name, cpu[0] * 1e6, min(cpu[1:]) * 1e6, "us a task", min(cpu[1:]) / cpu[0], 25.0)
        yield Row("... memory", held[0], min(held[1:]), "bytes a task", min(held[1:]) / max(held[0], 1.0), 4.0)
        yield Row(
            "... from submission to the first task", first[0], min(first[1:]), "s", min(first[1:]) / first[0], 10.0
        )
        for nbytes in (10**8,) if quick else (10**8, 10**9):
            bare = systems.bare_seconds(nbytes, runs)
            times = [transfer(system, nbytes, runs) for system in clusters[:2]]
            name = f"{nbytes / 1e6:g} MB from worker to worker"
            yield Row(f"{name}, against a bare socket pair", times[0], bare, "s", bare / times[0], 0.7)
            yield Row(f"{name}, against distributed", times[0], times[1], "s", times[1] / times[0], 1.0)
    times = [(start(systems.Hetsched), start(systems.Distributed)) for _ in range(runs)]
    own, their = (statistics.median(each) for each in zip(*times, strict=True))
    yield Row("LocalCluster of 2 to the first result", own, their, "s", their / own, 2.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--their-runs", type=int, help="distributed's, where time is short (default: as many)")
    parser.add_argument("--many", type=int, help="tasks for the scheduler's costs (default 100,000)")
    options = parser.parse_args()
    # Installing does it, and a checkout may be where nothing writes it: without it, half of a start is reading sources.
    for package in (hetsched, distributed):
        compileall.compile_dir(Path(package.__file__).parent, quiet=1)
    load_ = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    print(
        f"Python {platform.python_version()}, distributed {version('distributed')}, "
        f"{os.cpu_count()} cores, load {load_}"
    )
    print("\n| workload | hetsched | distributed | ratio | wanted | |\n|---|---|---|---|---|---|", flush=True)
    for row in measure(options):
        print(row.line(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
