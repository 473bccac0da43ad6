"""The file by which a scheduler tells its address to those who can read it."""

from __future__ import annotations

import json
import os
from pathlib import Path

from hetsched.errors import HetschedError

__all__ = ["read_scheduler_file"]


def read_scheduler_file(path: str | os.PathLike[str]) -> str:
    """The scheduler's address. Raises FileNotFoundError while the file is not there, HetschedError where it is none."""
    try:
        return str(json.loads(Path(path).read_text(encoding="utf-8"))["address"])
    except FileNotFoundError:
        raise FileNotFoundError(f"the scheduler file {os.fspath(path)} is not there") from None
    except (KeyError, TypeError, ValueError):
        raise HetschedError(f"{os.fspath(path)} is no scheduler file") from None
