"""Folders for results on disk: how those of a process are told from others', so that one that is killed leaves none."""

from __future__ import annotations

import shutil
import socket
import tempfile
from glob import escape
from pathlib import Path

__all__ = ["prefix_of", "remove_left", "spill_parent"]


def spill_parent(directory: str | Path | None) -> Path:
    """Where such folders are made: in ``directory``, or the system's for temporary files."""
    return Path(directory if directory is not None else tempfile.gettempdir()).absolute()


def prefix_of(pid: int) -> str:
    """How the names begin of the folders of a process of this machine: others may share the directory."""
    return f"hetsched-spill-{socket.gethostname().replace('/', '_')}-{pid}-"


def remove_left(directory: str | Path | None, pid: int) -> None:
    """Remove what a child of this process has left, which has ended: nobody else can have its number yet."""
    for folder in spill_parent(directory).glob(escape(prefix_of(pid)) + "*"):
        shutil.rmtree(folder, ignore_errors=True)
