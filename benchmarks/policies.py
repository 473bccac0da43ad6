"""How good the placement policies are, against bounds and against each other.

    python benchmarks/policies.py [REFERENCE_FOLDER]     the folder of reference cases; ../shared/reference by default

Two parts, each printed with the bar that it should reach:

- tiles on cores and devices (hetero_bounds.json): the best of the policies, which know all durations, to the bound;
- graphs of the reference files and workflows on 8 and 32 workers of 4 cores at 128 MB/s, shared fairly: the default,
  which knows no durations, to the larger of critical path and area, and to `dask_like`.

The tiles' milliseconds are taken for seconds: there is no communication in them, and what is expected of one is to be
small.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from hetsched.sims.bounds import bounds
from hetsched.sims.engine import Simulation
from hetsched.sims.model import Machine, Submission, Workload
from hetsched.sims.network.spec import NetworkSpec
from hetsched.sims.scenario import Scenario
from hetsched.sims.statistics import geometric_mean
from hetsched.sims.workloads.reference import read_reference
from hetsched.sims.workloads.tiles import FACTORISATIONS
from hetsched.sims.workloads.wfformat import read_wfformat

FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2] / "shared" / "reference"
MIXED = ("dmdas", "eft", "heft", "heft(rank=min)", "heft(rank=min, strict=yes)", "heft(search=20)", "heteroprio")
POLICIES = ("earliest_finish", "rebalancing", "dask_like")
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


def homogeneous() -> None:
    """The default on graphs of all kinds."""
    ratios: dict[tuple[int, str], list[float]] = {}
    worse = []
    for workload in graphs():
        words = []
        for count in (8, 32):
            machines = [Machine(f"w{n}", 4, resources={"cores": 4.0}) for n in range(count)]
            bound = bounds(workload, machines, exact=False).best
            found = {
                policy: makespan(
                    Scenario([Submission(workload)], machines, NetworkSpec("maxmin", 128e6), policy, "learned")
                )
                for policy in POLICIES
            }
            for policy, seconds in found.items():
                ratios.setdefault((count, policy), []).append(seconds / bound)
            worse.append(found["earliest_finish"] / found["dask_like"])
            default = found["earliest_finish"] / bound
            others = ", ".join(f"{policy} {found[policy] / bound:.3f}" for policy in POLICIES[1:])
            words.append(f"{count}x4: {default:.3f} ({others})")
        print(f"  {workload.name:40} {'   '.join(words)}", flush=True)
    for count, bar in ((8, 1.13), (32, 1.05)):
        say(f"default to the bound at {count}x4, worst", max(ratios[count, POLICIES[0]]), bar)
        for policy in POLICIES:
            print(f"{'  geometric mean, ' + policy:64} {geometric_mean(ratios[count, policy]):7.3f}")
    say("default to dask_like, worst", max(worse), 1.05)


if __name__ == "__main__":
    tiles()
    homogeneous()
