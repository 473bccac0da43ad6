"""What a Client needs to reach a scheduler: address, token, certificates, what it says of itself."""

from __future__ import annotations

import os
import ssl
import sys
from typing import Any, NamedTuple

import trio

from hetsched import config
from hetsched.comm.auth import client_tls, read_token_file
from hetsched.comm.handshake import Hello
from hetsched.comm.introduction import introduce
from hetsched.comm.scheduler_file import read_scheduler_file
from hetsched.comm.transports import parse_address

from .active import ADDRESS, configured_address
from .session import Session, open_session

__all__ = ["Way", "find_way", "reach"]

_FILE_PAUSE = 0.05  # seconds: to look for a file again costs little


class Way(NamedTuple):
    """How to get to a scheduler."""

    address: str
    hello: Hello
    token: bytes | None
    tls: ssl.SSLContext | None
    silence: float | None
    """A scheduler that was not heard for so long (seconds) is taken for lost; None: never."""


async def reach(
    where: Any, scheduler_file: Any, token_file: Any, tls: ssl.SSLContext | None, name: str, timeout: float  # noqa: ASYNC109
) -> Session:
    """Find the way to a scheduler and connect; it, and its file, are waited for, ``timeout`` seconds in all.

    Raises as :func:`find_way` and :func:`open_session` do. Cancelled, it leaves nothing behind.
    """
    until = trio.current_time() + timeout
    while scheduler_file is not None:
        try:
            where, scheduler_file = _in_file(where, scheduler_file), None
        except FileNotFoundError:
            if trio.current_time() + _FILE_PAUSE > until:
                raise
            await trio.sleep(_FILE_PAUSE)
    way = find_way(where, token_file, tls, name)
    left = max(0.1, until - trio.current_time())
    return await open_session(way.address, way.hello, way.token, way.tls, left, way.silence)


def _in_file(where: Any, scheduler_file: Any) -> str:
    if where is not None:
        raise ValueError(f"give an address or cluster, {where!r:.200}, or scheduler_file, not both")
    return read_scheduler_file(os.path.expanduser(scheduler_file))


def find_way(where: Any, token_file: Any = None, tls: ssl.SSLContext | None = None, name: str = "") -> Way:
    """Find out from arguments, then from the configuration, how to reach a scheduler.

    ``where`` is an address, or a cluster with a ``scheduler_address`` (and a ``token`` or ``token_file``, and a
    ``tls``, where it needs them), or None for the one configured. Raises ValueError where there is none, and OSError or
    ValueError for files that cannot be used.
    """
    token: bytes | None = None
    if where is None:
        where = configured_address()
        if where is None:
            raise ValueError(
                f"no scheduler is named: hetsched.Client(address), the environment variable {ADDRESS}, or "
                "hetsched.address in dask's configuration"
            )
    elif not isinstance(where, str):
        token, token_file, tls = _keys_of(where, token_file, tls)
        where = _address_of(where)
    address = str(parse_address(where))
    if token is None:
        token_file = token_file or config.get("comm.token-file")
        token = read_token_file(os.path.expanduser(token_file)) if token_file else None
    if address.startswith("tls:") and tls is None:
        files = (config.get(f"comm.tls.{file}") for file in ("cert", "key", "ca"))
        tls = client_tls(*(file and os.path.expanduser(file) for file in files))
    name = name or f"client-{os.getpid()}"
    hello = introduce(
        "client", name, devices=_devices(), pins=config.pins(), max_frame=config.size("comm.max-frame")
    )
    return Way(address, hello, token, tls, config.seconds("comm.scheduler-silence"))


def _address_of(cluster: Any) -> str:
    for name in ("scheduler_address", "address"):
        address = getattr(cluster, name, None)
        if isinstance(address, str):
            return address
    raise ValueError(f"{cluster!r:.200} is neither an address nor a cluster: it has no scheduler_address")


def _keys_of(cluster: Any, token_file: Any, tls: Any) -> tuple[bytes | None, Any, Any]:
    token = None if token_file else getattr(cluster, "token", None)
    token_file = token_file or getattr(cluster, "token_file", None)
    return token, token_file, tls or getattr(cluster, "tls", None)


def _devices() -> dict[str, int]:
    """How many devices there are of those kinds whose objects can come here: those whose library is in use."""
    count = _cuda_devices() if "cupy" in sys.modules else 0
    return {"cuda": count} if count else {}


def _cuda_devices() -> int:
    try:
        return int(sys.modules["cupy"].cuda.runtime.getDeviceCount())
    except Exception:  # the library's own troubles
        return 0

