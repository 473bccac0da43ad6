"""Packets: messages and the large buffers that belong to them. How their headers look on the wire.

A packet is ``u32 length of the header | header | frames``, the length in network byte order. The header is msgpack,
``[messages, frames]``: a message is an array, and a frame is described by its number of bytes, or by ``[bytes on the
wire, bytes when undone]`` if it is compressed. The frames' bytes follow in the same order with nothing between them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

import msgpack

from hetsched.errors import ProtocolError

__all__ = ["MOST_EMPTY", "PREFIX", "FrameSize", "Message", "Packet", "decode_header", "encode_header"]

Message = tuple[Any, ...]

PREFIX = struct.Struct(">I")
"""What stands before a header: its length in bytes."""

MOST_EMPTY = 1 << 18
"""So many frames of a packet may have no bytes: what costs its sender nothing must not cost its receiver much."""

_SKIMMED = 4096


class Packet(NamedTuple):
    """What arrives together. Each frame is a writable view of memory that nobody else has."""

    messages: tuple[Message, ...]
    frames: tuple[memoryview, ...]


class FrameSize(NamedTuple):
    """The bytes that a frame has on the wire, and those it has for its user: more if it is ``compressed``."""

    wire: int
    nbytes: int

    @property
    def compressed(self) -> bool:
        """Whether it has to be undone."""
        return self.wire != self.nbytes


_EMPTY = FrameSize(0, 0)


def encode_header(messages: Iterable[Message], frames: Sequence[FrameSize]) -> bytes:
    """The header's bytes, without their length.

    Raises TypeError, ValueError or OverflowError where a message holds what msgpack cannot say.
    """
    described = [size if size.compressed else size.nbytes for size in frames]
    return cast("bytes", msgpack.packb((messages if isinstance(messages, tuple) else [*messages], described)))


def decode_header(data: bytes | memoryview, limit: int) -> tuple[tuple[Message, ...], list[FrameSize]]:
    """The messages and the sizes of the frames that follow, which come to at most ``limit`` bytes together.

    Raises ProtocolError for everything else. Never takes more memory than a small multiple of what ``data`` has.
    """
    match _unpack(data):
        case (tuple() as messages, tuple() as described):
            pass
        case _:
            raise ProtocolError("a header is not a pair of messages and frames")
    for message in messages:
        if type(message) is not tuple:
            raise ProtocolError(f"a message is an array, not {type(message).__name__}")
    empty = described.count(0)
    if empty > MOST_EMPTY:
        raise ProtocolError(f"{empty} frames without bytes; {MOST_EMPTY} are allowed")
    frames = [_frame(size) for size in described]
    total = sum(size.nbytes for size in frames)
    if total > limit:
        raise ProtocolError(f"frames of {total} bytes; {limit} are allowed")
    return messages, frames


def _frame(size: object) -> FrameSize:
    if type(size) is int and size >= 0:
        if not size:
            return _EMPTY
        return FrameSize(size, size)
    match size:
        case (int(wire), int(nbytes)) if type(wire) is type(nbytes) is int and 0 < wire < nbytes:
            return FrameSize(wire, nbytes)
        case _:
            raise ProtocolError("a frame is not described by its size")


def _unpack(data: bytes | memoryview) -> object:
    try:
        if len(data) > _SKIMMED:
            # Room for an array is taken as soon as its length is read, and arrays nest. Skipping takes no room, and
            # fails where a length is not true.
            skim = msgpack.Unpacker(max_buffer_size=len(data))
            skim.feed(data)
            skim.skip()
        return msgpack.unpackb(data, use_list=False, strict_map_key=False)
    except (ValueError, TypeError, OverflowError, RecursionError, msgpack.OutOfData) as error:
        raise ProtocolError(f"a header is not msgpack: {error or type(error).__name__}") from error
