"""A mixed workload on the embedded cluster: arrays, a bag, delayed functions and a dataframe, on four executors.

Run it with ``make demo``, or ``python examples/mixed.py``. It ends in tables of what ran where and why, and in checks
of every result against numpy, pandas and plain Python; it exits with 1 where one fails.

GPU tasks use CuPy where it is installed and finds a device. Elsewhere the same tasks use numpy, on the lane that stands
in for a device.
"""

from __future__ import annotations

import math
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask.callbacks import Callback
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import hetsched


def device_library() -> Any:
    """CuPy where it has a device, else numpy in its place."""
    try:
        import cupy
    except ImportError:
        return np
    return cupy if cupy.cuda.is_available() else np


xp = device_library()


def to_host(array: Any) -> Any:
    """A numpy array of what may be a device array."""
    return array.get() if hasattr(array, "get") else array


def spectrum(block: Any) -> Any:
    """The amplitudes of a block's frequencies; they stay on the device."""
    return xp.abs(xp.fft.rfft2(xp.asarray(block)))


def strongest(amplitudes: Any) -> Any:
    """The largest amplitude, on the host, as a block of one number."""
    return to_host(amplitudes.max()).reshape(1, 1)


def energy(amplitudes: Any) -> Any:
    """The sum of the squared amplitudes, on the host, as a block of one number."""
    return to_host((amplitudes**2).sum()).reshape(1, 1)


def distance(part: pd.DataFrame) -> pd.DataFrame:
    """Add a column, computed on the device: how far each point is from the origin."""
    x, y = xp.asarray(part["x"].to_numpy()), xp.asarray(part["y"].to_numpy())
    return part.assign(distance=to_host(xp.sqrt(x * x + y * y)))


def page(number: int) -> list[int]:
    """What there is to download."""
    return [(number * 7919 + i * 104_729) % 10_007 for i in range(2_000)]


def fetch(number: int) -> list[int]:
    """Stands for a download: it waits, and uses no processor meanwhile."""
    time.sleep(0.3)
    return page(number)


def count_primes(low: int, high: int) -> int:
    """Pure Python, which holds the interpreter's lock: more threads would not help."""
    return sum(all(n % d for d in range(2, math.isqrt(n) + 1)) for n in range(low, high))


def different_numbers(pages: list[list[int]]) -> int:
    """How many different numbers there are on all pages."""
    return len(set().union(*pages))


# --- the workload ------------------------------------------------------------------------------------------------


class Check(NamedTuple):
    """A result, what it was compared with, and whether they agree."""

    result: str
    against: str
    right: bool


def close(got: Any, expected: Any) -> bool:
    """Equal but for rounding."""
    return bool(np.allclose(got, expected, rtol=1e-9))


SIDE, BLOCK, PAGES, LIMIT = 6_000, 600, 40, 160_000
LINES = [f"the {i % 13} quick {i % 7} foxes jump over the {i % 5} lazy dogs" for i in range(60_000)]


