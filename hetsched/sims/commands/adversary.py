"""``adversary``: where one policy is worst against another."""

from __future__ import annotations

import json

import click

from hetsched.errors import HetschedError
from hetsched.sims.adversary import makespan_of, search

from .showing import progress

__all__ = ["adversary"]


@click.command()
@click.argument("worse")
@click.argument("better")
@click.option("--steps", default=500, show_default=True, type=click.IntRange(0), help="How many instances to try.")
@click.option("--seed", default=0, show_default=True, help="What chance goes by.")
@click.option("--write", type=click.Path(dir_okay=False), help="Write the graph found into this file, as JSON.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def adversary(worse: str, better: str, steps: int, seed: int, write: str | None, as_json: bool) -> None:
    """Search a small instance on which policy WORSE takes as many times as long as BETTER as can be found.

    All is known of durations and sizes. What is found says what a policy cannot do, not how often that matters.
    """
    try:
        with progress("adversary", steps) as told:
            found, ratio = search(worse, better, steps, seed, told)
        times = {policy: makespan_of(found, policy) for policy in (worse, better)}
    except HetschedError as error:
        raise click.ClickException(str(error)) from error
    if write is not None:
        from hetsched.sims.workloads import write_native

        write_native(found.workload(), write)
    if as_json:
        instance = {"tasks": found.tasks, "slots": found.slots, "bandwidth": found.bandwidth}
        click.echo(json.dumps({"ratio": ratio, "makespans": times, "instance": instance}))
        return
    click.echo(f"{worse} {times[worse]:.4f} s, {better} {times[better]:.4f} s: {ratio:.3f} times as long")
    slots = ", ".join(map(str, found.slots))
    click.echo(f"on workers of {slots} slots, {found.bandwidth / 1e6:g} MB/s, with these tasks:")
    for n, (reads, seconds, nbytes) in enumerate(found.tasks):
        inputs = f", reads {', '.join(map(str, reads))}" if reads else ""
        click.echo(f"  {n}: {seconds:g} s, {nbytes / 1e6:g} MB{inputs}")
