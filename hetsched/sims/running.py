"""Run the cells of experiments, each with each seed, in several processes where that is wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hetsched.errors import HetschedError

from .engine import Simulation
from .experiment import Experiment
from .measures import lower_bound, measures
from .scenario import Scenario
from .summary import summarise
from .watching import watch_memory

__all__ = ["Cell", "Order", "orders_of", "run_all"]


@dataclass(frozen=True, slots=True)
class Order:
    """One run to be: which cell of which experiment it is of, its scenario, and where to draw it (None: nowhere)."""

    experiment: str
    cell: str
    scenario: Scenario
    out: Path | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """One run: its measures, the summary, and the pictures that were drawn of it."""

    experiment: str
    cell: str
    seed: int
    measures: dict[str, float]
    summary: dict[str, Any]
    pictures: tuple[str, ...] = ()


def orders_of(experiment: Experiment, out: Path | None = None) -> list[Order]:
    """One order for each cell and seed; the first seed of each cell is drawn where there is a folder."""
    return [
        Order(experiment.name, cell, replace(scenario, seed=seed), out if seed == 0 else None)
        for cell, scenario in experiment.cells()
        for seed in range(experiment.seeds)
    ]


def run_all(orders: Sequence[Order], jobs: int = 1, told: Callable[[], None] = lambda: None) -> list[Cell]:
    """Run all, in order; ``told`` is called after each. Raises HetschedError where one comes to a standstill."""
    found = []
    for cell in _each(orders, jobs):
        found.append(cell)
        told()
    return found


def _each(orders: Sequence[Order], jobs: int) -> Iterator[Cell]:
    if jobs <= 1 or len(orders) < 2:
        yield from map(run_one, orders)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(run_one, orders)


def run_one(order: Order) -> Cell:
    """Run one, and draw it where that is wanted. Raises HetschedError that names it where it comes to a standstill."""
    scenario = order.scenario
    small = sum(len(s.workload.tasks) for s in scenario.submissions) <= 20_000
    try:
        simulation = Simulation(scenario, detail=small)
        if order.out is not None:
            watch_memory(simulation)
        simulation.run()
    except HetschedError as error:
        raise HetschedError(f"{order.experiment}, {order.cell}: {error}") from error
    summary = summarise(simulation)
    pictures: tuple[str, ...] = ()
    if order.out is not None and small:
        from .drawing import draw

        pictures = draw(simulation, order.out, f"{order.experiment}.{_file_name(order.cell)}", order.cell)
    found = measures(summary, simulation, lower_bound(scenario))
    return Cell(order.experiment, order.cell, scenario.seed, found, summary.as_dict(), pictures)


def _file_name(cell: str) -> str:
    return "".join(c if c.isalnum() or c in "._-" else "-" for c in cell).strip("-")
