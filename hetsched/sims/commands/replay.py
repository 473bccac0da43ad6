"""``replay``: a recorded run (``hetsched-scheduler --record``) as the simulator would have it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from hetsched.errors import HetschedError
from hetsched.sims.calibration import BANDWIDTH, scenario_of
from hetsched.sims.calibration import calibrate as calibration_of
from hetsched.sims.network.spec import NetworkSpec
from hetsched.sims.running import Order, run_one

from .recordings import read_run
from .showing import show_table

__all__ = ["replay"]


@click.command()
@click.argument("recording", metavar="RUN", type=click.Path(exists=True, dir_okay=False))
@click.option("--policy", "policies", multiple=True, help="Replay with this policy, too (may be given again).")
@click.option("--bandwidth", type=float, help="MB per second between two workers; default: as measured, else 500.")
@click.option("--network", default="maxmin", show_default=True, type=click.Choice(["instant", "simple", "maxmin"]))
@click.option("--out", type=click.Path(file_okay=False), help="Write pictures and traces into this folder.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def replay(
    recording: str, policies: tuple[str, ...], bandwidth: float | None, network: str, out: str | None, as_json: bool
) -> None:
    """Simulate a recorded run, its tasks as long and as large as they were, and compare with what it took."""
    run = read_run(recording)
    speed = calibration_of(run).get("bandwidth", BANDWIDTH) if bandwidth is None else bandwidth * 1e6
    scenario = scenario_of(run, NetworkSpec(network, speed))  # type: ignore[arg-type]
    folder = None if out is None else Path(out)
    found = []
    for policy in dict.fromkeys(["earliest_finish", *policies]):
        try:
            cell = run_one(Order(Path(recording).stem, policy, replace(scenario, policy=policy), folder))
        except HetschedError as error:
            raise click.ClickException(str(error)) from error
        found.append((policy, cell.measures))
    if as_json:
        said: dict[str, Any] = {"recorded": run.makespan, "ran": run.ran, "unmeasured": run.unmeasured}
        said |= {"lost": run.lost, "runs": dict(found)}
        click.echo(json.dumps(said))
        return
    rows = [["recorded", f"{run.makespan:.4f}", "", ""]]
    for policy, measures in found:
        ended = measures["makespan"]
        off = f"{ended / run.makespan - 1:+.1%}" if run.makespan else "-"
        rows.append([policy, f"{ended:.4f}", off, f"{measures['transferred'] * 1e3:.1f}"])
    show_table(f"{recording}: {run.ran} tasks", ["", "makespan", "to the recorded", "MB moved"], rows)
    for count, words in (
        (run.unmeasured, "tasks never ended; they are taken for as long as others of their kind"),
        (len(run.lost), "workers were lost; the simulation loses none"),
        (run.external, "inputs were results of other graphs; they are taken to be there"),
    ):
        if count:
            click.echo(f"{count} {words}")
