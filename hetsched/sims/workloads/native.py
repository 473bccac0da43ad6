"""Workloads as JSON files of our own.

``{"format": "hetsched workload", "version": 1, "name": ..., "wanted": [positions] or null, "tasks": [...]}``, each task
``{"key": ..., "dependencies": [positions], "seconds": number or {class: number}, "nbytes": ..., "annotations": {...},
"hints": [seconds, nbytes]}``, of which all but the key may be left out. A key that is a list stands for a tuple.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hetsched.core.types import Key
from hetsched.errors import HetschedError
from hetsched.sims.json_file import read_json
from hetsched.sims.model import Task, Workload

__all__ = ["read_native", "write_native"]

_FORMAT = "hetsched workload"


def read_native(path: str | Path) -> Workload:
    """Read a file. Raises HetschedError for one of another kind, or where tasks or positions are not right."""
    path = Path(path)
    said = read_json(path)
    if not isinstance(said, dict) or said.get("format") != _FORMAT or said.get("version") != 1:
        raise HetschedError(f"{path} is no workload: it lacks {{'format': {_FORMAT!r}, 'version': 1}}")
    if not isinstance(said.get("tasks"), list):
        raise HetschedError(f"{path} has no list of tasks")
    tasks = []
    for position, row in enumerate(said["tasks"]):
        if not isinstance(row, dict) or "key" not in row:
            raise HetschedError(f"{path}: the task at {position} has no key")
        for d in row.get("dependencies", ()):
            if not isinstance(d, int) or not 0 <= d < position:
                raise HetschedError(f"{path}: task {row['key']!r} at {position} reads {d!r}, which is not before it")
        hints = row.get("hints")
        tasks.append(
            Task(
                _key(row["key"]), row.get("dependencies", ()), row.get("seconds", 0.0), round(row.get("nbytes", 0)),
                row.get("annotations"), (float(hints[0]), round(hints[1])) if hints else None,
            )
        )  # fmt: skip
    wanted = said.get("wanted")
    for w in wanted or ():
        if not isinstance(w, int) or not 0 <= w < len(tasks):
            raise HetschedError(f"{path}: position {w!r} is wanted, and there are {len(tasks)} tasks")
    return Workload(said.get("name", path.stem), tasks, wanted)


def write_native(workload: Workload, path: str | Path) -> None:
    """Write a file; parts of results become tasks of their own."""
    if any(t.outputs for t in workload.tasks):
        workload = workload.split()
    rows = []
    for t in workload.tasks:
        row: dict[str, Any] = {"key": t.key, "dependencies": list(t.dependencies), "seconds": t.seconds}
        row["nbytes"] = t.nbytes
        if t.annotations:
            row["annotations"] = dict(t.annotations)
        if t.hints:
            row["hints"] = list(t.hints)
        rows.append(row)
    said = {"format": _FORMAT, "version": 1, "name": workload.name, "wanted": workload.wanted, "tasks": rows}
    Path(path).write_text(json.dumps(said), encoding="utf-8")


def _key(said: Any) -> Key:
    return tuple(_key(part) for part in said) if isinstance(said, list) else said
