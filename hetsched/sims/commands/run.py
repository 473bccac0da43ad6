"""``run``: run experiments."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from hetsched.errors import HetschedError
from hetsched.sims.expectation import Outcome, judge
from hetsched.sims.experiment import Experiment, read_experiment
from hetsched.sims.report import Measured, Result, table_of, write_report
from hetsched.sims.running import Cell, orders_of, run_all

from .showing import progress, show_table

__all__ = ["run"]


@click.command()
@click.argument("experiments", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@click.option("--policy", "policies", multiple=True, help="Run this policy (may be given again), not the file's.")
@click.option("--seeds", type=click.IntRange(1), help="Run so many seeds, not the file's number.")
@click.option("--out", type=click.Path(file_okay=False), help="Write summaries, pictures, traces and a report there.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1), help="Processes that share the work.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def run(
    experiments: tuple[str, ...],
    policies: tuple[str, ...],
    seeds: int | None,
    out: str | None,
    jobs: int,
    as_json: bool,
) -> None:
    """Run each experiment with each of its variants, policies and seeds.

    The exit status is 1 where one does not show what it is expected to. With --policy, expectations that speak of
    policies which are not run are passed over.
    """
    folder = None if out is None else Path(out)
    results: list[Result] = []
    for path in experiments:
        try:
            experiment = _changed(read_experiment(path), policies, seeds)
            if any(experiment.name == other.name for other, _, _, _ in results):
                raise HetschedError(f"{path}: another experiment is called {experiment.name!r}, too; give it a name")
            orders = orders_of(experiment, folder)
            with progress(experiment.name, len(orders)) as told:
                cells = run_all(orders, jobs, told)
            measured = _measured(cells)
            outcomes = [judge(e, measured) for e in experiment.expectations if {e.of, e.to or e.of} <= set(measured)]
        except (HetschedError, OSError) as error:
            raise click.ClickException(str(error)) from error
        results.append((experiment, measured, outcomes, cells))
        if not as_json:
            _show(experiment, measured, outcomes)
        if folder is not None:
            try:
                _write(folder, experiment, measured, outcomes, cells)
            except (HetschedError, OSError) as error:
                raise click.ClickException(str(error)) from error
    if folder is not None:
        write_report(folder / "report.html", results)
        if not as_json:
            click.echo(f"wrote {folder / 'report.html'}")
    if as_json:
        click.echo(json.dumps({e.name: _as_dict(e, cells, outcomes) for e, _, outcomes, cells in results}))
    sys.exit(not all(outcome.holds for _, _, outcomes, _ in results for outcome in outcomes))


def _changed(experiment: Experiment, policies: Sequence[str], seeds: int | None) -> Experiment:
    expectations = experiment.expectations
    if policies and len(experiment.policies) == 1 and list(policies) != list(experiment.policies):
        # Its cells are called by their variants alone: what is said of them is said of the policy it has.
        expectations = ()
    policies = policies or experiment.policies
    return replace(experiment, policies=policies, seeds=seeds or experiment.seeds, expectations=expectations)


def _measured(cells: Sequence[Cell]) -> dict[str, list[dict[str, float]]]:
    """The measures of each cell, by seed."""
    found: dict[str, list[dict[str, float]]] = {}
    for cell in cells:
        found.setdefault(cell.cell, []).append(cell.measures)
    return found


def _show(experiment: Experiment, measured: Measured, outcomes: Sequence[Outcome]) -> None:
    columns, rows = table_of(experiment, measured)
    show_table(f"{experiment.name}: {experiment.question}", columns, rows)
    for outcome in outcomes:
        click.echo(outcome.sentence())
    click.echo()


def _as_dict(experiment: Experiment, cells: Sequence[Cell], outcomes: Sequence[Outcome]) -> dict[str, Any]:
    runs = [{"cell": c.cell, "seed": c.seed, "measures": c.measures, "summary": c.summary} for c in cells]
    expected = [
        {"claim": o.expectation.claim, "found": o.found, "holds": o.holds, "sentence": o.sentence()} for o in outcomes
    ]
    return {"question": experiment.question, "runs": runs, "expectations": expected}


def _write(
    folder: Path, experiment: Experiment, measured: Measured, outcomes: Sequence[Outcome], cells: Sequence[Cell]
) -> None:
    from hetsched.sims.drawing import draw_bars
    from hetsched.sims.statistics import bootstrap, mean

    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(_as_dict(experiment, cells, outcomes), indent=1)
    (folder / f"{experiment.name}.json").write_text(text, encoding="utf-8")
    first = experiment.shown[0]
    values = {name: [r[first] for r in runs] for name, runs in measured.items()}
    bars = {name: (mean(found), *bootstrap(found)) for name, found in values.items()}
    draw_bars(folder, experiment.name, experiment.question, first, bars)
