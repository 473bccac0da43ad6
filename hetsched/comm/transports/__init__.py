"""Ways for bytes to get to a peer: TCP, TLS, Unix sockets, and memory within one process.

::

    listener = await listen("tcp://127.0.0.1:0")
    stream = await connect(listener.address)
"""

from __future__ import annotations

import ssl

import trio

from .address import Address, Scheme, parse_address
from .inproc import connect_inproc, listen_inproc
from .sockets import connect_socket, listen_socket
from .stream import Buffer, Listener, Stream, flat
from .tls import TlsListener, TlsStream

__all__ = [
    "Address",
    "Buffer",
    "Listener",
    "Scheme",
    "Stream",
    "connect",
    "flat",
    "listen",
    "parse_address",
]


async def connect(address: str, tls: ssl.SSLContext | None = None, timeout: float = 10.0) -> Stream:  # noqa: ASYNC109
    """Connect to a listener within ``timeout`` seconds; ``tls`` is the client's context for ``tls://``.

    Raises ConnectionLost where nobody answers, TimeoutError, and ValueError for an address that is none. Cancelled, it
    leaves nothing behind.
    """
    where = _checked(address, tls)
    with trio.move_on_after(timeout):
        return await _connect(where, tls)
    raise TimeoutError(f"cannot connect to {where}: no answer within {timeout:g} s")


async def _connect(where: Address, tls: ssl.SSLContext | None) -> Stream:
    if where.scheme == "inproc":
        return await connect_inproc(where)
    below = await connect_socket(where)
    if tls is None:
        return below
    try:
        stream = TlsStream(below, tls, where.place)
        await stream.handshake()
    except BaseException:
        below.abort()
        raise
    return stream


async def listen(address: str, tls: ssl.SSLContext | None = None) -> Listener:
    """Listen at an address; port 0 takes a free one; ``tls`` is the server's context for ``tls://``.

    A Unix socket is for its owner alone (mode 0600). Raises OSError where the address is taken or not ours, and
    ValueError for one that is none. Safe to cancel.
    """
    where = _checked(address, tls)
    if where.scheme == "inproc":
        return listen_inproc(where)
    listener = await listen_socket(where)
    return listener if tls is None else TlsListener(listener, tls)


def _checked(address: str, tls: ssl.SSLContext | None) -> Address:
    where = parse_address(address)
    if where.scheme == "tls" and tls is None:
        raise ValueError(f"{address} needs certificates")
    if where.scheme != "tls" and tls is not None:
        raise ValueError(f"there are certificates, and {address} does not use them: write tls://")
    return where