def arrays_bag_and_functions(progress: Callable[[str], Callback]) -> list[Check]:
    """Arrays, a bag and delayed functions in one ``dask.compute``; all executors are busy at once."""
    image = np.random.default_rng(0).random((SIDE, SIDE))
    x = da.from_array(image, chunks=BLOCK)
    mean, deviation = (x + x.T).mean(), x.std(axis=0)

    with hetsched.annotate(executor="gpu"):
        amplitudes = x.map_blocks(spectrum, chunks=(BLOCK, BLOCK // 2 + 1), meta=np.empty((0, 0)))
        peaks = amplitudes.map_blocks(strongest, chunks=(1, 1), meta=np.empty((0, 0)))
        energies = amplitudes.map_blocks(energy, chunks=(1, 1), meta=np.empty((0, 0)))

    with hetsched.annotate(job="words"):
        counts = db.from_sequence(LINES, npartitions=12).map(str.split).flatten().frequencies()

    with hetsched.annotate(executor="io", retries=2):
        pages = [dask.delayed(fetch, pure=True)(number) for number in range(PAGES)]
    with hetsched.annotate(executor="process"):
        low = range(2, LIMIT, LIMIT // 8)
        primes = [dask.delayed(count_primes, pure=True)(n, min(n + LIMIT // 8, LIMIT)) for n in low]
    with hetsched.annotate(pool="archive"):
        different = dask.delayed(different_numbers, pure=True)(pages)
    with hetsched.annotate(priority=10):
        first = dask.delayed(max, pure=True)(pages[:8])

    # Collections of one kind stand side by side: dask 2026.8.0 mixes up the results otherwise, see docs/howto.md.
    wanted = (mean, deviation, peaks.max(), energies.sum(), counts, different, first, *primes)
    with progress("arrays, bag, functions"):
        got = dask.compute(*wanted, scheduler=hetsched.get)

    plain = [page(number) for number in range(PAGES)]
    starts = range(0, SIDE, BLOCK)
    blocks = [np.abs(np.fft.rfft2(image[i : i + BLOCK, j : j + BLOCK])) for i in starts for j in starts]
    sieve = np.ones(LIMIT, bool)
    for n in range(2, math.isqrt(LIMIT) + 1):
        sieve[n * n :: n] = False
    words = Counter(word for line in LINES for word in line.split())
    return [
        Check("mean of x + its transpose", "numpy", close(got[0], (image + image.T).mean())),
        Check("standard deviation of each column", "numpy", close(got[1], image.std(axis=0))),
        Check("strongest frequency in a block", "numpy", close(got[2], max(block.max() for block in blocks))),
        Check("energy of all blocks", "numpy", close(got[3], sum((block**2).sum() for block in blocks))),
        Check("how often each word occurs", "collections.Counter", dict(got[4]) == words),
        Check("different numbers on all pages", "plain Python", got[5] == different_numbers(plain)),
        Check("largest of the first pages", "plain Python", got[6] == max(plain[:8])),
        Check("primes", "a sieve in numpy", sum(got[7:]) == sieve[2:].sum()),
    ]


def dataframe(progress: Callable[[str], Callback]) -> list[Check]:
    """A group-by. dask's planner drops the annotations around a dataframe's parts; a function keeps its own."""
    rng = np.random.default_rng(1)
    rows = 2_000_000
    points = pd.DataFrame({"kind": rng.integers(0, 12, rows), "x": rng.random(rows), "y": rng.random(rows)})
    on_device = hetsched.task(distance, executor="gpu", priority=5)
    meta = points.head(0).assign(distance=0.0)
    measured = dd.from_pandas(points, npartitions=8).map_partitions(on_device, meta=meta)
    statistics = ["mean", "max", "count"]
    with progress("dataframe"):
        got = measured.groupby("kind")["distance"].agg(statistics).compute(scheduler=hetsched.get)
    wanted = points.assign(distance=np.hypot(points["x"], points["y"])).groupby("kind")["distance"].agg(statistics)
    return [Check("distances by kind", "pandas", close(got.sort_index(), wanted))]


# --- what is shown -----------------------------------------------------------------------------------------------


class Bar(Callback):
    """A dask callback that moves a bar."""

    def __init__(self, bars: Progress, name: str) -> None:
        self._bars, self._name = bars, name

    def _start(self, dsk: Mapping[Any, Any]) -> None:
        self._bar = self._bars.add_task(self._name, total=len(dsk))

    def _posttask(self, *_: Any) -> None:
        self._bars.advance(self._bar)


def table(title: str, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """A table; numbers stand to the right, and the names of tasks make room for the rest."""
    drawn = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for name, value in zip(names, rows[0], strict=True):
        drawn.add_column(name, justify="left" if isinstance(value, str) else "right", no_wrap=name != "task")
    for row in rows:
        drawn.add_row(*(f"{value:,.1f}" if isinstance(value, float) else str(value) for value in row))
    return drawn


def tables(reports: Sequence[hetsched.Report], checks: Sequence[Check]) -> list[Table]:
    """What ran on each executor, what ran where and why, and whether it was right."""
    tasks = [row for report in reports for row in report]
    executors = []
    for name in sorted({row.executor for row in tasks}):
        mine = [row for row in tasks if row.executor == name]
        sizes = (sum(row.nbytes for row in mine) / 1e6, sum(row.cuda_nbytes for row in mine) / 1e6)
        executors.append((name, len(mine), sum(row.stop - row.start for row in mine), *sizes))
    places: Counter[tuple[str, str, str, str]] = Counter()
    for row in tasks:
        notes = {name: f"{name}={value!r}" for name, value in row.annotations.items()}
        chosen = notes.pop("executor", "default")
        places[row.executor, row.prefix, chosen, ", ".join(notes.values())] += 1
    marks = [("[green]✓[/]" if c.right else "[bold red]✗ wrong[/]", c.result, c.against) for c in checks]
    return [
        table("Executors", ("executor", "tasks", "seconds", "MB of results", "of these on a device"), executors),
        table("What ran where, and why", ("executor", "task", "chosen by", "also annotated", "runs"),
              [(*place, count) for place, count in sorted(places.items())]),
        table("Results", ("", "result", "compared with"), marks),
    ]  # fmt: skip


def main() -> int:
    """Run all of it; 1 where a result is wrong."""
    console = Console()
    library = "CuPy on a device" if xp is not np else "numpy, on a pretended device, as there is no CuPy with a device"
    console.print(f"{os.cpu_count()} CPUs; the GPU tasks use {library}\n")
    checks: list[Check] = []
    reports: list[hetsched.Report] = []
    columns = TextColumn("{task.description:22}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with warnings.catch_warnings(record=True) as caught, Progress(*columns, console=console) as bars:
        for part in (arrays_bag_and_functions, dataframe):
            checks += part(lambda name: Bar(bars, name))
            reports += filter(None, [hetsched.last_report()])
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        console.print(f"[yellow]warned once:[/] {text}", soft_wrap=True)
    for drawn in tables(reports, checks):
        console.print("", drawn, sep="\n")
    seconds = sum(report.seconds for report in reports)
    busy = sum(row.stop - row.start for report in reports for row in report)
    console.print(f"\n{busy:.1f} s of running and waiting took {seconds:.1f} s")
    return 0 if all(check.right for check in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
