"""What a process runs that was started by another one of ours: ``python -m hetsched.cli.start FD``.

Its settings come by its standard input, so that a list of processes stays readable.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

import trio

from hetsched.errors import HetschedError, Rejected

from .ending import OUT_OF_MEMORY, SIGNALS, say_to_stderr
from .parent import Parent
from .security import Unprotected
from .settings import SchedulerSettings, WorkerSettings, decode

__all__ = ["become", "main", "run"]

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

        _collect_seldom()
    else:
        from .working import work as live
    try:
        return trio.run(live, settings, parent)
    except* (OSError, ValueError, HetschedError) as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        print(f"{_program(settings)}: {error}", file=sys.stderr)
        code = 2 if isinstance(error, Unprotected | Rejected) else 1
    return code


def _collect_seldom() -> None:
    """Look for rings of objects a hundred times less often than usual: a scheduler's are graphs, which live long.

    At the usual rate that is half of what a task of a large graph costs.
    """
    gc.freeze()
    gc.set_threshold(100_000, 5, 2)


def _program(settings: SchedulerSettings | WorkerSettings) -> str:
    return "hetsched-scheduler" if isinstance(settings, SchedulerSettings) else "hetsched-worker"


def become(fd: int, text: str) -> NoReturn:
    """Be what the settings say, told as text, with the parent at the other end of ``fd``; then end this process."""
    parent = Parent(fd)
    code = run(decode(text), parent)
    if code != OUT_OF_MEMORY:
        parent.end(code)
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    # At once: tasks that were left to themselves may be in code that an interpreter's end would wait for or break.
    os._exit(code)


def main() -> None:
    """Run with the arguments of the command line."""
    become(int(sys.argv[1]), sys.stdin.read())


if __name__ == "__main__":
    main()
