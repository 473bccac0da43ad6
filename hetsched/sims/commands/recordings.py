"""Recordings that are named on the command line."""

from __future__ import annotations

import click

from hetsched.errors import HetschedError
from hetsched.sims.workloads.recorded import Recording, read_recording_of_run

__all__ = ["read_run"]


def read_run(path: str) -> Recording:
    """Read a recorded run. Raises ClickException that names the file and says what is wrong with it."""
    try:
        return read_recording_of_run(path)
    except (HetschedError, OSError) as error:
        raise click.ClickException(str(error)) from error
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise click.ClickException(f"{path} is damaged: {type(error).__name__}, {error}") from error
