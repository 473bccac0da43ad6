"""Search small instances on which one policy is much worse than another.

After the idea of J. Coleman and B. Krishnamachari, "PISA: an adversarial approach to comparing task graph scheduling
algorithms" (2024): simulated annealing over graphs and machines, the ratio of two makespans being what is to grow.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import exp

from .engine import Simulation
from .model import Machine, Submission, Task, Workload
from .network.spec import NetworkSpec
from .scenario import Scenario

__all__ = ["Instance", "as_scenario", "makespan_of", "search"]

_MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Instance:
    """A small case: for each task what it reads, seconds and bytes; slots of each machine; bytes per second."""

    tasks: tuple[tuple[tuple[int, ...], float, int], ...]
    slots: tuple[int, ...]
    bandwidth: float

    def workload(self) -> Workload:
        """Its graph."""
        return Workload("adversary", [Task(("task", n), list(r), s, b) for n, (r, s, b) in enumerate(self.tasks)])


def as_scenario(instance: Instance, policy: str) -> Scenario:
    """An instance as a scenario in which all is known of durations and sizes."""
    machines = [Machine(f"w{n}", slots) for n, slots in enumerate(instance.slots)]
    network = NetworkSpec("maxmin", instance.bandwidth)
    return Scenario([Submission(instance.workload())], machines, network, policy, "exact")


def makespan_of(instance: Instance, policy: str) -> float:
    """How long a policy takes. Raises HetschedError where it comes to a standstill."""
    simulation = Simulation(as_scenario(instance, policy), detail=False)
    simulation.run()
    return simulation.trace.last_stop


def search(
    worse: str, better: str, steps: int = 500, seed: int = 0, told: Callable[[], None] = lambda: None
) -> tuple[Instance, float]:
    """Find an instance on which ``worse`` takes as many times as long as ``better`` as can be found; and how many.

    The same for the same seed. Starts anew from a small random instance at every quarter of the steps.
    """
    rng = random.Random(seed)
    best = now = _random_instance(rng)
    most = ratio = _ratio(now, worse, better)
    for step in range(steps):
        part = max(1, steps // 4)
        if step and step % part == 0:
            now = _random_instance(rng)
            ratio = _ratio(now, worse, better)
        heat = 0.1 * (1 - step % part / part) + 1e-3
        tried = _changed(now, rng)
        found = _ratio(tried, worse, better)
        if found >= ratio or rng.random() < exp((found - ratio) / heat):
            now, ratio = tried, found
        if ratio > most:
            best, most = now, ratio
        told()
    return best, most


def _ratio(instance: Instance, worse: str, better: str) -> float:
    least = makespan_of(instance, better)
    return makespan_of(instance, worse) / least if least else 1.0


def _random_instance(rng: random.Random) -> Instance:
    n = rng.randint(6, 12)
    tasks = []
    for i in range(n):
        reads = tuple(sorted(rng.sample(range(i), rng.randint(0, min(i, 2)))))
        tasks.append((reads, round(rng.uniform(0.1, 1.0), 3), rng.randint(0, 50) * _MB))
    return Instance(tuple(tasks), (1,) * rng.randint(2, 4), 100e6)


def _changed(instance: Instance, rng: random.Random) -> Instance:
    """Change one thing: a duration, a size, an edge, a task, a machine, the bandwidth."""
    tasks = list(instance.tasks)
    n = rng.randrange(len(tasks))
    reads, seconds, nbytes = tasks[n]
    what = rng.randrange(6)
    if what == 0:
        tasks[n] = reads, round(min(10.0, max(0.01, seconds * 10 ** rng.uniform(-0.5, 0.5))), 4), nbytes
    elif what == 1:
        tasks[n] = reads, seconds, min(1000, max(0, nbytes // _MB + rng.randint(-30, 30))) * _MB
    elif what == 2 and n:
        changed = set(reads) ^ {rng.randrange(n)}
        tasks[n] = tuple(sorted(changed)), seconds, nbytes
    elif what == 3 and len(tasks) < 20:
        some = rng.randint(0, min(2, len(tasks)))
        more = tuple(sorted(rng.sample(range(len(tasks)), some)))
        tasks.append((more, round(rng.uniform(0.1, 1.0), 3), 0))
    elif what == 4:
        slots = list(instance.slots)
        slots[rng.randrange(len(slots))] = rng.randint(1, 3)
        return replace(instance, slots=tuple(slots))
    elif what == 5:
        return replace(instance, bandwidth=round(min(1e9, max(1e7, instance.bandwidth * 2 ** rng.uniform(-1, 1)))))
    return replace(instance, tasks=tuple(tasks))
