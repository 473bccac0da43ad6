"""The child's end of the line between a process and the one that started it.

The parent says ``L`` for "leave", and that it is gone by its end being closed. The child says in lines that it is
``ready``, with a word on where, and that it ends because that is what it wants: ``end`` and its exit code.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress

import trio

__all__ = ["Parent"]


class Parent:
    """Who started this process; ``fd`` is this end of the line."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._socket.setblocking(False)
        os.set_inheritable(fd, False)
        # The parent takes the line's end for this process's, and a copy in a fork of it would outlive it.
        os.register_at_fork(after_in_child=self._socket.close)

    def ready(self, where: str) -> None:
        """Say that this process does what it was started for."""
        self._say(f"ready {where}\n")

    def end(self, code: int) -> None:
        """Say that this process is about to end, and shall not be started anew."""
        self._say(f"end {code}\n")

    def _say(self, line: str) -> None:
        with suppress(OSError):  # the parent is gone, which listen() finds too
            self._socket.send(line.encode())

    async def listen(self, leave: Callable[[str], None], gone: Callable[[], None]) -> None:
        """Call ``leave`` when the parent wants it, and ``gone`` when it is gone, then return. Safe to cancel."""
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            try:
                said = self._socket.recv(16)
            except BlockingIOError:
                continue
            except OSError:
                said = b""
            if not said:
                gone()
                return
            leave("asked by the process that started it")
