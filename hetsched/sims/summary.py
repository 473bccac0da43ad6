"""Run a scenario, and say in numbers how it went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .engine import Simulation
from .network.topology import Topology
from .scenario import Scenario

__all__ = ["Summary", "simulate", "summarise"]


@dataclass(frozen=True, slots=True)
class Summary:
    """How a run went: seconds, bytes and money; what there is of the longest first where it is a dict."""

    policy: str
    seed: int
    tasks: int
    """How many tasks were submitted, and"""
    runs: int
    """how many runs of tasks there were, those that had to be repeated included."""
    makespan: float
    """From the first submission to the end of the last task, but for what still runs in vain when all is known."""
    ended: float
    """When the client knew of all results."""
    utilisation: dict[str, float]
    """The part of its slots' time that each executor was busy, from the first submission to the last end."""
    transfers: int
    transferred: int
    """Bytes."""
    by_link: dict[str, int]
    """Bytes that crossed each link that has a limit."""
    by_pool: dict[str, int]
    """Bytes that went from one pool to another, "a to b"."""
    cost: float
    """Money for bytes, and the same"""
    cost_by_link: dict[str, float]
    """for each link between pools that has a price, and"""
    cost_by_pool: dict[str, float]
    """from one pool to another, "a to b"."""
    peak_memory: dict[str, int]
    """The most bytes of results each worker held in memory, and"""
    peak_on_disk: dict[str, int]
    """on disk."""
    scheduler_events: int
    scheduler_busy: float
    scheduler_queueing: float
    """Seconds that events waited for the scheduler, together."""
    moments: int
    trace: str
    """The fingerprint of the run."""

    def as_dict(self) -> dict[str, Any]:
        """The summary as it is written to JSON."""
        return asdict(self)


def simulate(scenario: Scenario, **options: Any) -> tuple[Summary, Simulation]:
    """Run a scenario to its end; options as :class:`hetsched.sims.engine.Simulation` takes them.

    Raises HetschedError where it comes to a standstill.
    """
    simulation = Simulation(scenario, **options)
    simulation.run()
    return summarise(simulation), simulation


def summarise(simulation: Simulation) -> Summary:
    """Sum a run up."""
    scenario, trace, topology = simulation.scenario, simulation.trace, simulation.topology
    first = min((job.submission.at for job in simulation.jobs), default=0.0)
    makespan = max(0.0, trace.last_stop - first)
    policy = scenario.policy
    links = sorted(zip(topology.carried, topology.names, strict=True), key=lambda link: (-link[0], link[1]))
    workers = simulation.world.workers
    crossed, cost = simulation.network.between_pools()
    cost_by_link, cost_by_pool = _money(topology, crossed)
    return Summary(
        policy=policy if isinstance(policy, str) else policy.name,
        seed=scenario.seed,
        tasks=sum(len(job.workload.tasks) for job in simulation.jobs),
        runs=trace.ran,
        makespan=makespan,
        ended=max((job.ended for job in simulation.jobs if job.ended is not None), default=0.0),
        utilisation=_utilisation(simulation, makespan),
        transfers=trace.transfers,
        transferred=trace.transferred,
        by_link={name: nbytes for nbytes, name in links if nbytes},
        by_pool={f"{a} to {b}": nbytes for (a, b), nbytes in crossed.items()},
        cost=cost,
        cost_by_link=cost_by_link,
        cost_by_pool=cost_by_pool,
        peak_memory={name: worker.memory.peak for name, worker in workers.items()},
        peak_on_disk={name: worker.memory.peak_on_disk for name, worker in workers.items()},
        scheduler_events=simulation.server.handled,
        scheduler_busy=simulation.server.busy_seconds,
        scheduler_queueing=simulation.server.queued_seconds,
        moments=len(trace.moments),
        trace=trace.digest(),
    )


def _money(
    topology: Topology, crossed: Mapping[tuple[str, str], int]
) -> tuple[dict[str, float], dict[str, float]]:
    """What the bytes between pools cost: by link, and by the pools they went from and to."""
    by_link: dict[str, float] = {}
    by_pool: dict[str, float] = {}
    for (a, b), nbytes in crossed.items():
        for name, wire in topology.wires(a, b):
            if wire.price:
                paid = nbytes * wire.price / 1e9
                by_link[name] = by_link.get(name, 0.0) + paid
                by_pool[f"{a} to {b}"] = by_pool.get(f"{a} to {b}", 0.0) + paid
    return by_link, by_pool


def _utilisation(simulation: Simulation, makespan: float) -> dict[str, float]:
    busy: dict[str, float] = {}
    for worker in simulation.world.workers.values():
        for executor, seconds in worker.busy.items():
            busy[executor] = busy.get(executor, 0.0) + seconds
    slots: dict[str, int] = {}
    for machine in simulation.scenario.machines:
        for executor, count in machine.slots().items():
            slots[executor] = slots.get(executor, 0) + count
    return {name: busy[name] / (makespan * slots[name]) if makespan else 0.0 for name in sorted(busy)}
