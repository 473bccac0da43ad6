"""Run a case, and see that everything holds that must."""

from __future__ import annotations

from typing import Any

from hetsched.errors import WorkerLostError
from hetsched.sims.client import Job
from hetsched.sims.engine import Simulation
from hetsched.sims.hands import Hands
from hetsched.sims.server import Mind

from .case import Case

__all__ = ["MOST_ROUNDS", "run_case", "what_is_wrong"]

MOST_ROUNDS = 200_000
"""A run that has not ended after so many rounds never will."""


def run_case(case: Case, mind: Mind | None = None) -> Simulation:
    """Run a case to its end, and check what came of it.

    Raises AssertionError where an invariant is broken, and HetschedError where it does not end.
    """

    def fails(task: int, attempt: int) -> Any:
        key = simulation.world.tasks[task].key
        if key in case.broken:
            return f"error of {key}"
        return f"first error of {key}" if key in case.flaky and attempt == 0 else None

    simulation = Simulation(case.scenario, mind=mind, is_checked=True, has_values=True, fails=fails)
    simulation.run(MOST_ROUNDS)
    for job in simulation.jobs:
        if job.was_cancelled:
            continue
        _check_results(case, simulation, job)
    _check_nothing_is_left(simulation)
    return simulation


def what_is_wrong(case: Case, mind: Mind | None = None) -> str | None:
    """Run a case; returns the error in one line, None where all is well."""
    try:
        run_case(case, mind)
    except Exception as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = f"{trace.tb_frame.f_code.co_name}, line {trace.tb_lineno}" if trace is not None else "?"
        return f"{type(error).__name__} in {where}: {error}"
    return None


def _check_results(case: Case, simulation: Simulation, job: Job) -> None:
    """Each result that was wanted is there and right, or an error that is due is in its place."""
    tasks = job.workload.tasks
    values: list[int | None] = []
    for position, task in enumerate(tasks):
        inputs = [values[d] for d in task.dependencies]
        right = task.key not in case.broken and None not in inputs
        values.append(simulation.world.value_of(job.base + position, inputs) if right else None)  # type: ignore[arg-type]
    wanted = job.workload.goals()
    assert job.results.keys() | job.failures.keys() == set(wanted), f"of {wanted} came {sorted(job.results)}"
    for position, value in job.results.items():
        assert value == values[position], f"the result of {tasks[position].key!r} is wrong"
    for position, failure in job.failures.items():
        if position not in job.results and not isinstance(failure.error, WorkerLostError):
            key = tasks[failure.root].key
            assert failure.error == f"error of {key}", f"{tasks[position].key!r} failed: {failure.error}"
            assert values[position] is None, f"{tasks[position].key!r} failed, and it reads nothing that does"


def _check_nothing_is_left(simulation: Simulation) -> None:
    """All graphs were released: nobody holds or knows anything any more."""
    state = simulation.mind.state
    assert not state.tasks, f"the scheduler still knows {state.tasks}"
    assert not state.graphs
    for ws in state.workers.values():
        left = (ws.nbytes, ws.held, ws.occupancy, any(ws.assigned.values()))
        assert left == (0, 0, 0.0, False), f"{ws!r} is said to hold and do {left}"
    assert simulation.network.is_idle(), "something is said to be on its way"
    topology, moved = simulation.topology, simulation.trace.transferred
    up = sum(n for n, link in zip(topology.carried, topology.names, strict=True) if link.endswith(" up"))
    assert up == moved, f"{moved} bytes were moved, and {up} left workers"  # every worker has a link here
    for name, worker in simulation.world.workers.items():
        if name in simulation.server.links and worker.alive and not worker.frozen and not worker.unreachable:
            assert isinstance(worker, Hands)
            assert not worker.store, f"{name} still holds {worker.store}"
            assert not worker.mind.jobs, f"{name} still knows {worker.mind.jobs}"
            assert not worker.mind.slots.batches
            assert not worker.slots.batches
            assert not worker.slots.stopped, f"{name} still remembers to stop {worker.slots.stopped}"
            assert worker.mind.slots.available == worker.mind.slots.total
            assert worker.memory.used == worker.memory.used_on_disk == 0
