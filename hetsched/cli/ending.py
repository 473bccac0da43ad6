"""How processes end: the first signal asks for an end in order, the second gets one at once."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable

import trio

__all__ = ["OUT_OF_MEMORY", "SIGNALS", "say_to_stderr", "watch_signals"]

SIGNALS = (signal.SIGTERM, signal.SIGINT)
"""What asks a process to end."""

OUT_OF_MEMORY = 75
"""The exit code of a worker that has used up its memory and should be started anew."""

log = logging.getLogger("hetsched.cli")


async def watch_signals(
    first: Callable[[str], None], *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Call ``first`` with the name of the first signal to end, and end the process at the second. Safe to cancel."""
    with trio.open_signal_receiver(*SIGNALS) as received:
        task_status.started()
        asked = False
        async for number in received:
            name = signal.Signals(number).name
            if asked:
                log.warning("%s again: ending at once", name)
                os._exit(128 + number)
            asked = True
            first(name)


def say_to_stderr() -> None:
    """Have logs written to standard error, a line each."""
    logging.basicConfig(format="%(asctime)s %(name)s: %(message)s", level=logging.INFO)
