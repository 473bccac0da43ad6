"""The simulator's command line: one command a file."""

from __future__ import annotations

import click

from .adversary import adversary
from .calibrate import calibrate
from .compare import compare
from .faults import faults
from .listing import list_all
from .replay import replay
from .run import run
from .validate import validate

__all__ = ["sims"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def sims() -> None:
    """Simulate the scheduler: compare policies, replay runs, search for faults."""


for _command in (adversary, calibrate, compare, faults, list_all, replay, run, validate):
    sims.add_command(_command)
