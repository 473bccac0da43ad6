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
    """Make the case of a seed."""
    rng = random.Random(seed)
    submissions = [
        Submission(_graph(rng, f"g{n}"), rng.choice([0.0, 0.0, rng.random()]), urgency=rng.choice([0, 0, 1]))
        for n in range(rng.choice([1, 1, 2, 3]))
    ]
    tasks = [task for submission in submissions for task in submission.workload.tasks]
    machines = [_machine(rng, n) for n in range(rng.randint(1, 4))]
    horizon = rng.choice([0.02, 0.5, 2.0])
    faults = sorted(
        (_fault(rng, rng.choice(machines).name, horizon) for _ in range(rng.choice([0, 1, 2, 4, 8]))),
        key=lambda fault: fault.at,
    )
    # Whatever still waits when all is over can run here.
    machines.append(Machine("last", 2, 1, "*", executors={"io": 2}, resources={"licence": 2.0}, arrives=100.0))
    scenario = Scenario(
        submissions,
        machines,
        _network(rng),
        policy=rng.choice(["earliest_finish", "earliest_finish", "random", "round_robin"]),
        knowledge=rng.choice(["learned", "exact", "blind"]),
        seed=seed,
        delay=rng.choice([0.0, 0.001, 0.1]),
        server=rng.choice([ServerCost(), ServerCost(0.001, 0.0001)]),
        noise=rng.choice([Noise(), Noise(0.5, 0.1, 10.0)]),
        faults=faults,
        silence=rng.choice([0.3, 5.0]),
        leaving=rng.choice([0.5, 60.0]),
        allowed_losses=20,
    )
    broken = rng.sample(tasks, min(len(tasks), rng.choice([0, 0, 0, 1, 2])))
    flaky = [task.key for task in tasks if (task.annotations or {}).get("retries") and rng.random() < 0.5]
    return Case(seed, scenario, frozenset(task.key for task in broken), frozenset(flaky))


def _graph(rng: random.Random, name: str) -> Workload:
    tasks: list[Task] = []
    scale = rng.choice([1e-4, 0.01, 0.2])
    for i in range(rng.randint(1, rng.choice([4, 12, 30]))):
        fan = min(i, rng.choice([0, 1, 1, 2, 5]))
        dependencies = sorted(rng.sample(range(i), fan)) if rng.random() < 0.8 else [i - 1] * bool(i)
        seconds = scale * rng.choice([0.0, 0.1, 1.0, rng.random()])
        key = (rng.choice(["load", "map", "sum"]), name, i)
        tasks.append(Task(key, dependencies, seconds, rng.choice([0, 8, 100, 400]), rng.choice(_NOTES)))
    used = {d for task in tasks for d in task.dependencies}
    wanted = sorted({i for i in range(len(tasks)) if i not in used} | {i for i in used if rng.random() < 0.1})
    return Workload(name, tasks, wanted)


def _machine(rng: random.Random, n: int) -> Machine:
    limits = rng.choice([(0, 0), (0, 0), (0, 0), (1000, 0), (1000, 500)])
    return Machine(
        f"w{n}",
        rng.randint(1, 3),
        rng.choice([0, 0, 1]),
        rng.choice([None, "p", "q", "*"]),
        rng.choice([1.0, 1.0, 0.5]),
        *limits,
        resources={"licence": 2.0},
        executors={"io": 2},
        delay=rng.choice([None, None, None, 0.05]),
        window=rng.choice([0, 1, 2, 5]),
        ahead=rng.choice([0.0, 0.05]),
        arrives=rng.choice([0.0, 0.0, rng.random()]),
        retires=rng.choice([None, None, None, None, 2 * rng.random()]),
    )


def _network(rng: random.Random) -> NetworkSpec:
    return NetworkSpec(
        rng.choice(["instant", "simple", "maxmin", "maxmin"]),
        rng.choice([1e3, 1e5]),
        rng.choice([0.0, 0.001, 0.1]),
        fairness=rng.choice(["flow", "pair"]),
        downloads=rng.choice([None, 1, 8]),
        downloads_per_source=rng.choice([None, None, 1]),
        requests=rng.choice(["one", "one", "many"]),
        replica=rng.choice(["first", "nearest"]),
        between=rng.choice([{}, {("p", "q"): Wire(500.0, 0.01, 2.0), ("q", "p"): Wire(500.0)}]),
    )


def _fault(rng: random.Random, worker: str, horizon: float) -> Fault:
    at = rng.choice([1.0, 1.0, 3.0]) * horizon * rng.random()
    kind = rng.choice(_KINDS)
    amount = rng.choice([0.01, 0.5]) if kind != "delay" else rng.choice([0.01, 1.0])
    return Fault(at, kind, worker, rng.choice([0.1, 1.0, 8.0]) * rng.random(), amount)


