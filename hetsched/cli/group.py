"""``hetsched``, also as ``dask hetsched``: all commands under one name."""

from __future__ import annotations

import click

from .asking import explain, status
from .gpu import gpu
from .scheduler import scheduler
from .worker import worker

__all__ = ["hetsched"]


@click.group()
def hetsched() -> None:
    """Schedule graphs on machines that are not all alike."""


for _command in (scheduler, worker, status, explain, gpu):
    hetsched.add_command(_command)


if __name__ == "__main__":
    hetsched(prog_name="hetsched")
