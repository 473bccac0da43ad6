"""The interface of all transports: a stream of bytes in each direction, and a place to listen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:  # a scheduler never loads pickle
    from pickle import PickleBuffer

__all__ = ["Buffer", "Listener", "Stream", "flat"]

Buffer: TypeAlias = "bytes | bytearray | memoryview | PickleBuffer"
"""What is sent: C-contiguous memory. It may not change until it has been sent."""


def flat(buffer: Buffer) -> memoryview:
    """A view of a buffer as bytes, without a copy. Raises ValueError if its memory has gaps."""
    view = memoryview(buffer)
    if view.ndim == 1 and view.format == "B" and view.contiguous:
        return view
    if not view.c_contiguous:
        raise ValueError("only C-contiguous memory can be sent")
    # A view with a zero in its shape cannot be cast.
    return view.cast("B") if view.nbytes else memoryview(b"")


class Stream(ABC):
    """Bytes to and from one peer. One task may send while another receives.

    ``peername`` names the other end for people. ``local`` says whether it is on this machine.
    """

    __slots__ = ("local", "peername")

    peername: str
    local: bool

    @property
    def taken(self) -> int:
        """Bytes that the system has taken so far, also of what is still being sent; 0 where nobody counts."""
        return 0

    @abstractmethod
    async def send_all(self, buffers: Sequence[Buffer]) -> None:
        """Send buffers one after the other, neither joined nor copied where they are large.

        Cancelled, it has sent an unknown part: the stream cannot be sent on any more. What the system takes at once
        may be sent without a checkpoint. Raises ConnectionLost.
        """

    @abstractmethod
    async def receive_some_into(self, view: memoryview) -> int:
        """Wait for bytes, put them at the start of ``view`` and return how many; 0 when the peer has ended the stream.

        Safe to cancel: no bytes are lost. What is there already may be had without a checkpoint. Raises ConnectionLost.
        """

    @abstractmethod
    async def linger(self) -> None:
        """Send no more, and throw away what arrives until the peer has closed.

        A socket that is closed over bytes not yet read takes back what it has just sent. For use with a time limit; to
        be closed afterwards, cancelled or not. Never raises errors of its own.
        """

    @abstractmethod
    def abort(self) -> None:
        """Close at once. Whoever waits in this stream gets ConnectionLost. Does nothing the second time."""

    async def aclose(self) -> None:
        """Close; what was sent still arrives. Cancelled, it has closed all the same."""
        self.abort()


class Listener(ABC):
    """A place where peers connect. ``address`` is complete: it has the port that was chosen where 0 was asked for."""

    __slots__ = ("address",)

    address: str

    @abstractmethod
    async def accept(self) -> Stream:
        """Wait for the next peer. Safe to cancel: no peer is lost. Raises ConnectionLost once this end is closed."""

    @abstractmethod
    async def aclose(self) -> None:
        """Stop listening; streams that were accepted stay. Cancelled, it has closed all the same."""
