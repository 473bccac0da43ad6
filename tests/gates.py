"""Gates: tasks in other processes say that they run, and wait until they may go on."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["Gate", "pass_gate"]


def pass_gate(path: str) -> None:
    """What a task does: say that it is here, and wait until the gate is opened."""
    with open(f"{path}.here", "w"):
        pass
    with open(path) as gate:
        gate.read()


class Gate:
    """Two pipes in a folder. For any number of tasks, one after the other or, with :meth:`open`, the last together."""

    def __init__(self, folder: Path, name: str = "gate") -> None:
        self.path = str(folder / name)
        os.mkfifo(self.path)
        os.mkfifo(f"{self.path}.here")

    def reached(self) -> None:
        """Wait until a task is there."""
        with open(f"{self.path}.here") as here:
            here.read()

    def open(self) -> None:
        """Let those who wait go on; waits until one does."""
        with open(self.path, "w"):
            pass
