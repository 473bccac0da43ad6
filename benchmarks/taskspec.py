"""What one task costs as an object: to make, to ship, to run, in each form that a graph can have it in.

Run it with ``python benchmarks/taskspec.py`` (some seconds; ``make compile`` first, since the modules measured are
those that can be compiled). All forms are of the same 1,000 tasks: each adds the results of the two before it, and has
the annotation ``{"resources": {"GPU": 1}}`` where the form has a place for one. Every figure is the least of many
runs of all forms in turn, each after one that does not count, with the collector off; ratios tell, times depend on the
machine.

- ``tuple``: ``(add, key, key)``. ``annotated tuple``: the same with a dict at its end, one for each task.
- ``dask Task``: ``dask._task_spec.Task`` with two references.
- ``hetsched.Task``: what a graph written by hand has, all with one dict of annotations.
- ``TaskSpec, held``: what :func:`hetsched.get` makes of all forms, and what the embedded cluster runs.
- ``TaskSpec, shipped``: the message and frames that a client makes of the held ones and sends, keys, dependencies and
  annotations for the scheduler included; what a worker runs of it.
- Carrying annotations: a whole ``get`` of 10,000 tasks with an annotation against one without, the median difference.
"""

from __future__ import annotations

import argparse
import bz2
import gc
import json
import pickle
import platform
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from operator import add
from time import process_time
from typing import Any, NamedTuple

import msgpack
from dask._task_spec import Task, TaskRef

import hetsched
from hetsched import compiled
from hetsched.client.shipping import parts_of
from hetsched.comm.payloads import Depot, Supplies
from hetsched.comm.wire import encode
from hetsched.core.commands import RunTask
from hetsched.core.types import EACH, TaskSpec
from hetsched.worker.shipped import Shelf

TASKS = 1_000
CARRIED = 10_000
NOTE_CARRIED = {"job": "nightly"}
NOTE = {"resources": {"GPU": 1.0}}
KEYS = [("add", n) for n in range(TASKS)]
BEFORE = [("start", 0), ("start", 1), *KEYS]
PLACES = [() if n < 2 else (n - 1, n - 2) for n in range(TASKS)]
ROWS = [(key, BEFORE[n + 1], BEFORE[n], PLACES[n]) for n, key in enumerate(KEYS)]

Graph = dict[Any, Any]


def one() -> int:
    """What the first tasks do."""
    return 1


def tuples() -> Graph:
    """Plain tuples."""
    return {key: (add, a, b) for key, a, b, _ in ROWS}


def annotated_tuples() -> Graph:
    """Tuples with a dict at the end."""
    return {key: (add, a, b, {"resources": {"GPU": 1}}) for key, a, b, _ in ROWS}


def dask_tasks() -> Graph:
    """dask's own."""
    return {key: Task(key, add, TaskRef(a), TaskRef(b)) for key, a, b, _ in ROWS}


def graph_tasks() -> Graph:
    """Those of a graph written by hand for hetsched."""
    return {key: hetsched.Task(add, a, b, annotations=NOTE) for key, a, b, _ in ROWS}


def specs() -> Graph:
    """What is held."""
    return {key: TaskSpec(key, add, EACH if places else (0, 1), None, places, NOTE) for key, _, _, places in ROWS}


FORMS: dict[str, Callable[[], Graph]] = {
    "tuple": tuples,
    "annotated tuple": annotated_tuples,
    "dask Task": dask_tasks,
    "hetsched.Task": graph_tasks,
    "TaskSpec, held": specs,
}
SHIPPED = "TaskSpec, shipped"


def ship(tasks: Sequence[TaskSpec]) -> list[Any]:
    """All that leaves a client for a graph."""
    sent: list[Any] = []
    for message, frames, _ in parts_of(tasks, [len(tasks) - 1], 5, 1 << 30):
        sent += [msgpack.packb(encode(message)), *frames]
    return sent


def arrived(tasks: Sequence[TaskSpec]) -> list[TaskSpec]:
    """What a worker makes of it."""
    specs: list[TaskSpec] = []
    depot, supplies, shelf = Depot(), Supplies(), Shelf()
    for message, frames, _ in parts_of(tasks, [len(tasks) - 1], 5, 1 << 30):
        specs += depot.take(message._replace(graph=1), iter(frames)).tasks
    orders = [RunTask(n, n, spec, "", "cpu", spec.dependencies) for n, spec in enumerate(specs)]
    message, frames = supplies.orders("w", orders, {})
    run = shelf.unpack(message._replace(rows=[tuple(row) for row in message.rows]), iter(frames))
    for order in run.tasks:
        order.spec.loaded()
    return [order.spec for order in run.tasks]


