"""What an object has on a device: pieces of memory, and their sum."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeAlias

__all__ = ["DLPACK", "UNTOLD", "Device", "Piece", "Way", "total"]


class Device(NamedTuple):
    """A device: its kind ("cuda", "rocm", "mps", ...) and which of them; :data:`UNTOLD` if an object does not tell."""

    kind: str
    index: int  # type: ignore[assignment]  # it hides a method of tuples


class Piece(NamedTuple):
    """Memory on a device: ``nbytes`` of it, from ``address`` on; 0 where the address is not known.

    Without an address, pieces of the same ``owner`` are the same memory.
    """

    device: Device
    nbytes: int
    address: int = 0
    owner: int = 0


Way: TypeAlias = Callable[[Any], Iterable[Any]]
"""Gives the pieces of an object, and the objects in it."""

UNTOLD: Final = -1
"""The number of a device of which only the kind is known."""

DLPACK: Final = {2: "cuda", 10: "rocm", 13: "cuda"}
"""DLPack's device types whose memory is a device's: CUDA, ROCm, CUDA managed (pinned host memory, 3, is the host's)."""


def total(pieces: Iterable[Piece]) -> int:
    """The bytes of pieces together; where they overlap, they count once. All devices of a kind share addresses."""
    spans: dict[str, list[tuple[int, int]]] = {}
    owned: dict[tuple[Device, int], int] = {}
    loose = 0
    for device, nbytes, address, owner in pieces:
        if address:
            spans.setdefault(device.kind, []).append((address, address + nbytes))
        elif owner:
            owned[device, owner] = max(nbytes, owned.get((device, owner), 0))
        else:
            loose += nbytes
    return loose + sum(owned.values()) + sum(map(_covered, spans.values()))


def _covered(spans: list[tuple[int, int]]) -> int:
    if len(spans) == 1:
        return spans[0][1] - spans[0][0]
    covered, end = 0, 0
    for first, last in sorted(spans):
        if last > end:
            covered += last - max(first, end)
            end = last
    return covered
