"""A run in the JSON that chrome://tracing and ui.perfetto.dev show: a process for each worker, a thread for each slot.

The format is described in "Trace Event Format" of the Chromium project. Times are microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from .engine import Simulation

__all__ = ["write_perfetto"]

_SCHEDULER = 1_000_000


def write_perfetto(simulation: Simulation, path: Path) -> None:
    """Write the trace of a run."""
    text = json.dumps({"traceEvents": list(_events(simulation)), "displayTimeUnit": "ms"}, default=repr)
    path.write_text(text, encoding="utf-8")


def _counters(name: str, spans: Iterable[tuple[float, float, int, str]]) -> Iterator[dict[str, Any]]:
    """How many spans of time ``(start, stop, worker, kind)`` there are at once, for each worker by their kind."""
    changes: list[tuple[int, float, str, int]] = []
    for start, stop, worker, kind in spans:
        changes += (worker, start, kind, 1), (worker, stop, kind, -1)
    now: dict[int, dict[str, int]] = {}
    for (worker, at), some in groupby(sorted(changes), key=itemgetter(0, 1)):
        counts = now.setdefault(worker, {})
        for _, _, kind, change in some:
            counts[kind] = counts.get(kind, 0) + change
        yield {"ph": "C", "pid": worker, "name": name, "ts": at * 1e6, "args": dict(counts)}


def _events(simulation: Simulation) -> Iterator[dict[str, Any]]:
    trace, tasks = simulation.trace, simulation.world.tasks
    number = {name: n for n, name in enumerate(trace.workers)}
    yield {"ph": "M", "pid": _SCHEDULER, "name": "process_name", "args": {"name": "scheduler"}}
    for name, n in number.items():
        yield {"ph": "M", "pid": n, "name": "process_name", "args": {"name": name}}
    lanes = {executor: 1000 * (n + 1) for n, executor in enumerate(trace.executors)}
    for run in trace.task_runs():
        yield {
            "ph": "X", "pid": number[run.worker], "tid": lanes[run.executor] + run.slot, "cat": run.executor,
            "name": str(tasks[run.task].key), "ts": run.start * 1e6, "dur": (run.stop - run.start) * 1e6,
            "args": {"attempt": run.attempt, "failed": run.failed, "nbytes": tasks[run.task].nbytes},
        }  # fmt: skip
    for n, move in enumerate(trace.transfer_runs()):
        what = str(tasks[move.task].key) if move.task >= 0 else "nothing"
        common = {"cat": "transfer", "name": what, "id": n, "pid": number[move.target]}
        arguments = {"from": move.source, "results": move.results, "nbytes": move.nbytes, "asked": move.asked}
        yield {"ph": "b", **common, "ts": move.began * 1e6, "args": arguments}
        yield {"ph": "e", **common, "ts": move.ended * 1e6}
    for at, worker, used, on_disk in trace.memory:
        counters = {"in memory": used, "on disk": on_disk}
        yield {"ph": "C", "pid": worker, "name": "bytes", "ts": at * 1e6, "args": counters}
    yield from _counters("running", ((r.start, r.stop, number[r.worker], r.executor) for r in trace.task_runs()))
    moves = trace.transfer_runs()
    yield from _counters("receiving", ((m.began, m.ended, number[m.target], "transfers") for m in moves))
    for start, stop, what in trace.busy:
        yield {"ph": "X", "pid": _SCHEDULER, "tid": 0, "name": what, "ts": start * 1e6, "dur": (stop - start) * 1e6}
    for moment in trace.moments:
        name = f"{moment.what} {moment.who}"
        yield {"ph": "i", "s": "g", "pid": _SCHEDULER, "tid": 0, "name": name, "ts": moment.at * 1e6}
