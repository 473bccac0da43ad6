"""How good the placement policies are, against bounds and against each other.

    python benchmarks/policies.py [REFERENCE_FOLDER]     the folder of reference cases; ../shared/reference by default

Two parts, each printed with the bar that it should reach:

- tiles on cores and devices (hetero_bounds.json): the best of the policies, which know all durations, to the bound;
- graphs of the reference files and workflows on 8 and 32 workers of 4 cores at 128 MB/s, shared fairly: the default,
  which knows no durations, to the larger of critical path and area, and to `dask_like`. What policies that know
  everything reach there is printed below it.

The tiles' milliseconds are taken for seconds: there is no communication in them, and what is expected of one is to be
small.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from hetsched.sims.bounds import bounds
from hetsched.sims.engine import Simulation
from hetsched.sims.model import Machine, Submission, Task, Workload
from hetsched.sims.network.spec import NetworkSpec
from hetsched.sims.scenario import Scenario
from hetsched.sims.statistics import geometric_mean
from hetsched.sims.workloads.reference import read_reference
from hetsched.sims.workloads.tiles import FACTORISATIONS
from hetsched.sims.workloads.wfformat import read_wfformat

FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2] / "shared" / "reference"
MIXED = ("dmdas", "eft", "heft", "heft(rank=min)", "heft(rank=min, strict=yes)", "heft(search=20)", "heteroprio")
KNOWING = {
    "default": ("earliest_finish", "learned"),
    "rebalancing": ("rebalancing", "learned"),
    "dask_like": ("dask_like", "learned"),
    "default, knowing all": ("earliest_finish", "exact"),
}
ALL = (
    "earliest_finish", "rebalancing", "heft", "heft(search=20)", "blevel", "eft", "dmdas", "dask_like",
    "work_stealing", "locality",
)  # fmt: skip
BEST = "best of ten policies, knowing all"
ORDERS = 8
GRAPHS = ("crossv", "merge_neighbours", "fork1", "montage", "cybershake", "ligo", "splitters")


def makespan(scenario: Scenario) -> float:
    """Run it."""
    simulation = Simulation(scenario, detail=False)
    simulation.run()
    return simulation.trace.last_stop


def say(what: str, found: float, bar: float) -> None:
    """Print a figure and whether it reaches its bar."""
    print(f"{what:64} {found:7.3f}  (at most {bar:g}: {'yes' if found <= bar else 'NO'})", flush=True)


def tiles() -> None:
    """Factorisations on cores and devices."""
    best = []
    for case in json.loads((FOLDER / "hetero_bounds.json").read_text(encoding="utf-8"))["cases"]:
        times = {kernel: {"cpu": cpu, "gpu": gpu} for kernel, (cpu, gpu) in case["times_ms"].items()}
        workload = FACTORISATIONS[case["dag"]](case["N"], times)
        cores = [Machine(f"c{n}") for n in range(case["cpus"])]
        devices = [
            Machine(f"g{n}", resources={"GPU": 1.0}, classes={"cpu": "gpu"}) for n in range(case["gpus"])
        ]  # fmt: skip
        ratios = {}
        for policy in MIXED:
            instant = NetworkSpec("instant")
            scenario = Scenario([Submission(workload)], [*cores, *devices], instant, policy, "exact")
            ratios[policy] = makespan(scenario) / case["lp"]
        name = min(ratios, key=lambda policy: ratios[policy])
        best.append(ratios[name])
        print(f"  {case['dag']} {case['N']} on {case['platform']}: {name} {ratios[name]:.3f}", flush=True)
    say("best of the policies to the bound, geometric mean", geometric_mean(best), 1.08)
    say("  worst", max(best), 1.27)


def graphs() -> Iterator[Workload]:
    """The kinds of graphs that the bars speak of, but for those of several cores a task."""
    for name in GRAPHS:
        yield read_reference(FOLDER / "estee_reference.json", name)
    for path in sorted((FOLDER / "wf").glob("*.json")):
        workload = read_wfformat(path)
        workload.name = path.stem
        yield workload


def in_another_order(workload: Workload, seed: int) -> Workload:
    """The same tasks as another program might submit them: each after what it reads, else by chance; 0: as it was."""
    if not seed:
        return workload
    rng = random.Random(seed)
    waiting = [len(task.dependencies) for task in workload.tasks]
    readers: list[list[int]] = [[] for _ in workload.tasks]
    for position, task in enumerate(workload.tasks):
        for d in task.dependencies:
            readers[d].append(position)
    ready = [position for position, left in enumerate(waiting) if not left]
    place: dict[int, int] = {}
    while ready:
        position = ready.pop(rng.randrange(len(ready)))
        place[position] = len(place)
        for d in readers[position]:
            waiting[d] -= 1
            if not waiting[d]:
                ready.append(d)
    moved = []
    for position in place:
        t = workload.tasks[position]
        reads = [place[d] for d in t.dependencies]
        moved.append(Task(t.key, reads, t.seconds, t.nbytes, t.annotations, t.hints, t.outputs, t.parts, t.cuda_nbytes))
    wanted = None if workload.wanted is None else sorted(place[position] for position in workload.wanted)
    return Workload(workload.name, moved, wanted)


def homogeneous() -> None:
    """The default on graphs of all kinds.

    How long the tasks of a kind take is not known, and so it is chance which of them come last, and whether the longest
    is among them. So each graph is submitted in several orders, and a figure is the geometric mean over those.
    """
    ratios: dict[tuple[int, str], list[float]] = {}
    worse = []
    for workload in graphs():
        orders = [in_another_order(workload, seed) for seed in range(ORDERS)]
        words = []
        for count in (8, 32):
            machines = [Machine(f"w{n}", 4, resources={"cores": 4.0}) for n in range(count)]
            bound = bounds(workload, machines, exact=False).best
            found = {}
            for title, (policy, knowledge) in KNOWING.items():
                network = NetworkSpec("maxmin", 128e6)
                runs = [makespan(Scenario([Submission(w)], machines, network, policy, knowledge)) for w in orders]
                found[title] = geometric_mean(runs) / bound
                ratios.setdefault((count, title), []).append(found[title])
            exact = [
                makespan(Scenario([Submission(workload)], machines, NetworkSpec("maxmin", 128e6), policy, "exact"))
                for policy in ALL
            ]
            ratios.setdefault((count, BEST), []).append(min(exact) / bound)
            worse.append(found["default"] / found["dask_like"])
            words.append(f"{count}x4: {found['default']:.3f} (dask_like {found['dask_like']:.3f})")
        print(f"  {workload.name:40} {'   '.join(words)}", flush=True)
    for count, bar in ((8, 1.13), (32, 1.05)):
        say(f"default to the bound at {count}x4, geometric mean", geometric_mean(ratios[count, "default"]), bar)
        for title in (*KNOWING, BEST):
            mean, worst = geometric_mean(ratios[count, title]), max(ratios[count, title])
            print(f"{f'  {title}, mean and worst':64} {mean:7.3f} {worst:7.3f}")
    say("default to dask_like, worst", max(worse), 1.05)


if __name__ == "__main__":
    tiles()
    homogeneous()
