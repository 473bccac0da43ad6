"""The embedded cluster against ``dask.threaded``, both in one process, turn and turn about.

Run it with ``python benchmarks/embedded.py`` (some minutes) or ``--quick`` (some seconds, smaller graphs: a try, not a
result). Every figure is a median; before every run garbage is collected. Ratios tell, times depend on the machine and
on what else it does: the machine and its load are printed with the table, which is Markdown.

- Speed: the time of a ``get`` over a graph that is there already, divided by its tasks, which do nothing. The graphs
  come in both forms that dask has: `Task` objects, which its collections make, and tuples, which both sides have to
  convert. For the array it is the time of ``compute``, from the expression to the value.
- Memory: the most bytes of blocks that are alive at a time, counted by the blocks themselves (`embedded_memory`).
- Growth: ours alone, the time per task of a large graph, and in the place of theirs that of a small one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the threads compared are those of the schedulers
os.environ.setdefault("OMP_NUM_THREADS", "1")

import embedded_memory as memory
import embedded_speed as speed

from hetsched import compiled


class Row(NamedTuple):
    """One line of the table. ``ratio`` is theirs over ours: above 1 is better than dask."""

    workload: str
    ours: float
    theirs: float
    unit: str
    ratio: float
    wanted: float
    """The least ratio that will do."""

    @property
    def good(self) -> bool:
        """Whether it reaches what is wanted."""
        return self.ratio >= self.wanted


class Sizes(NamedTuple):
    """How much is measured."""

    runs: int
    small: int
    large: int
    calls: int
    growth: tuple[int, ...]


FULL = Sizes(runs=5, small=10_000, large=50_000, calls=300, growth=(1_000, 20_000, 200_000))
QUICK = Sizes(runs=3, small=1_000, large=5_000, calls=50, growth=(1_000, 20_000))

Measurement = Callable[[], Row]

ARRAY = "(x + x.T).mean(), 2,500 chunks"
CALL = "one task, a call"
THREADS = "numpy on two threads"


def measurements(sizes: Sizes) -> Iterator[tuple[str, Measurement]]:
    """All lines of the table, by name; each measures when it is called."""
    yield from of_graphs(sizes)
    yield ARRAY, partial(of_array, sizes)
    yield CALL, partial(of_latency, sizes)
    yield THREADS, partial(of_two_threads, sizes)
    for name, collection in memory.WORKLOADS.items():
        title = f"peak memory, {name}, {memory.THREADS} threads"
        yield title, partial(of_memory, title, collection, sizes)
    for name, build in speed.GROWING.items():
        for size in sizes.growth[1:]:
            title = f"growth, {name}: {size:,} to {sizes.growth[0]:,}"
            yield title, partial(of_growth, title, build, sizes.growth[0], size, sizes)


def of_graphs(sizes: Sizes) -> Iterator[tuple[str, Measurement]]:
    """The graphs of tasks that do nothing."""
    n, m = sizes.small, sizes.large
    graphs: list[tuple[str, Callable[..., speed.Workload], int, float]] = [
        (f"{n:,} independent tasks and a sum", speed.independent, n, 6),
        (f"{m:,} independent tasks and a sum", speed.independent, m, 6),
        (f"chain of {n:,}", speed.chain, n, 8),
        (f"binary tree over {n:,} leaves", speed.tree, n, 6),
    ]
    for name, make, size, wanted in graphs:
        for form, node in speed.FORMS.items():
            title = f"{name}, {form}"

            yield title, partial(of_graph, title, make, size, node, wanted, sizes)


def of_graph(
    title: str, make: Callable[..., speed.Workload], size: int, node: speed.Node, wanted: float, sizes: Sizes
) -> Row:
    """One of these graphs, made when it is needed."""
    workload = make(size, node)
    ours, theirs = speed.compare(workload, sizes.runs)
    each = 1e6 / len(workload.graph)
    return Row(title, ours * each, theirs * each, "us/task", theirs / ours, wanted)


def of_array(sizes: Sizes) -> Row:
    """An array of many small chunks, optimised, converted and run."""
    ours, theirs, tasks = speed.compare_array(sizes.runs)
    return Row(ARRAY, ours / tasks * 1e6, theirs / tasks * 1e6, "us/task", theirs / ours, 3)


def of_latency(sizes: Sizes) -> Row:
    """What it costs to call at all."""
    ours, theirs = speed.compare_latency(sizes.calls)
    return Row(CALL, ours * 1e6, theirs * 1e6, "us", theirs / ours, 1)


def of_two_threads(sizes: Sizes) -> Row:
    """Work for which the scheduler hardly matters; equal but for the noise is what is wanted."""
    ours, theirs = speed.compare_two_threads(max(sizes.runs, 7))
    return Row(THREADS, ours * 1e3, theirs * 1e3, "ms", theirs / ours, 0.95)


def of_memory(title: str, build: Callable[[], Any], sizes: Sizes) -> Row:
    """The most bytes alive at a time; within 5% is what is wanted."""
    ours, theirs = memory.compare(build, sizes.runs)
    return Row(title, ours / 1e6, theirs / 1e6, "MB", theirs / ours, 1 / 1.05)


def of_growth(title: str, build: Callable[..., speed.Workload], small: int, large: int, sizes: Sizes) -> Row:
    """Ours alone, a large graph against a small one; flat within 25% is what is wanted."""
    found = speed.grow(build, (small, large), sizes.runs)
    return Row(title, found[large] * 1e6, found[small] * 1e6, "us/task", found[small] / found[large], 1 / 1.25)


# --- what is printed ---------------------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    """Where this runs, and how busy it is."""
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load": [round(load, 1) for load in os.getloadavg()],
        "python": platform.python_version(),
        **{name: version(name) for name in ("dask", "numpy", "trio")},
        "hetsched": compiled.state(),
    }


def processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


HEAD = ("workload", "hetsched", "dask.threaded", "", "ratio", "wanted", "")


def cells(row: Row) -> tuple[str, ...]:
    """A row as texts."""
    figures = f"{row.ours:,.1f}", f"{row.theirs:,.1f}", row.unit, f"{row.ratio:.2f}", f"{row.wanted:.2f}"
    return (row.workload, *figures, "ok" if row.good else "NOT")


def show(rows: Iterable[Sequence[str]], widths: Sequence[int]) -> None:
    """Print lines of a Markdown table."""
    for row in rows:
        texts = [row[0].ljust(widths[0]), *(text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True))]
        print("| " + " | ".join(texts) + " |", flush=True)


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print; 1 where something wanted is not reached and ``--strict`` was given."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="smaller graphs, fewer runs")
    parser.add_argument("--runs", type=int, help="runs of each side (5; with --quick 3)")
    parser.add_argument("-k", action="append", default=[], metavar="TEXT", help="only lines with this text; repeatable")
    parser.add_argument("--cpu", action="store_true", help="time of the processors, which other programs disturb less")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--strict", action="store_true", help="exit with 1 where a line is NOT as wanted")
    given = parser.parse_args(words)
    sizes = QUICK if given.quick else FULL
    if given.runs:
        sizes = sizes._replace(runs=given.runs)
    if given.cpu:
        speed.clock = process_time
    before = machine()
    chosen = [(name, go) for name, go in measurements(sizes) if not given.k or any(word in name for word in given.k)]
    if not chosen:
        parser.error(f"no line has any of {given.k}")
    speed.warm_up()
    widths = (max(len(name) for name, _ in chosen), 9, 13, 7, 6, 6, 3)
    if not given.json:
        print("; ".join(f"{name} {value}" for name, value in before.items()))
        print(f"medians of {sizes.runs} runs a side; ratio: theirs / ours\n")
        show([HEAD, ["-" * width for width in widths]], widths)
    rows = []
    for _, go in chosen:
        rows.append(go())
        if not given.json:
            show([cells(rows[-1])], widths)
    after = machine()["load"]
    if given.json:
        lines = [{**row._asdict(), "good": row.good} for row in rows]
        print(json.dumps({"machine": before, "load_after": after, "runs": sizes.runs, "rows": lines}, indent=1))
    else:
        print(f"\nload afterwards {after}")
    return int(given.strict and not all(row.good for row in rows))


if __name__ == "__main__":
    sys.exit(main())
