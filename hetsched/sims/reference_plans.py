"""Reference cases of related machines without contention: HEFT's makespans, and how near to the best known we come."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from math import exp, log
from pathlib import Path
from typing import Any

from .planning import Problem, heft, improve
from .verdict import Verdict

__all__ = ["compare_plans", "read_problem"]

_MEAN = 1.02
"""Our best plans are to be at most so much longer than the best known, in the geometric mean."""


def compare_plans(path: Path, cases: Sequence[Mapping[str, Any]]) -> Iterator[Verdict]:
    """Compare HEFT's makespan in each case, and ours in all; a case whose workflow file is not there is passed over."""
    ratios = []
    for case in cases:
        file = case.get("workflow_file")
        if file is not None and not (path.parent / file).exists():
            continue
        problem = read_problem(case, path.parent)
        plan = heft(problem)
        expected = case["makespans"]["HeftScheduler"]
        difference = abs(plan.makespan - expected) / expected
        yield Verdict(f"{case['name']} HEFT", plan.makespan, expected, difference, difference <= 1e-4)
        best = min(case["makespans"].values())
        found = improve(problem, plan).makespan
        ratios.append(found / best)
    if ratios:
        mean = exp(sum(map(log, ratios)) / len(ratios))
        yield Verdict("best plans, mean of ratios to the best known", mean, _MEAN, max(ratios) - 1.0, mean <= _MEAN)


def read_problem(case: Mapping[str, Any], folder: Path) -> Problem:
    """Read a case, and the workflow file in the folder it may speak of."""
    names = list(case["nodes"])
    number = {name: n for n, name in enumerate(names)}
    links = [[float("inf")] * len(names) for _ in names]
    for a, b, speed in case["links"]:
        links[number[a]][number[b]] = links[number[b]][number[a]] = speed
    costs, edges = (case["tasks"], case["deps"]) if "tasks" in case else _workflow(folder / case["workflow_file"])
    tasks = {name: n for n, name in enumerate(costs)}
    inputs: list[list[tuple[int, float]]] = [[] for _ in tasks]
    for maker, reader, size in edges:
        inputs[tasks[reader]].append((tasks[maker], size))
    return Problem(list(costs.values()), inputs, [float(case["nodes"][name]) for name in names], links)


def _workflow(path: Path) -> tuple[dict[str, float], list[tuple[str, str, float]]]:
    """The tasks of a WfFormat file with their seconds, and the MB of the files that each reads of others."""
    workflow = json.loads(path.read_text(encoding="utf-8"))["workflow"]
    specification = workflow["specification"]
    sizes = {file["id"]: file["sizeInBytes"] / 1e6 for file in specification.get("files", [])}
    seconds = {task["id"]: task["runtimeInSeconds"] for task in workflow["execution"]["tasks"]}
    outputs = {task["id"]: set(task.get("outputFiles", [])) for task in specification["tasks"]}
    edges = [
        (parent, task["id"], sum(sizes[file] for file in task.get("inputFiles", []) if file in outputs[parent]))
        for task in specification["tasks"]
        for parent in task["parents"]
    ]
    return {task["id"]: seconds[task["id"]] for task in specification["tasks"]}, edges
