"""A small case that a seed gives: graphs, machines, a network, and what goes wrong."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from hetsched.sims.model import Machine, Noise, ServerCost, Submission, Task, Workload
from hetsched.sims.network.spec import NetworkSpec, Wire
from hetsched.sims.scenario import Scenario

from .plan import Fault, FaultKind

__all__ = ["Case", "make_case"]

_KINDS: tuple[FaultKind, ...] = ("crash", "freeze", "partition", "disconnect", "cut", "slow", "delay", "fill")

_NOTES: list[dict[str, Any] | None] = [
    None, None, None, None,
    {"retries": 2}, {"executor": "io"}, {"priority": 5}, {"retries": 1, "priority": -2}, {"gpu": True},
    {"resources": {"licence": 1}}, {"resources": {"licence": 2}, "retries": 1}, {"pool": "p"}, {"pool": ["p", "q"]},
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """A scenario, and which tasks fail: ``broken`` always, ``flaky`` at their first attempt (by their keys)."""

    seed: int
    scenario: Scenario
    broken: frozenset[Any]
    flaky: frozenset[Any]


def make_case(seed: int) -> Case:
    """Make the case of a seed: messages cross, workers come and go, and all of it while tasks run."""
    rng = random.Random(seed)
    scale = rng.choice([1e-4, 0.01, 0.2])
    graphs = [_graph(rng, f"g{n}", scale) for n in range(rng.choice([1, 1, 2, 3]))]
    tasks = [task for graph in graphs for task in graph.tasks]
    machines = [_machine(rng, n, scale) for n in range(rng.choice([1, 2, 3, 3, 4, 5]))]
    delay = scale * rng.choice([0.0, 0.01, 1.0])
    horizon = (scale + 3 * delay) * max(len(tasks) / len(machines), 3)
    submissions = [
        Submission(
            graph,
            rng.choice([0.0, 0.0, horizon * rng.random()]),
            urgency=rng.choice([0, 0, 1]),
            cancelled=rng.choice([None, None, None, None, horizon * rng.random()]),
        )
        for graph in graphs
    ]
    faults = [_fault(rng, rng.choice(machines).name, horizon) for _ in range(rng.choice([0, 2, 4, 8, 16]))]
    # Whatever still waits when all is over can run here.
    machines.append(Machine("last", 2, 1, "*", executors={"io": 2}, resources={"licence": 2.0}, arrives=1000.0))
    scenario = Scenario(
        submissions,
        machines,
        _network(rng, scale),
        policy=rng.choice(["earliest_finish", "random", "random", "round_robin"]),
        knowledge=rng.choice(["learned", "learned", "exact", "blind"]),
        seed=seed,
        delay=delay,
        jitter=scale * rng.choice([0.0, 1.0, 20.0, 100.0]),
        server=rng.choice([ServerCost(), ServerCost(), ServerCost(0.01 * scale, 0.001 * scale)]),
        noise=rng.choice([Noise(), Noise(0.5, 0.1, 10.0)]),
        faults=sorted(faults),
        silence=horizon * rng.choice([0.1, 1.0, 10.0]),
        leaving=horizon * rng.choice([0.3, 10.0]),
        restart=horizon * rng.choice([0.01, 0.3]),
        allowed_losses=10,
    )
    broken = rng.sample(tasks, min(len(tasks), rng.choice([0, 0, 0, 1, 2])))
    flaky = [task.key for task in tasks if (task.annotations or {}).get("retries") and rng.random() < 0.5]
    return Case(seed, scenario, frozenset(task.key for task in broken), frozenset(flaky))


def _graph(rng: random.Random, name: str, scale: float) -> Workload:
    tasks: list[Task] = []
    plain = rng.random() < 0.4
    for i in range(rng.randint(1, rng.choice([4, 12, 30, 30]))):
        fan = min(i, rng.choice([0, 1, 2, 3, 5]))
        dependencies = sorted(rng.sample(range(i), fan)) if rng.random() < 0.8 else [i - 1] * bool(i)
        seconds = scale * rng.choice([0.0, 0.1, 1.0, rng.random()])
        key = (rng.choice(["load", "map", "sum"]), name, i)
        notes = None if plain else rng.choice(_NOTES)
        tasks.append(Task(key, dependencies, seconds, rng.choice([0, 8, 100, 400]), notes))
    used = {d for task in tasks for d in task.dependencies}
    wanted = sorted({i for i in range(len(tasks)) if i not in used} | {i for i in used if rng.random() < 0.1})
    return Workload(name, tasks, wanted)


def _machine(rng: random.Random, n: int, scale: float) -> Machine:
    limits = rng.choice([(0, 0)] * 8 + [(2000, 0), (2000, 1000)])
    return Machine(
        f"w{n}",
        rng.randint(1, 3),
        rng.choice([0, 0, 1]),
        rng.choice([None, "p", "q", "*"]),
        rng.choice([1.0, 1.0, 0.5]),
        *limits,
        resources={"licence": 2.0},
        executors={"io": 2},
        delay=rng.choice([None, None, None, 5 * scale]),
        window=rng.choice([0, 1, 1, 1, 2, 2, 5]),
        ahead=rng.choice([0.0, 0.05]),
        arrives=rng.choice([0.0, 0.0, 0.0, 10 * scale * rng.random()]),
        retires=rng.choice([None, None, None, None, 20 * scale * rng.random()]),
    )


def _network(rng: random.Random, scale: float) -> NetworkSpec:
    return NetworkSpec(
        rng.choice(["instant", "simple", "maxmin", "maxmin"]),
        rng.choice([100.0, 1e4]) / scale,
        scale * rng.choice([0.0, 0.01, 5.0]),
        fairness=rng.choice(["flow", "pair"]),
        downloads=rng.choice([None, 1, 8]),
        downloads_per_source=rng.choice([None, None, 1]),
        requests=rng.choice(["one", "one", "many"]),
        replica=rng.choice(["first", "nearest"]),
        between=rng.choice([{}, {("p", "q"): Wire(50.0 / scale, scale, 2.0), ("q", "p"): Wire(50.0 / scale)}]),
    )


def _fault(rng: random.Random, worker: str, horizon: float) -> Fault:
    kind = rng.choice(_KINDS)
    amount = rng.choice([0.01, 0.5]) if kind != "delay" else horizon * rng.choice([0.03, 0.3])
    seconds = horizon * rng.choice([0.1, 1.0, 8.0]) * rng.random()
    return Fault(horizon * rng.random(), kind, worker, seconds, amount)
