"""``calibrate``: what an experiment should be told of a cluster, and of the scheduler on this machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click

from hetsched.errors import HetschedError
from hetsched.sims.calibration import calibrate as calibration_of
from hetsched.sims.calibration import scenario_of
from hetsched.sims.measuring import measure_scheduler, usual_load
from hetsched.sims.workloads.recorded import Recording

from .recordings import read_run
from .showing import show_table

__all__ = ["calibrate"]


@click.command()
@click.argument("recording", metavar="[RUN]", required=False, type=click.Path(exists=True, dir_okay=False))
@click.option("--scheduler", is_flag=True, help="Measure what thinking takes the scheduler on this machine, too.")
@click.option("--policy", default="earliest_finish", show_default=True, help="The policy to measure it with.")
@click.option("--write", type=click.Path(dir_okay=False), help="Write the first workload into this file, as JSON.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def calibrate(recording: str | None, scheduler: bool, policy: str, write: str | None, as_json: bool) -> None:
    """Say what a recorded run tells of its cluster: overheads, delays, links, and what kinds of tasks take.

    With --scheduler the scheduler that ships is measured on this machine, on the graphs of the recording, or without
    one on a tree of 4,287 tasks on 32 workers. That takes some seconds, and is not the same each time: what is printed
    is written into an experiment.
    """
    if recording is None and (write is not None or not scheduler):
        raise click.UsageError("name a recording (hetsched-scheduler --record RUN), or ask for --scheduler alone")
    run = None if recording is None else read_run(recording)
    found: dict[str, Any] = {} if run is None else calibration_of(run)
    if write is not None and run is not None:
        from hetsched.sims.workloads import write_native

        write_native(run.submissions[0].workload, write)
    if scheduler:
        found["scheduler"] = _measured(run, policy)
    if as_json:
        click.echo(json.dumps(found))
        return
    if recording is not None:
        rows = [[n, str(k["tasks"]), f"{k['seconds']:.6f}", f"{k['nbytes']:.0f}"] for n, k in found["kinds"].items()]
        show_table(recording, ["kind", "tasks", "mean seconds", "mean bytes"], rows)
    _show(found)


def _measured(run: Recording | None, policy: str) -> dict[str, float]:
    scenario = replace(usual_load() if run is None else scenario_of(run), policy=policy)
    try:
        found = measure_scheduler(scenario)
    except HetschedError as error:
        raise click.ClickException(str(error)) from error
    return {
        "events": found.events,
        "transitions": found.transitions,
        "seconds": found.seconds,
        "event": found.cost.event,
        "transition": found.cost.transition,
    }


def _show(found: Mapping[str, Any]) -> None:
    """Print it as an experiment says it."""
    click.echo("# For an experiment:")
    for word in ("overhead", "delay"):
        if word in found:
            click.echo(f"{word} = {found[word]:.7f}")
    if "scheduler" in found:
        said = found["scheduler"]
        click.echo(f"[server]  # {said['events']} events, {said['transitions']} transitions: {said['seconds']:.4f} s")
        click.echo(f"event = {said['event']:.3g}\ntransition = {said['transition']:.3g}")
    if "bandwidth" in found:
        click.echo(f"[network]\nbandwidth = {found['bandwidth']:.0f}")
    for link, speed in found.get("links", {}).items():
        source, _, target = link.partition(" to ")
        pools = f"from = {json.dumps(source)}\nto = {json.dumps(target)}"
        click.echo(f"[[network.between]]\n{pools}\nbandwidth = {speed:.0f}")
