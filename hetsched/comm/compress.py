"""Compression of frames: what this process can do, whether it is worth it, and how to undo it without trust."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from hetsched.errors import ProtocolError

__all__ = ["LARGEST", "SMALLEST", "available", "compress", "decompress"]

SMALLEST = 1024
"""Buffers of fewer bytes are left as they are."""

LARGEST = 0x7E000000
"""Buffers of more bytes are left as they are: lz4 can take no more at once."""

_Bytes: TypeAlias = "bytes | bytearray | memoryview"

_WORTH = 0.9  # of the size; what stays above it is not worth undoing
_SAMPLED = 256 * 1024  # bytes from which a sample is tried first
_PIECES, _PIECE = 4, 16 * 1024
_STEP = 64 * 1024


class _Codec(NamedTuple):
    make: Callable[[memoryview | bytes], bytes]
    undo: Callable[[memoryview, int], bytearray]
    ratio: int  # the most bytes that one compressed byte can stand for; 0 where the data state their size


def _lz4() -> _Codec:
    import lz4.block

    def make(view: memoryview | bytes) -> bytes:
        return bytes(lz4.block.compress(view, store_size=False))

    def undo(view: memoryview, nbytes: int) -> bytearray:
        try:
            out = lz4.block.decompress(view, uncompressed_size=nbytes, return_bytearray=True)
        except lz4.block.LZ4BlockError as error:
            raise ProtocolError(f"a frame is not lz4 of {nbytes} bytes: {error}") from error
        assert isinstance(out, bytearray)
        return out

    return _Codec(make, undo, ratio=255)


def _zstd() -> _Codec:
    import zstandard

    # Two threads in one compressor end the process.
    local = threading.local()

    def make(view: memoryview | bytes) -> bytes:
        if not hasattr(local, "compressor"):
            local.compressor = zstandard.ZstdCompressor(level=1)
        return bytes(local.compressor.compress(view))

    def undo(view: memoryview, nbytes: int) -> bytearray:
        try:
            stated = zstandard.frame_content_size(view)
            if stated != nbytes:
                raise ProtocolError(f"a frame of zstd states {stated} bytes, and its header {nbytes}")
            out = bytearray(nbytes)
            with zstandard.ZstdDecompressor().stream_reader(view) as reader:
                return out if _fill(reader.readinto, out) else out[:0]
        except zstandard.ZstdError as error:
            raise ProtocolError(f"a frame is not zstd of {nbytes} bytes: {error}") from error

    return _Codec(make, undo, ratio=0)


def _fill(read: Callable[[memoryview], int], out: bytearray) -> bool:
    with memoryview(out) as view:
        filled = 0
        while filled < len(out):
            n = read(view[filled:])
            if n == 0:
                return False
            filled += n
    return True


def _zlib() -> _Codec:
    def make(view: memoryview | bytes) -> bytes:
        return zlib.compress(view, 1)

    def undo(view: memoryview, nbytes: int) -> bytearray:
        out, filled, inflate = bytearray(nbytes), 0, zlib.decompressobj()
        try:
            for start in range(0, len(view), _STEP):
                # One more than there is room for, which tells too much from enough.
                part = inflate.decompress(view[start : start + _STEP], nbytes - filled + 1)
                if filled + len(part) > nbytes or inflate.unused_data:
                    raise ProtocolError(f"a frame of zlib holds more than {nbytes} bytes")
                out[filled : filled + len(part)] = part
                filled += len(part)
        except zlib.error as error:
            raise ProtocolError(f"a frame is not zlib of {nbytes} bytes: {error}") from error
        if not inflate.eof:
            raise ProtocolError(f"a frame of zlib ends after {filled} of {nbytes} bytes and in their midst")
        return out[:filled]

    return _Codec(make, undo, ratio=1032)


def _load() -> dict[str, _Codec]:
    found = {}
    for name, load in (("lz4", _lz4), ("zstd", _zstd), ("zlib", _zlib)):
        try:
            found[name] = load()
        except ImportError:
            continue
    return found


_CODECS = _load()


def available() -> tuple[str, ...]:
    """The names of the compressions that this process can make and undo, the best first."""
    return tuple(_CODECS)


def _codec(name: str) -> _Codec:
    try:
        return _CODECS[name]
    except KeyError:
        raise ValueError(f"no compression {name!r} here; there is {', '.join(_CODECS)}") from None


def compress(name: str, buffer: _Bytes) -> bytes | None:
    """The buffer compressed, or None where that is not worth it.

    It is not for less than ``SMALLEST`` bytes, more than ``LARGEST``, memory that is not C-contiguous, and where less
    than a tenth would be saved; of a large buffer a sample is tried first. Lets other threads run meanwhile, and may be
    called by many at once. Raises ValueError for a name that is not :func:`available`.
    """
    codec, view = _codec(name), memoryview(buffer)
    if not SMALLEST <= view.nbytes <= LARGEST or not view.c_contiguous:
        return None
    view = view.cast("B")
    if len(view) >= _SAMPLED:
        apart = (len(view) - _PIECE) // (_PIECES - 1)
        sample = b"".join(view[i * apart : i * apart + _PIECE] for i in range(_PIECES))
        if len(codec.make(sample)) > _WORTH * len(sample):
            return None
    made = codec.make(view)
    return made if len(made) <= _WORTH * len(view) else None


def decompress(name: str, buffer: _Bytes, nbytes: int) -> bytearray:
    """What :func:`compress` was given, which had ``nbytes`` bytes.

    Raises ProtocolError if the buffer does not hold exactly that, before memory is taken where the buffer's size or
    what it states rule it out; ValueError for a name that is not :func:`available`. Lets other threads run meanwhile.
    """
    codec, view = _codec(name), memoryview(buffer).cast("B")
    if not 0 < nbytes <= LARGEST:
        raise ProtocolError(f"a compressed frame of {nbytes} bytes; 1 to {LARGEST} are allowed")
    if codec.ratio and nbytes > codec.ratio * len(view):
        raise ProtocolError(f"{len(view)} bytes of {name} cannot hold {nbytes}")
    out = codec.undo(view, nbytes)
    if len(out) != nbytes:
        raise ProtocolError(f"a frame of {name} holds fewer than {nbytes} bytes")
    return out
