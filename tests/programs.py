"""Starts hetsched's programs for tests, and reads what they say."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from package_source import ROOT

__all__ = ["ENVIRONMENT", "SCHEDULER", "WORKER", "finish", "ready_address", "running", "until"]

ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith(("DASK_", "HETSCHED_"))},
    "PYTHONPATH": str(ROOT),
    "DASK_CONFIG": os.devnull,
    "PYTHONUNBUFFERED": "1",
}
SCHEDULER = (sys.executable, "-m", "hetsched.cli.scheduler")
WORKER = (sys.executable, "-m", "hetsched.cli.worker")


@contextmanager
def running(*command: str, stdin: int | None = None, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """A program whose output, errors included, can be read; it is killed in the end, if it is there still."""
    process = subprocess.Popen(
        command,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**ENVIRONMENT, **variables},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def until(process: subprocess.Popen[str], word: str) -> str:
    """Read lines up to the first that holds a word, and return that."""
    seen = []
    for line in process.stdout:
        seen.append(line)
        if word in line:
            return line
    raise AssertionError(f"{word!r} was never said:\n{''.join(seen)}")


def ready_address(scheduler: subprocess.Popen[str]) -> str:
    """Wait for a scheduler to listen, and return where."""
    return until(scheduler, "hetsched scheduler at ").split()[-1]


def finish(*command: str, **variables: str) -> tuple[int, str]:
    """Run a program to its end; return its exit code and what it said."""
    with running(*command, **variables) as process:
        said = process.stdout.read()
        return process.wait(), said
