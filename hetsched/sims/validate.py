"""Compare the simulator with reference cases: every task's end, and bounds and makespans where a file has such.

The files and what they mean are described in ``docs/sims.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from hetsched.errors import HetschedError

from .engine import Simulation
from .fixed import CORES, FixedHands, FixedMind, FixedTask, StrictHands
from .json_file import read_json
from .model import Machine, Submission, Task, Workload
from .network.spec import NetworkSpec, Wire
from .reference_bounds import compare_bounds
from .reference_plans import compare_plans
from .scenario import Scenario
from .verdict import Verdict

__all__ = ["TOLERANCE", "run_fixed", "validate"]

TOLERANCE = 1e-6
"""By what part (or how many seconds, for what is shorter than one) a task's end may differ."""

_MB = 1_000_000


def validate(path: str | Path) -> Iterator[Verdict]:
    """Run the cases of a reference file one after another: fixed placements, bounds, or plans.

    Raises HetschedError for a file of another format, and for bounds where scipy is not installed.
    """
    path = Path(path)
    reference = read_json(path)
    cases = reference.get("cases") if isinstance(reference, dict) else None
    if not isinstance(cases, list) or not cases or not all(isinstance(case, dict) for case in cases):
        raise HetschedError(f"{path} has no reference cases")
    try:
        yield from _verdicts(path, reference, cases)
    except KeyError as error:
        raise HetschedError(f"{path} has a case, or a graph of one, that lacks {error}") from error
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        what = f"{type(error).__name__}, {error}"
        raise HetschedError(f"{path} has a case that is not as docs/sims.md describes it: {what}") from error


