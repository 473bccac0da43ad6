"""Workflows of the WfCommons project: WfFormat 1.5 and later, as WfInstances publishes them (wfcommons.org/format)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hetsched.errors import HetschedError
from hetsched.sims.json_file import read_json
from hetsched.sims.model import Task, Workload

__all__ = ["read_wfformat"]


def read_wfformat(path: str | Path, seconds: float = 1.0, files: bool = False) -> Workload:
    """Read a file: a task takes what it took, its result is the files it wrote that others read.

    ``seconds`` is by what to multiply all times. A task that reads some of the files of another reads its whole result;
    with ``files`` each file is a result of its own. What is read from outside of the workflow is there already.

    Raises HetschedError for a file of another kind, or one whose tasks wait for each other.
    """
    path = Path(path)
    said = read_json(path)
    try:
        specification = said["workflow"]["specification"]
        tasks = {task["id"]: task for task in specification["tasks"]}
        size = {file["id"]: float(file.get("sizeInBytes", 0)) for file in specification.get("files", ())}
        took = {task["id"]: task for task in said["workflow"].get("execution", {}).get("tasks", ())}
    except KeyError as error:
        raise HetschedError(f"{path} is not of WfFormat 1.5 or later: {error} is missing") from error
    except (TypeError, AttributeError) as error:
        raise HetschedError(f"{path} is not of WfFormat 1.5 or later: {error}") from error
    place: dict[str, int] = {}
    maker: dict[str, tuple[int, int]] = {}
    found: list[Task] = []
    read = {file for task in tasks.values() for file in task.get("inputFiles", ())}
    for name in _inputs_first(path, tasks):
        task = tasks[name]
        inputs = [maker[file] for file in task.get("inputFiles", ()) if file in maker]
        known = {m for m, _ in inputs}
        # Some parents pass no file.
        inputs += [(place[parent], -1) for parent in task.get("parents", ()) if place[parent] not in known]
        written = [file for file in task.get("outputFiles", ()) if file in read]
        place[name] = len(found)
        maker.update((file, (len(found), number)) for number, file in enumerate(written))
        sizes = [round(size.get(file, 0.0)) for file in written]
        lasts = float(took.get(name, task).get("runtimeInSeconds", 0.0)) * seconds
        key = (str(task.get("name", name)).rsplit("_ID", maxsplit=1)[0], name)
        if files:
            inputs = [(m, part if part >= 0 else 0) for m, part in inputs if part >= 0 or found[m].outputs]
            found.append(Task(key, [m for m, _ in inputs], lasts, sum(sizes), None, None, sizes, [p for _, p in
            inputs]))
        else:
            found.append(Task(key, list(dict.fromkeys(m for m, _ in inputs)), lasts, sum(sizes)))
    workload = Workload(str(said.get("name", path.stem)), found)
    return workload.split() if files else workload


def _inputs_first(path: Path, tasks: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The tasks' names, each after its parents."""
    parents = {name: dict.fromkeys(task.get("parents", ())) for name, task in tasks.items()}
    children: dict[str, list[str]] = {}
    for name, above in parents.items():
        for parent in above:
            children.setdefault(parent, []).append(name)
    left = {name: len(above) for name, above in parents.items()}
    ready = [name for name, count in left.items() if not count]
    for name in ready:  # it grows
        for child in children.get(name, ()):
            left[child] -= 1
            if not left[child]:
                ready.append(child)
    if len(ready) < len(tasks):
        raise HetschedError(f"{path}: {len(tasks) - len(ready)} tasks wait for each other, or for a parent not there")
    return ready
