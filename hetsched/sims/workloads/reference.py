"""Graphs of files of reference cases, which :mod:`hetsched.sims.validate` runs with a fixed placement, to be placed."""

from __future__ import annotations

from pathlib import Path

from hetsched.errors import HetschedError
from hetsched.sims.fixed import CORES
from hetsched.sims.json_file import read_json
from hetsched.sims.model import Task, Workload

__all__ = ["read_reference"]

_MB = 1_000_000


def read_reference(path: str | Path, graph: str) -> Workload:
    """Read one graph of a file; each output is a result of its own.

    A task of several cores needs as many of the resource "cores", which machines then have to have.
    """
    said = read_json(path)
    graphs = said.get("graphs", {}) if isinstance(said, dict) else {}
    if graph not in graphs:
        raise HetschedError(f"{path} has no graph {graph!r}; it has {', '.join(sorted(graphs))}")
    place: dict[int, int] = {}
    tasks: list[Task] = []
    for row in graphs[graph]["tasks"]:
        place[row["id"]] = len(tasks)
        reads = [(place[maker], output) for maker, output in row["inputs"]]
        sizes = [round(size * _MB) for size in row["outputs"]]
        notes = {"resources": {CORES: float(row["cpus"])}} if row["cpus"] > 1 else None
        key = (graph, row["id"])
        tasks.append(Task(key, [m for m, _ in reads], row["duration"], sum(sizes), notes, None, sizes, [o for _, o in
        reads]))
    return Workload(graph, tasks).split()
