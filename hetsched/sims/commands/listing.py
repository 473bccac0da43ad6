"""``list``: what there is to choose from."""

from __future__ import annotations

import json
from pathlib import Path

import click

from hetsched.core.placement import POLICIES
from hetsched.errors import HetschedError
from hetsched.sims.experiment import read_experiment
from hetsched.sims.measures import MEASURES
from hetsched.sims.workloads import SOURCES

from .showing import show_table

__all__ = ["list_all"]


@click.command("list")
@click.argument("folder", default="sims", type=click.Path(file_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def list_all(folder: str, as_json: bool) -> None:
    """List policies, workloads, measures, and the experiments in FOLDER (sims)."""
    experiments = {}
    for path in sorted(Path(folder).glob("*.toml")):
        try:
            experiments[str(path)] = read_experiment(path).question
        except (HetschedError, OSError) as error:
            experiments[str(path)] = f"cannot be read: {error}"
    found = {
        "policies": {name: _first_line(make.__doc__) for name, make in sorted(POLICIES.items())},
        "workloads": {name: _first_line(make.__doc__) for name, make in sorted(SOURCES.items())},
        "measures": dict(MEASURES),
        "experiments": experiments,
    }
    if as_json:
        click.echo(json.dumps(found))
        return
    for title, rows in found.items():
        if rows:
            show_table(title, ["", "what it is"], [[name, words] for name, words in rows.items()], words=2)


def _first_line(text: str | None) -> str:
    return " ".join((text or "").strip().partition("\n\n")[0].split())
