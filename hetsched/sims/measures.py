"""What can be asked of a run, by name: plain numbers, for tables and expectations."""

from __future__ import annotations

from collections.abc import Mapping

from .bounds import bounds, link_bound
from .crossing import crossing_bound
from .engine import Simulation
from .scenario import Scenario
from .summary import Summary

__all__ = ["MEASURES", "lower_bound", "measures"]

MEASURES: Mapping[str, str] = {
    "makespan": "seconds from the first submission to the end of the last task, but for what still runs in vain then",
    "ended": "seconds until the client knew of all results",
    "ratio": "the makespan to what no schedule can beat: critical path or area, for each workload alone",
    "network_bound": "seconds that shared links need for what pinned tasks make cross them (0 beyond 5,000 tasks)",
    "cpu": "part of the time that slots for cores were busy",
    "gpu": "part of the time that slots for devices were busy",
    "transfers": "how many transfers there were",
    "transferred": "GB that went from worker to worker",
    "between_pools": "GB that went from pool to pool",
    "cost": "money for bytes",
    "peak_memory": "GB of results that the fullest worker held in memory at most",
    "peak_together": "GB of results, the most that each worker held, summed up",
    "peak_on_disk": "GB that the worker with most on disk had there at most",
    "busiest_link": "GB over the busiest link",
    "repeated": "runs of tasks that had been run before, or were for nothing",
    "misplaced": "tasks that ran on a class of hardware that is not their fastest",
    "scheduler_busy": "seconds that the scheduler was busy",
    "scheduler_queueing": "seconds that a message waited for the scheduler on average",
    "scheduler_events": "messages that the scheduler handled",
}
"""The measures, and what they mean."""

_GB = 1e9
_LARGE = 5000


def lower_bound(scenario: Scenario) -> float:
    """Seconds that no schedule can beat: the largest bound of any of the workloads alone."""
    machines = scenario.machines
    return max((bounds(s.workload, machines, exact=False).best for s in scenario.submissions), default=0.0)


def measures(summary: Summary, simulation: Simulation, bound: float) -> dict[str, float]:
    """The measures of a run."""
    carried = summary.by_link
    return {
        "makespan": summary.makespan,
        "ended": summary.ended,
        "ratio": summary.makespan / bound if bound else 1.0,
        "network_bound": _network_bound(simulation),
        "cpu": summary.utilisation.get("cpu", 0.0),
        "gpu": summary.utilisation.get("gpu", 0.0),
        "transfers": float(summary.transfers),
        "transferred": summary.transferred / _GB,
        "between_pools": sum(summary.by_pool.values()) / _GB,
        "cost": summary.cost,
        "peak_memory": max(summary.peak_memory.values(), default=0) / _GB,
        "peak_together": sum(summary.peak_memory.values()) / _GB,
        "peak_on_disk": max(summary.peak_on_disk.values(), default=0) / _GB,
        "busiest_link": link_bound(carried, dict.fromkeys(carried, _GB)),
        "repeated": float(summary.runs - summary.tasks),
        "misplaced": float(_misplaced(simulation)),
        "scheduler_busy": summary.scheduler_busy,
        "scheduler_queueing": summary.scheduler_queueing / max(1, summary.scheduler_events),
        "scheduler_events": float(summary.scheduler_events),
    }


def _network_bound(simulation: Simulation) -> float:
    """The largest of any of the workloads alone that are not too large for a linear programme now and then."""
    scenario = simulation.scenario
    small = [s.workload for s in scenario.submissions if len(s.workload.tasks) <= _LARGE]
    return max((crossing_bound(w, scenario.machines, scenario.network) for w in small), default=0.0)


def _misplaced(simulation: Simulation) -> int:
    """How many runs of tasks were on a slower class than some machine has; 0 where the trace has no detail."""
    workers = simulation.world.workers
    classes = {m.class_of(executor) for m in simulation.scenario.machines for executor in m.slots()}
    tasks = simulation.world.tasks
    count = 0
    if len(classes) < 2 or all(isinstance(t.seconds, int | float) for t in tasks):
        return 0
    for run in simulation.trace.task_runs():
        seconds = tasks[run.task].seconds
        if isinstance(seconds, int | float):
            continue
        machine = workers[run.worker].machine
        best = min((v for kind, v in seconds.items() if kind in classes), default=0.0)
        count += tasks[run.task].seconds_on(machine.class_of(run.executor)) > best
    return count
