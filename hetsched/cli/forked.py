"""The workers of a cluster on this machine, started together, as forks of one."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress

from .settings import WorkerSettings, encode

__all__ = ["Forked", "hand_over", "start_together"]


class Forked:
    """A process that is the child of another of ours; like a ``subprocess.Popen`` as far as that is needed."""

    def __init__(self) -> None:
        self._pid = 0
        self._known = threading.Event()
        self._code: int | None = None
        self._ended = threading.Event()

    @property
    def pid(self) -> int:
        """The process, once it is there; 0 if it never was."""
        self._known.wait()
        return self._pid

    def poll(self) -> int | None:
        """Its exit code, None while it runs."""
        return self._code

    def wait(self) -> int:
        """Wait for its end; return the exit code, negative for a signal."""
        self._ended.wait()
        assert self._code is not None
        return self._code

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it is there."""
        pid = self.pid
        if pid and self._code is None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def note_pid(self, pid: int) -> None:
        """It is there."""
        self._pid = pid
        self._known.set()

    def note_end(self, code: int) -> None:
        """It has ended; what is said after the first time is not heard."""
        if self._code is None:
            self._code = code
        self._ended.set()
        self._known.set()


def start_together(
    everyone: Sequence[tuple[WorkerSettings, str]], environment: Mapping[str, str]
) -> tuple[list[tuple[Forked, socket.socket]], threading.Thread]:
    """Start workers, each with the file for its log. Raises OSError.

    Returns for each this end of the line to it, and the thread that lives as long as any of them.
    """
    control, theirs = socket.socketpair()
    pairs = [socket.socketpair() for _ in everyone]
    try:
        forks = [
            (far.fileno(), encode(settings), log, settings.devices)
            for (settings, log), (_, far) in zip(everyone, pairs, strict=True)
        ]
        with open(everyone[0][1], "ab") as log:
            origin = subprocess.Popen(
                [sys.executable, "-P", "-m", "hetsched.cli.forking", str(theirs.fileno())],
                stdin=subprocess.PIPE,
                stderr=log,
                env=environment,
                pass_fds=(theirs.fileno(), *(fork[0] for fork in forks)),
                process_group=0,
            )
        hand_over(origin, json.dumps(forks))
    except BaseException:
        for near in (control, *(near for near, _ in pairs)):
            near.close()
        raise
    finally:
        for far in (theirs, *(far for _, far in pairs)):
            far.close()
    processes = [Forked() for _ in everyone]
    hearing = threading.Thread(target=_hear, args=(origin, control, processes), name="hetsched-forks", daemon=True)
    hearing.start()
    return [(process, near) for process, (near, _) in zip(processes, pairs, strict=True)], hearing


def hand_over(process: subprocess.Popen[bytes], text: str) -> None:
    """Write all of a process's standard input. One that is dead already does not mind."""
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as file:
        file.write(text.encode())


def _hear(origin: subprocess.Popen[bytes], control: socket.socket, processes: Sequence[Forked]) -> None:
    with control, control.makefile("r", encoding="utf-8") as lines:
        for line in lines:
            what, number, value = line.split()
            if what == "pid":
                processes[int(number)].note_pid(int(value))
            else:
                processes[int(number)].note_end(int(value))
    code = origin.wait()
    for process in processes:
        process.note_end(code)  # for those of which nothing was heard