def _verdicts(path: Path, reference: Mapping[str, Any], cases: Sequence[Mapping[str, Any]]) -> Iterator[Verdict]:
    if all("lp" in case for case in cases):
        yield from compare_bounds(cases)
        return
    if all("HeftScheduler" in case.get("makespans", ()) for case in cases):
        yield from compare_plans(path, cases)
        return
    odd = [number for number, case in enumerate(cases) if "placement" not in case]
    if odd:
        raise HetschedError(
            f"{path} has reference cases of a kind that is not known: all need 'placement', or all 'lp', or all "
            f"'makespans' with 'HeftScheduler'; case {odd[0]} lacks 'placement'"
        )
    graphs = _graphs(path, reference)
    for number, case in enumerate(cases):
        try:
            verdict = _compare(case, graphs, reference.get("clusters", {}))
        except KeyError as error:
            raise HetschedError(f"{path}: case {number}, or its graph, lacks {error}") from error
        except (HetschedError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise HetschedError(f"{path}: case {number} is not right: {error}") from error
        yield verdict


def _graphs(path: Path, reference: Mapping[str, Any]) -> Mapping[str, Any]:
    """The graphs a file speaks of: its own, else those of the file beside it that has some."""
    if "graphs" in reference:
        return cast("Mapping[str, Any]", reference["graphs"])
    for other in sorted(path.resolve().parent.glob("*.json")):
        beside = read_json(other)
        if isinstance(beside, dict) and isinstance(beside.get("graphs"), dict):
            return cast("Mapping[str, Any]", beside["graphs"])
    raise HetschedError(f"{path} has no graphs, and no file beside it has any")


def _compare(case: Mapping[str, Any], graphs: Mapping[str, Any], clusters: Mapping[str, Any]) -> Verdict:
    if case["graph"] not in graphs:
        raise HetschedError(f"there is no graph {case['graph']!r} for a case")
    tasks = graphs[case["graph"]]["tasks"]
    for word in ("placement", "priority", "task_end"):
        if len(case[word]) != len(tasks):
            raise HetschedError(f"it has {len(case[word])} of {word!r} for the {len(tasks)} tasks of {case['graph']!r}")
    ends = run_fixed(case, tasks, clusters)
    found, expected = [*ends, max(ends)], [*case["task_end"], case["makespan"]]
    differences = [abs(a - b) / max(1.0, abs(b)) for a, b in zip(found, expected, strict=True)]
    worst = max(differences)
    pools = f"{len(set(case['pools']))} pools" if case.get("pools") is not None else case["netmodel"]
    name = f"{case['graph']} {case.get('config') or pools}"
    if worst > TOLERANCE:
        place = differences.index(worst)
        what = f"task {tasks[place]['id']!r} ends" if place < len(tasks) else "all ends"
        name += f" ({what} at {found[place]:.6f}, not {expected[place]:.6f})"
    return Verdict(name, max(ends), case["makespan"], worst, worst <= TOLERANCE)


def run_fixed(
    case: Mapping[str, Any], tasks: Sequence[Mapping[str, Any]], clusters: Mapping[str, Any]
) -> list[float]:
    """Run a case of fixed placement; returns when each task ended (seconds)."""
    machines, network = _machines(case, clusters)
    fixed, workload = _workload(case, tasks, machines)
    mind = FixedMind(fixed)
    hands = StrictHands if case.get("strict_priority") else FixedHands
    scenario = Scenario([Submission(workload, ordered=True)], machines, network)
    outputs = [task.outputs for task in fixed]
    simulation = Simulation(scenario, mind=mind, hands=partial(hands, outputs=outputs))
    simulation.network.priority = mind.urgency
    simulation.run()
    ends = [0.0] * len(tasks)
    for run in simulation.trace.task_runs():
        ends[run.task] = run.stop
    return ends


def _machines(case: Mapping[str, Any], clusters: Mapping[str, Any]) -> tuple[list[Machine], NetworkSpec]:
    pools = case.get("pools")
    cores = case["cores"] if pools is not None else clusters[case["cluster"]]
    if not all(0 <= place < len(cores) for place in case["placement"]):
        raise HetschedError(f"it places a task on a worker that is not there: there are {len(cores)}, the first is 0")
    names = [None] * len(cores) if pools is None else [f"pool{p}" for p in pools]
    machines = [
        Machine(f"w{n}", count, pool=pool, resources={CORES: float(count)})
        for n, (count, pool) in enumerate(zip(cores, names, strict=True))
    ]
    if pools is None:
        network = NetworkSpec(
            model=case["netmodel"],
            bandwidth=case["bandwidth"] * _MB,
            fairness=case.get("fairness") or "flow",
            downloads=case.get("max_downloads"),
            downloads_per_source=case.get("max_downloads_per_source"),
            requests="many",
        )
    else:
        wan = Wire(case["wan_bandwidth"] * _MB)
        between = {(a, b): wan for a in names for b in names if a is not None and b is not None and a != b}
        network = NetworkSpec("maxmin", case["nic_bandwidth"] * _MB, downloads=None, requests="many", between=between)
    return machines, network


def _workload(
    case: Mapping[str, Any], tasks: Sequence[Mapping[str, Any]], machines: Sequence[Machine]
) -> tuple[list[FixedTask], Workload]:
    """The tasks, with a number for each output after those of the tasks themselves."""
    number = {task["id"]: n for n, task in enumerate(tasks)}
    first: list[int] = []
    sizes: list[int] = []
    for task in tasks:
        first.append(len(tasks) + len(sizes))
        sizes += [round(size * _MB) for size in task["outputs"]]
    fixed = []
    for n, task in enumerate(tasks):
        inputs = tuple((number[maker], first[number[maker]] + output) for maker, output in task["inputs"])
        outputs = tuple(range(first[n], first[n] + len(task["outputs"])))
        worker = machines[case["placement"][n]].name
        fixed.append(FixedTask(worker, case["priority"][n], task["cpus"], inputs, outputs))
    real = [
        Task(("task", n), [maker for maker, _ in f.inputs], t["duration"])
        for n, (f, t) in enumerate(zip(fixed, tasks, strict=True))
    ]
    stand_ins = [Task(("output", n), (), 0.0, size) for n, size in enumerate(sizes)]
    return fixed, Workload(str(case.get("graph", "")), real + stand_ins, list(range(len(tasks))))
