"""What this process says of itself when it opens or accepts a connection."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from .compress import available
from .handshake import PROTOCOLS, Hello, Role

__all__ = ["MAX_FRAME", "MAX_HEADER", "introduce"]

MAX_FRAME = 1 << 36
"""Bytes of frames that one packet may bring: 64 GiB, since a result is sent whole."""

MAX_HEADER = 1 << 28
"""Bytes of a packet's header: 256 MiB, which is about a million tasks."""

_LIBRARIES = ("hetsched", "cloudpickle", "dask", "lz4", "msgpack", "numpy", "pandas", "trio")


@cache
def _versions() -> dict[str, str]:
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def introduce(
    role: Role,
    name: str,
    *,
    devices: tuple[str, ...] = (),
    pins: Mapping[str, str | int] | None = None,
    max_frame: int = MAX_FRAME,
) -> Hello:
    """Make this process's Hello. ``devices`` are the kinds of device objects it can take."""
    byteorder = sys.byteorder
    return Hello(
        role, name, PROTOCOLS, sys.version_info[:3], pickle.HIGHEST_PROTOCOL, available(), byteorder, devices,
        _versions(), max_frame, MAX_HEADER, b"", dict(pins or {}),
    )  # fmt: skip
