"""What the one process runs that the workers of a cluster on this machine are forks of.

They load the same code, which takes most of the time that a start takes; so it is loaded once.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401 - each of them would load it, to say where it listens
import gc
import json
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from . import working  # noqa: F401 - what they all need, and start.py would load in each
from .start import become

__all__ = ["Fork", "main"]


class Fork(NamedTuple):
    """One process to be: its end of the line to the parent, its settings as text, its log, its devices if not ours."""

    fd: int
    settings: str
    log: str
    devices: str | None


def main() -> None:
    """Fork, and report pids and exit codes until all have ended, to the descriptor that the command line tells."""
    control = int(sys.argv[1])
    forks = [Fork(*fork) for fork in json.load(sys.stdin)]
    numbers: dict[int, int] = {}
    for number, fork in enumerate(forks):
        gc.freeze()
        pid = os.fork()
        if not pid:
            _become(fork, [control, *(other.fd for other in forks[number + 1 :])])
        os.close(fork.fd)
        numbers[pid] = number
        _tell(control, f"pid {number} {pid}\n")
    while numbers:
        pid, status = os.wait()
        _tell(control, f"exit {numbers.pop(pid)} {os.waitstatus_to_exitcode(status)}\n")


def _tell(control: int, line: str) -> None:
    try:
        os.write(control, line.encode())
    except OSError:  # nobody is left who wants to know
        return


def _become(fork: Fork, others: Sequence[int]) -> NoReturn:
    try:
        for fd in others:  # as long as there is a copy of its end, a child does not seem to be gone
            os.close(fd)
        log = os.open(fork.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 2)
        os.close(log)
        if fork.devices is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = fork.devices
        become(fork.fd, fork.settings)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    os._exit(1)


if __name__ == "__main__":
    main()
