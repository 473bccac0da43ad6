"""``compare``: policies against each other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from hetsched.errors import HetschedError
from hetsched.sims.experiment import read_experiment
from hetsched.sims.measures import MEASURES
from hetsched.sims.running import Order, run_all
from hetsched.sims.scenario import Scenario
from hetsched.sims.statistics import bootstrap, geometric_mean
from hetsched.sims.suite import suite

from .showing import progress, show_table

__all__ = ["compare"]

_TIE = 0.005
"""By what part makespans may differ and still be a tie."""


@click.command()
@click.argument("policies", nargs=-1, required=True)
@click.option(
    "--on", "experiments", multiple=True, type=click.Path(exists=True, dir_okay=False),
    help="Compare on the variants of this experiment (may be given again), not on the built-in suite.",
)  # fmt: skip
@click.option("--seeds", default=1, show_default=True, type=click.IntRange(1), help="Run each with so many seeds.")
@click.option("--measure", default="makespan", show_default=True, help="What to compare.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1), help="Processes that share the work.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def compare(
    policies: tuple[str, ...], experiments: tuple[str, ...], seeds: int, measure: str, jobs: int, as_json: bool
) -> None:
    """Compare POLICIES with the first of them.

    Printed are the makespans as ratios to those of the first policy, their geometric mean with the interval in which it
    lies with 95% confidence (by resampling the scenarios), and how often a policy won, tied within 0.5%, and lost.
    """
    if measure not in MEASURES:
        raise click.ClickException(f"there is no measure {measure!r}; there are {', '.join(MEASURES)}")
    if len(policies) == 1:
        policies = ("earliest_finish", *policies)
    try:
        scenarios = _scenarios(experiments)
        orders = [
            Order(name, policy, replace(scenario, policy=policy, seed=seed))
            for name, scenario in scenarios
            for policy in policies
            for seed in range(seeds)
        ]
        with progress("compare", len(orders)) as told:
            cells = run_all(orders, jobs, told)
    except (HetschedError, OSError) as error:
        raise click.ClickException(str(error)) from error
    found: dict[str, dict[str, list[float]]] = {}
    for cell in cells:
        found.setdefault(cell.experiment, {}).setdefault(cell.cell, []).append(cell.measures[measure])
    verdicts = {policy: _verdict(found, policy, policies[0]) for policy in policies}
    if as_json:
        click.echo(json.dumps({"measure": measure, "runs": found, "against": policies[0], "policies": verdicts}))
    else:
        _show(found, verdicts, policies, measure)


def _scenarios(experiments: Sequence[str]) -> list[tuple[str, Scenario]]:
    if not experiments:
        return suite()
    read = [read_experiment(path) for path in experiments]
    return [(f"{e.name} / {v}" if len(e.variants) > 1 else e.name, s) for e in read for v, s in e.variants.items()]


def _verdict(found: Mapping[str, Mapping[str, Sequence[float]]], policy: str, first: str) -> dict[str, Any]:
    ratios = [
        a / b if b else 1.0
        for row in found.values()
        for a, b in zip(row[policy], row[first], strict=True)
    ]  # fmt: skip
    low, high = bootstrap(ratios, geometric_mean)
    return {
        "mean": geometric_mean(ratios),
        "interval": [low, high],
        "worst": max(ratios),
        "wins": sum(r < 1 - _TIE for r in ratios),
        "ties": sum(abs(r - 1) <= _TIE for r in ratios),
        "losses": sum(r > 1 + _TIE for r in ratios),
    }


def _show(
    found: Mapping[str, Mapping[str, Sequence[float]]],
    verdicts: Mapping[str, Mapping[str, Any]],
    policies: Sequence[str],
    measure: str,
) -> None:
    first = policies[0]
    rows = []
    for name, row in found.items():
        base = sum(row[first]) / len(row[first])
        ratios = [f"{sum(row[p]) / len(row[p]) / base:.3f}" if base else "-" for p in policies[1:]]
        rows.append([name, f"{base:.4g}", *ratios])
    show_table(f"{measure} of {first}, and of the others to it", ["", first, *policies[1:]], rows)
    rows = [
        [p, f"{v['mean']:.3f}", f"{v['interval'][0]:.3f} .. {v['interval'][1]:.3f}", f"{v['worst']:.3f}",
         str(v["wins"]), str(v["ties"]), str(v["losses"])]
        for p, v in verdicts.items() if p != first
    ]  # fmt: skip
    show_table(f"to {first}", ["", "geometric mean", "95%", "worst", "wins", "ties", "losses"], rows)
