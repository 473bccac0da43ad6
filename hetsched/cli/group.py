"""``dask hetsched scheduler`` and ``dask hetsched worker``."""

from __future__ import annotations

import click

from .gpu import gpu
from .scheduler import scheduler
from .worker import worker

__all__ = ["hetsched"]


@click.group()
def hetsched() -> None:
    """Schedule graphs on machines that are not all alike."""


hetsched.add_command(scheduler)
hetsched.add_command(worker)
hetsched.add_command(gpu)
