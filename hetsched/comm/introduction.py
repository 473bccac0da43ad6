"""What this process says of itself when it opens or accepts a connection."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache

from .compress import available
from .handshake import PROTOCOLS, Hello, Role

__all__ = ["HIGHEST_PICKLE", "MAX_FRAME", "MAX_HEADER", "introduce"]

MAX_FRAME = 1 << 36
"""Bytes of frames that one packet may bring: 64 GiB, since a result is sent whole."""

MAX_HEADER = 1 << 28
"""Bytes of a packet's header: 256 MiB, which is about a million tasks."""

HIGHEST_PICKLE = 5
"""What ``pickle.HIGHEST_PROTOCOL`` is from Python 3.8 on; a scheduler says it too, and never loads pickle."""

_LIBRARIES = frozenset({"hetsched", "cloudpickle", "dask", "lz4", "msgpack", "numpy", "pandas", "trio"})


@cache
def _versions() -> dict[str, str]:
    """The versions of what is installed, by the names of folders: importlib.metadata takes ten times as long."""
    found: dict[str, str] = {}
    for entry in sys.path:
        with suppress(OSError):
            for folder in os.listdir(entry or "."):
                name, _, version = folder.removesuffix(".dist-info").partition("-")
                if name in _LIBRARIES and folder.endswith(".dist-info"):
                    found.setdefault(name, version)
    return found


def introduce(
    role: Role,
    name: str,
    *,
    devices: Mapping[str, int] | None = None,
    pins: Mapping[str, str | int] | None = None,
    max_frame: int = MAX_FRAME,
) -> Hello:
    """Make this process's Hello. ``devices`` are the kinds of device objects it takes, and how many it has of each."""
    counts = dict(devices or {})
    byteorder = sys.byteorder
    return Hello(
        role, name, PROTOCOLS, sys.version_info[:3], HIGHEST_PICKLE, available(), byteorder, tuple(counts),
        _versions(), max_frame, MAX_HEADER, b"", dict(pins or {}), counts,
    )  # fmt: skip