# --- execution: arguments out of a store of results --------------------------------------------------------------


def run_tuples(graph: Graph) -> int:
    """By key, as simply as can be."""
    store: Graph = {BEFORE[0]: 0, BEFORE[1]: 1}
    for key, (func, a, b, *_) in graph.items():
        store[key] = func(store[a], store[b]) & 0xFFFF
    return store[KEYS[-1]]


def run_dask(graph: Graph) -> int:
    """Each gets just what it needs, which is the cheapest way."""
    store: Graph = {BEFORE[0]: 0, BEFORE[1]: 1}
    for key, task in graph.items():
        store[key] = task({name: store[name] for name in task.dependencies}) & 0xFFFF
    return store[KEYS[-1]]


def run_specs(tasks: Iterable[TaskSpec]) -> int:
    """By position, as a worker does."""
    store: list[int] = []
    for spec, places in zip(tasks, PLACES, strict=True):
        store.append(spec([store[n] for n in places]) & 0xFFFF)
    return store[-1]


# --- measuring ---------------------------------------------------------------------------------------------------


class Cost(NamedTuple):
    """Of one form, per task: microseconds and bytes; None where it has no meaning."""

    form: str
    creation: float | None
    pickling: float | None
    size: float | None
    bz2: float | None
    execution: float | None


class Bar(NamedTuple):
    """Something wanted: a ratio, and the most it may be."""

    claim: str
    ratio: float
    most: float

    @property
    def good(self) -> bool:
        """Whether it is reached."""
        return self.ratio <= self.most


def least(calls: dict[str, Callable[[], Any]], runs: int, each: int) -> dict[str, float]:
    """The least time of each call, in microseconds for each of ``each`` tasks; all take turns."""
    found = dict.fromkeys(calls, float("inf"))
    for _ in range(runs):
        for name, call in calls.items():
            found[name] = min(found[name], seconds(call))
    return {name: took / each * 1e6 for name, took in found.items()}


def seconds(call: Callable[[], Any]) -> float:
    """Seconds of processor time that a call takes, the collector off, after one that does not count."""
    gc.collect()
    gc.disable()
    call()  # collecting leaves everything cold
    started = process_time()
    made = call()
    took = process_time() - started
    gc.enable()
    del made
    return took


def costs(runs: int) -> list[Cost]:
    """All forms."""
    graphs = {name: make() for name, make in FORMS.items()}
    held = [*graphs["TaskSpec, held"].values()]
    there = arrived(held)
    creation = least(dict(FORMS), runs, TASKS)
    pickling = least(
        {**{name: bound(pickle.dumps, graph, 5) for name, graph in graphs.items()}, SHIPPED: bound(ship, held)},
        runs, TASKS,
    )  # fmt: skip
    runners = {
        "tuple": bound(run_tuples, graphs["tuple"]),
        "annotated tuple": bound(run_tuples, graphs["annotated tuple"]),
        "dask Task": bound(run_dask, graphs["dask Task"]),
        "TaskSpec, held": bound(run_specs, held),
        SHIPPED: bound(run_specs, there),
    }
    assert len({runners[name]() for name in ("tuple", "annotated tuple", "dask Task")}) == 1
    execution = least(runners, runs, TASKS)
    wholes = {name: pickle.dumps(graph, 5) for name, graph in graphs.items()}
    wholes[SHIPPED] = b"".join(map(bytes, ship(held)))
    return [
        Cost(name, creation.get(name), pickling[name], len(whole) / TASKS, len(bz2.compress(whole)) / TASKS,
             execution.get(name))
        for name, whole in wholes.items()
    ]  # fmt: skip


def bound(call: Callable[..., Any], *args: Any) -> Callable[[], Any]:
    """A call with its arguments, without the cost of a lambda's own frame."""
    return lambda: call(*args)


