"""What a process runs that was started by another one of ours: ``python -m hetsched.cli.start FD SETTINGS``."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from hetsched.errors import HetschedError

from .ending import OUT_OF_MEMORY, SIGNALS, say_to_stderr
from .parent import Parent
from .settings import SchedulerSettings, WorkerSettings, decode

__all__ = ["main", "run"]

log = logging.getLogger("hetsched.cli")


def run(settings: SchedulerSettings | WorkerSettings, parent: Parent | None = None) -> int:
    """Be what the settings say, until the end; return the exit code.

    What keeps it from starting, or going on, is said to standard error in one sentence.
    """
    for number in SIGNALS:  # until the loop runs nothing needs an end in order
        signal.signal(number, signal.SIG_DFL)
    say_to_stderr()
    live: Callable[[Any, Parent | None], Awaitable[int]]
    # A scheduler must not load what only workers need.
    if isinstance(settings, SchedulerSettings):
        from .serving import serve as live
    else:
        from .working import work as live
    try:
        return trio.run(live, settings, parent)
    except* (OSError, ValueError, HetschedError) as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        print(f"{_program(settings)}: {error}", file=sys.stderr)
    return 1


def _program(settings: SchedulerSettings | WorkerSettings) -> str:
    return "hetsched-scheduler" if isinstance(settings, SchedulerSettings) else "hetsched-worker"


def main() -> None:
    """Run with the arguments of the command line."""
    fd, text = sys.argv[1:]
    parent = Parent(int(fd))
    settings = decode(text)
    code = run(settings, parent)
    if code != OUT_OF_MEMORY:
        parent.end(code)
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    # At once: tasks that were left to themselves may be in code that an interpreter's end would wait for or break.
    os._exit(code)


if __name__ == "__main__":
    main()
