"""``run``: run experiments."""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import click

from hetsched.errors import HetschedError
from hetsched.sims.experiment import Experiment, read_experiment
from hetsched.sims.scenario import Scenario
from hetsched.sims.summary import Summary, simulate

__all__ = ["run"]


@click.command()
@click.argument("experiments", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@click.option("--policy", "policies", multiple=True, help="Run this policy (may be given again), not the file's.")
@click.option("--seeds", type=int, help="Run so many seeds, not the file's number.")
@click.option("--out", type=click.Path(file_okay=False), help="Write a summary of each experiment into this folder.")
@click.option("--jobs", default=1, show_default=True, help="Processes that share the work.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def run(
    experiments: tuple[str, ...],
    policies: tuple[str, ...],
    seeds: int | None,
    out: str | None,
    jobs: int,
    as_json: bool,
) -> None:
    """Run each experiment with each of its policies and seeds."""
    results = {}
    for path in experiments:
        try:
            experiment = read_experiment(path)
            experiment = replace(experiment, policies=policies or experiment.policies, seeds=seeds or experiment.seeds)
            summaries = _run_all(experiment.scenarios(), jobs)
        except (HetschedError, OSError) as error:
            raise click.ClickException(str(error)) from error
        results[experiment.name] = [summary.as_dict() for summary in summaries]
        if not as_json:
            _show(experiment, summaries)
        if out is not None:
            folder = Path(out)
            folder.mkdir(parents=True, exist_ok=True)
            text = json.dumps(results[experiment.name], indent=1)
            (folder / f"{experiment.name}.json").write_text(text, encoding="utf-8")
    if as_json:
        click.echo(json.dumps(results))


def _run_all(scenarios: list[Scenario], jobs: int) -> list[Summary]:
    if jobs == 1:
        return [_summary(scenario) for scenario in scenarios]
    with ProcessPoolExecutor(jobs) as pool:
        return list(pool.map(_summary, scenarios))


def _summary(scenario: Scenario) -> Summary:
    return simulate(scenario, detail=False)[0]


def _show(experiment: Experiment, summaries: list[Summary]) -> None:
    click.echo(f"{experiment.name}: {experiment.question}")
    for summary in summaries:
        click.echo(
            f"  {summary.policy:20} seed {summary.seed:3}  makespan {summary.makespan:12.4f} s  "
            f"transferred {summary.transferred / 1e6:12.1f} MB"
        )
