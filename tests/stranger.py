"""A peer that knows hetsched's protocol from its documentation alone: sockets, struct and msgpack."""

from __future__ import annotations

import os
import socket
import struct
import sys
from contextlib import suppress
from typing import Any, Self

import msgpack

__all__ = ["Stranger", "hello", "preface"]


def hello(**changes: Any) -> bytes:
    """An encoded Hello, with other or further fields."""
    said = {
        "role": "client", "name": "stranger", "protocols": [1], "python": [3, 13, 0], "pickle": 5, "compressions": [],
        "byteorder": sys.byteorder, "devices": [], "libraries": {}, "max_frame": 2**36, "max_header": 2**28,
        "nonce": os.urandom(32), "pins": {},
    }  # fmt: skip
    return msgpack.packb(said | changes)


def preface(said: bytes) -> bytes:
    """What goes before a Hello, and the Hello."""
    return struct.pack(">8sHI", b"HETSCHED", 1, len(said)) + said


class Stranger:
    """A connection to ``tcp://host:port``; what is awaited comes within ``timeout`` seconds, or TimeoutError."""

    def __init__(self, address: str, timeout: float = 20) -> None:
        host, _, port = address.removeprefix("tcp://").rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout)
        self.name = "tcp://{}:{}".format(*self.socket.getsockname())
        """What the peer calls it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def say(self, data: bytes) -> None:
        """Send bytes; a peer that has closed already is no error."""
        with suppress(ConnectionError):
            self.socket.sendall(data)

    def hear(self, count: int) -> bytes:
        """Receive so many bytes; fewer only where the peer has closed."""
        heard = b""
        with suppress(ConnectionError):
            while len(heard) < count and (more := self.socket.recv(count - len(heard))):
                heard += more
        return heard

    def rest(self) -> bytes:
        """All that still comes, until the peer closes; it is told, once it answers, that nothing more is said."""
        heard = self.hear(1)
        if heard:
            with suppress(OSError):
                self.socket.shutdown(socket.SHUT_WR)
        return heard + self.hear(1 << 30)

    def greet(self, said: bytes, proof: bytes = b"") -> tuple[bool, bytes]:
        """Greet; returns whether one is let in, and the peer's proof, or the sentence that says why not."""
        self.say(preface(said))
        magic, version, length = struct.unpack(">8sHI", self.hear(14))
        assert (magic, version) == (b"HETSCHED", 1)
        self.peer = msgpack.unpackb(self.hear(length))
        self.say(bytes([len(proof)]) + proof)
        good, length = struct.unpack(">BH", self.hear(3))
        return good == 1, self.hear(length)

    def send(self, *messages: Any) -> None:
        """Send a packet without frames."""
        header = msgpack.packb([messages, []])
        self.say(struct.pack(">I", len(header)) + header)

    def receive(self) -> list[Any]:
        """The messages of the next packet, which has no frames."""
        (length,) = struct.unpack(">I", self.hear(4))
        messages, frames = msgpack.unpackb(self.hear(length), strict_map_key=False)
        assert frames == []
        return messages
