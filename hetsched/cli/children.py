"""A process that is started, watched, and started anew when it dies without having wanted to."""

from __future__ import annotations

import os
import signal
import site
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import IO

from .forked import Forked, hand_over
from .settings import SchedulerSettings, WorkerSettings, encode

__all__ = ["FIRST_PAUSE", "LONG_LIFE", "MOST_FAILURES", "Child", "with_path"]

MOST_FAILURES = 5
"""A child that dies so many times in a row, each soon after its start, is given up."""

LONG_LIFE = 60.0
"""Seconds after which a death does not count as one soon after the start."""

FIRST_PAUSE = 0.2
"""Seconds before a child is started anew, doubled with each of its deaths in a row."""

_HOME = str(Path(__file__).resolve().parents[2])


class Child:
    """A scheduler or a worker in a process of its own, from when this is made until :meth:`kill` or its own end.

    ``environment`` is its own. What it writes to standard error goes to the file ``log``, if given. With ``restart`` it
    is started anew when it dies; ``say`` gets a sentence on each death, in a thread. ``started`` is its first process
    where that is there already, and the line to it. Raises OSError where there is no such interpreter.
    """

    def __init__(
        self,
        settings: SchedulerSettings | WorkerSettings,
        environment: Mapping[str, str],
        *,
        python: str | None = None,
        log: str | None = None,
        restart: bool = True,
        say: Callable[[str], None] | None = None,
        started: tuple[Forked, socket.socket] | None = None,
    ) -> None:
        self.settings = settings
        self.code: int | None = None
        """The exit code, once it has ended for good; negative for a signal."""
        self.ended = threading.Event()
        """Set when it has ended and will not be started anew."""
        self._environment = with_path(environment)
        if isinstance(settings, WorkerSettings) and settings.devices is not None:
            self._environment["CUDA_VISIBLE_DEVICES"] = settings.devices
        self._python = python or sys.executable
        self.log = log
        self._restart = restart
        self._say = say or (lambda _: None)
        self._where = ""
        self._signalled = threading.Event()
        """Set when there is news for :meth:`wait_ready`."""
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._process: Forked | subprocess.Popen[bytes]
        self._process, self._line = started or self._start()
        threading.Thread(target=self._keep, name="hetsched-child", daemon=True).start()

    @property
    def pid(self) -> int:
        """The process, the last one there was."""
        return self._process.pid

    def wait_ready(self, until: float) -> str:
        """Wait until it does its work, and return where; ``until`` on the monotonic clock.

        Raises RuntimeError, with the end of its log, where it died or is not ready by then.
        """
        while not self._where:
            left = until - monotonic()
            if self._stop.is_set() or self.ended.is_set() or not self._signalled.wait(max(left, 0)):
                what = "is not ready in time" if self.code is None else f"ended with exit status {self.code}"
                raise RuntimeError(f"{self._title()} {what}{self.tail()}")
            self._signalled.clear()
        return self._where

    def tail(self, lines: int = 20) -> str:
        """The end of what it wrote to its log."""
        if self.log is None:
            return ""
        with suppress(OSError):
            text = Path(self.log).read_text(encoding="utf-8", errors="replace")
            return "; it said:\n" + "\n".join(text.splitlines()[-lines:])
        return ""

    def leave(self) -> None:
        """Ask it to finish what it does and end; it is not started anew."""
        self._stop.set()
        with suppress(OSError):
            self._line.send(b"L")

    def hang_up(self) -> None:
        """Have it end at once, in order; it is not started anew."""
        self._stop.set()
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_WR)
        self.signal(signal.SIGCONT)  # it may be stopped, and could not hear

    def signal(self, number: int) -> None:
        """Send it a signal. After one that is to end it, it is not started anew."""
        if number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGABRT):
            self._stop.set()
        with self._lock:
            if self._process.poll() is None:
                self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once, and for good; returns when it has ended."""
        self.signal(signal.SIGKILL)
        self.ended.wait()

    def _title(self) -> str:
        return f"worker {self.settings.name}" if isinstance(self.settings, WorkerSettings) else "the scheduler"

    def _start(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        ours, theirs = socket.socketpair()
        log: IO[bytes] | None = None
        try:
            if self.log is not None:
                log = open(self.log, "ab")  # noqa: SIM115 - closed below, once the child has it
            fd = theirs.fileno()
            process = subprocess.Popen(
                # -P: where it is started is not where it may import from.
                [self._python, "-P", "-m", "hetsched.cli.start", str(fd)],
                stdin=subprocess.PIPE,
                stderr=log,
                env=self._environment,
                pass_fds=(fd,),
                process_group=0,  # Ctrl-C in a terminal is for us to hear: it gets what follows from that
            )
            hand_over(process, encode(self.settings))
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
            if log is not None:
                log.close()
        return process, ours

    def _keep(self) -> None:
        failures = 0
        while True:
            started = monotonic()
            wanted = self._listen()
            code = self._process.wait()
            self._line.close()
            self._clear_up()
            failures = 1 if monotonic() - started > LONG_LIFE else failures + 1
            if wanted is not None or self._stop.is_set() or not self._restart:
                return self._end(code if wanted is None else wanted)
            if failures >= MOST_FAILURES or not self._where:
                when = f"{failures} times in a row" if self._where else "at its start"
                self._say(f"{self._title()} died {when} (exit status {code}): it is given up")
                return self._end(code)
            pause = FIRST_PAUSE * 2 ** (failures - 1)
            self._say(f"{self._title()} died with exit status {code}: it is started anew in {pause:g} s")
            if self._stop.wait(pause):
                return self._end(0)  # asked to end, when there was nothing left to end
            with self._lock:
                try:
                    self._process, self._line = self._start()
                except OSError as error:
                    self._say(f"{self._title()} cannot be started: {error}")
                    return self._end(code)
            if self._stop.is_set():  # while it was started
                self.hang_up()

    def _clear_up(self) -> None:
        """Remove the files of a worker that was killed: the next one may need the room."""
        if isinstance(self.settings, WorkerSettings):
            from hetsched.worker.spill_folders import remove_left

            remove_left(self.settings.local_directory, self.pid)

    def _end(self, code: int) -> None:
        self.code = code
        self.ended.set()
        self._signalled.set()

    def _listen(self) -> int | None:
        """Hear the child until its end; return the exit code if it wants to end."""
        wanted = None
        rest = b""
        while True:
            try:
                said = self._line.recv(4096)
            except OSError:
                said = b""
            if not said:
                return wanted
            *lines, rest = (rest + said).split(b"\n")
            for line in lines:
                word, _, text = line.decode().partition(" ")
                if word == "ready":
                    self._where = text
                    self._signalled.set()
                elif word == "end":
                    wanted = int(text)


def with_path(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment with all that this program added to where it imports from, hetsched's own place included."""
    library = os.path.dirname(os.__file__)
    own = {*site.getsitepackages(), site.getusersitepackages(), os.path.dirname(sys.executable)}
    added = [os.path.abspath(entry) for entry in (*sys.path, _HOME)]
    kept = [e for e in added if e not in own and not e.startswith(library) and not e.endswith(".zip")]
    before = [entry for entry in environment.get("PYTHONPATH", "").split(os.pathsep) if entry]
    return {**environment, "PYTHONPATH": os.pathsep.join(dict.fromkeys([*kept, *before]))}
