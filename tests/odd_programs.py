"""Schedulers and workers as processes of their own, some of which lack something, and what they log."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from package_source import ROOT
from programs import ready_address, running, until

__all__ = ["AS_REMOTE", "Site", "without"]

TESTS = str(ROOT / "tests")

AS_REMOTE = "import hetsched.comm.transports.sockets as s; s._is_loopback = lambda _: False"
"""Has a process take its peers for other machines, between which compressing is worth it."""


def without(*names: str) -> str:
    """Statements after which these modules cannot be imported, and who tries to is said to standard error."""
    return f"""
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            print("refused the import of", name, file=sys.stderr)
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Without())
"""


class Site:
    """A scheduler and workers, by their commands. All are killed at the end, if they have not ended."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self.address = ""
        self.python = sys.executable
        """What processes that are started from now on run on."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(
        self,
        name: str,
        program: str,
        options: Sequence[str],
        before: str,
        path: Sequence[Path],
        variables: dict[str, str],
    ) -> None:
        code = f"{before}\nfrom hetsched.cli.{program} import main\nmain()"
        variables = {"PYTHONPATH": ":".join([str(ROOT), TESTS, *map(str, path)]), **variables}
        command = (self.python, "-P", "-c", code, *options)
        self.processes[name] = self._stack.enter_context(running(*command, **variables))

    def scheduler(self, *options: str, before: str = "", **variables: str) -> str:
        """Start it, once; returns its address."""
        self._start("scheduler", "scheduler", ("--port", "0", *options), before, (), variables)
        self.address = ready_address(self.processes["scheduler"])
        return self.address

    def worker(self, name: str, *options: str, before: str = "", path: Sequence[Path] = (), **variables: str) -> None:
        """Start one of two threads, with further folders to import from."""
        self.start_worker(name, *options, before=before, path=path, **variables)
        until(self.processes[name], "serves the scheduler")

    def start_worker(
        self, name: str, *options: str, before: str = "", path: Sequence[Path] = (), **variables: str
    ) -> None:
        """Start one, and do not wait until it works."""
        given = (self.address, "--name", name, "--no-nanny", "--nthreads", "2", "--gpus", "none", *options)
        self._start(name, "worker", given, before, path, variables)

    def until(self, name: str, word: str) -> str:
        """Read a process's log up to the first line, not read yet, that holds a word; returns that."""
        return until(self.processes[name], word)

    def end(self) -> dict[str, str]:
        """End all in order, workers first; returns what each has said since it was last read."""
        said = {}
        for name, process in reversed(self.processes.items()):
            process.terminate()
            said[name] = process.stdout.read()
            assert process.wait() == 0, said[name]
        return said

    def complaints(self) -> list[str]:
        """End all in order; returns the lines of their logs that tell of trouble."""
        trouble = re.compile(r"error|exception|traceback|refused|turned away|cannot|warn", re.IGNORECASE)
        lines = [f"{name}: {line}" for name, log in self.end().items() for line in log.splitlines()]
        return [line for line in lines if trouble.search(line)]
