"""What the tasks of `fidelity` do and make. Workers import this in their first task, so it is to be light.

A `Parcel` is a result that takes its time from one pool to another: it is loaded in a thread of the worker that gets
it, which waits there until the link has let so many bytes through. Those that cross a link the same way at the same
time, files in a folder, share it equally, as connections do.
"""

from __future__ import annotations

import functools
import json
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LINK = 10e6
"""Bytes per second from pool to pool."""
_STEP = 0.004  # seconds after which it is looked who else is there
FOLDER = "FIDELITY_FOLDER"
"""The variable with the folder where the links and the table of pools are."""


class Parcel:
    """Bytes that take their time between pools."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    def __sizeof__(self) -> int:
        return len(self.body)

    def __reduce__(self) -> tuple[Any, ...]:
        return arrive, (self.body, pools().get(str(os.getpid())))


def arrive(body: bytes, origin: str | None) -> Parcel:
    """Unpack a parcel where it has come to, once the link has let it through."""
    target = pools().get(str(os.getpid()))
    if origin and target and origin != target:
        link = Path(os.environ[FOLDER]) / f"{origin}-{target}"
        link.mkdir(exist_ok=True)
        left, before = float(len(body)), time.perf_counter()
        with tempfile.NamedTemporaryFile(dir=link):
            while left > 0:
                share = LINK / max(1, len(os.listdir(link)))
                time.sleep(min(_STEP, left / share))
                now = time.perf_counter()
                left, before = left - share * (now - before), now
    return Parcel(body)


@functools.cache
def pools() -> Mapping[str, str]:
    """The pools of the workers' processes."""
    try:
        found: dict[str, str] = json.loads((Path(os.environ[FOLDER]) / "pools.json").read_text())
    except (KeyError, OSError):
        return {}
    return found


def work(seconds: float, nbytes: int, *_: Any) -> Any:
    """Sleep, and make something of that size."""
    time.sleep(seconds)
    return Parcel(os.urandom(nbytes)) if nbytes else 0