def carrying(runs: int) -> dict[str, float]:
    """Microseconds that an annotation adds to each task of a whole ``get``, by the way it is given.

    Each way has its twin that is the same but for the annotation, and is measured just before it. A whole run takes so
    much longer than what is looked for that the median of the differences is told, and not that of the least times.
    """
    keys = [("one", n) for n in range(CARRIED)]
    fresh = [{"job": "nightly"} for _ in keys]
    own_form: Graph = {key: hetsched.Task(one) for key in keys}
    plain: Graph = dict.fromkeys(keys, (one,))
    ways: dict[str, tuple[Graph, Graph]] = {
        "one dict": (own_form, {key: hetsched.Task(one, annotations=NOTE_CARRIED) for key in keys}),
        "a dict each": (
            own_form, {key: hetsched.Task(one, annotations=note) for key, note in zip(keys, fresh, strict=True)}
        ),
        "hetsched.task": (plain, dict.fromkeys(keys, (hetsched.task(one, job="nightly"),))),
    }  # fmt: skip
    for graph in (own_form, plain, *[annotated for _, annotated in ways.values()]):
        graph["sum", 0] = (sum, keys)
        assert hetsched.get(graph, ("sum", 0)) == CARRIED
    more: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(runs):
        for name, twins in ways.items():
            without, annotated = [seconds(bound(hetsched.get, graph, ("sum", 0))) for graph in twins]
            more[name].append(annotated - without)
    return {name: statistics.median(found) / CARRIED * 1e6 for name, found in more.items()}


def bars(found: Sequence[Cost], carried: dict[str, float]) -> list[Bar]:
    """What is wanted of them."""
    by = {cost.form: cost for cost in found}
    plain, annotated, theirs = by["tuple"], by["annotated tuple"], by["dask Task"]
    shipped = by[SHIPPED]
    wanted = []
    for name in ("hetsched.Task", "TaskSpec, held"):
        wanted += [
            Bar(f"creation, {name} / tuple", by[name].creation / plain.creation, 4),
            Bar(f"creation, {name} / dask Task", by[name].creation / theirs.creation, 1 / 5),
        ]
    wanted += [
        Bar("pickling, shipped / annotated tuple", shipped.pickling / annotated.pickling, 1),
        Bar("size, shipped / annotated tuple", shipped.size / annotated.size, 1),
        Bar("size after bz2, shipped / annotated tuple", shipped.bz2 / annotated.bz2, 1),
        Bar("execution, held / dask Task", by["TaskSpec, held"].execution / theirs.execution, 0.3),
        Bar("execution, shipped / dask Task", shipped.execution / theirs.execution, 0.3),
    ]
    for name, cost in carried.items():
        wanted.append(Bar(f"get, microseconds an annotation adds to a task, {name}", cost, 1))
    return wanted


def line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """A line of a Markdown table."""
    rest = (cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))
    return "| " + " | ".join([cells[0].ljust(widths[0]), *rest]) + " |"


def figure(value: float | None, digits: int) -> str:
    """A figure, or a dash."""
    return "-" if value is None else f"{value:.{digits}f}"


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print; 1 where a bar is missed and ``--strict`` was given."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=40, help="runs of each form (40)")
    parser.add_argument("--quick", action="store_true", help="few runs: a try, not a result")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--strict", action="store_true", help="exit with 1 where a bar is MISSED")
    given = parser.parse_args(words)
    runs = 3 if given.quick else given.runs
    found, carried = costs(runs), carrying(max(2, runs))
    wanted = bars(found, carried)
    if given.json:
        rows = {"costs": [cost._asdict() for cost in found], "carrying": carried}
        print(json.dumps({**rows, "bars": [{**bar._asdict(), "good": bar.good} for bar in wanted]}, indent=1))
    else:
        print(f"Python {platform.python_version()}; dask {version('dask')}; hetsched {compiled.state()}; {runs} runs\n")
        widths = (17, 8, 8, 6, 9, 9)
        print(line(("per task", "creation", "pickling", "bytes", "after bz2", "execution"), widths))
        print(line(["-" * width for width in widths], widths))
        for cost in found:
            texts = [figure(value, digits) for value, digits in zip(cost[1:], (3, 3, 1, 2, 3), strict=True)]
            print(line((cost.form, *texts), widths))
        print()
        widths = (60, 7, 7, 6)
        print(line(("what is wanted", "is", "at most", ""), widths))
        print(line(["-" * width for width in widths], widths))
        for bar in wanted:
            print(line((bar.claim, f"{bar.ratio:.2f}", f"{bar.most:.2f}", "ok" if bar.good else "MISSED"), widths))
    return int(given.strict and not all(bar.good for bar in wanted))


if __name__ == "__main__":
    sys.exit(main())
