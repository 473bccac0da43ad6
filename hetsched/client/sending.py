"""What goes to the scheduler, in order: small messages by the packet, graphs part by part."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import trio

from hetsched.comm.channel import Channel
from hetsched.comm.packets import Message
from hetsched.comm.wire import encode
from hetsched.core.types import TaskSpec

from .loop import Loop
from .results import Ordered, Result
from .shipping import Part, parts_of

__all__ = ["Sender", "Sending", "Shipment"]

_TOGETHER = 1 << 20  # bytes of frames that leave in one packet
_MOST_MESSAGES = 256
_FEW = 256  # tasks of a graph that may share a packet


class Shipment:
    """A graph on its way. Its first part is made at once, by whoever makes this; raises what pickling raises.

    ``externals`` are the results of other graphs that it needs; ``keeps`` is held until they are named.
    """

    def __init__(
        self,
        graph: Ordered,
        tasks: Sequence[TaskSpec],
        externals: Sequence[Result],
        keeps: Any,
        pickle: int,
        most_bytes: int,
    ) -> None:
        self.graph = graph
        self.externals = externals
        self.keeps = keeps
        self.left = len(tasks)
        """How many tasks are in parts yet to be made."""
        self._parts: Iterator[Part] = parts_of(tasks, sorted(graph.results), pickle, most_bytes)
        self._first: Part | None = next(self._parts)
        self.left -= len(self._first.message.keys)

    @property
    def is_small(self) -> bool:
        """Whether it leaves in one part that may share a packet with others."""
        first = self._first
        return first is not None and not self.left and first.nbytes < _TOGETHER and len(first.message.keys) <= _FEW

    def take_first(self, number: int) -> Part:
        """The first part, of the graph that has this number from now on."""
        part, self._first = self._first, None
        assert part is not None
        self.graph.number = number
        named = [(_number_of(result.graph), result.position) for result in self.externals]
        self.keeps = None
        return part._replace(message=part.message._replace(graph=number, externals=named))

    async def take_next(self) -> Part:
        """Make the next part, in a thread: few tasks may have large arguments. Raises what pickling raises."""
        part = await trio.to_thread.run_sync(self._make)
        self.left -= len(part.message.keys)
        return part._replace(message=part.message._replace(graph=_number_of(self.graph)))

    def _make(self) -> Part:
        return next(self._parts)


def _number_of(graph: Ordered) -> int:
    assert graph.number is not None
    return graph.number


class Sending(Protocol):
    """What a sender asks its session."""

    def before_packet(self) -> None:
        """Put what is to be said first."""
        ...

    def admit(self, graph: Ordered, externals: Sequence[Result]) -> int | None:
        """Number a graph that is to be sent now, or refuse it."""
        ...

    def shipped(self, graph: Ordered) -> None:
        """All of a graph has been sent."""
        ...

    def refuse(self, graph: Ordered, error: BaseException) -> None:
        """A graph cannot be sent."""
        ...


class Sender:
    """An outbox that any thread fills. Graphs that come in many parts take turns, so a small one need not wait."""

    def __init__(self, channel: Channel, loop: Loop, session: Sending) -> None:
        self._channel = channel
        self._loop = loop
        self._session = session
        self._items: deque[Shipment | Message] = deque()
        self._parted: deque[Shipment] = deque()
        self._held: list[Shipment] = []
        """Graphs that need results of others that are not wholly sent."""
        self._wake = trio.Event()

    def put(self, item: Any) -> None:
        """Have a message or a shipment sent. Raises RuntimeError where the loop has ended."""
        self._items.append(item if isinstance(item, Shipment) else encode(item))
        if self._loop.inside:
            self._wake.set()
        else:
            self._loop.soon(self.wake, once=True)

    def wake(self) -> None:
        """Have it look at what there is."""
        self._wake.set()

    async def run(self) -> None:
        """Send for ever. Raises ConnectionLost."""
        while True:
            self._session.before_packet()
            if self._items:
                await self._send_together()
            elif not self._parted:
                await self._wake.wait()
                self._wake = trio.Event()
                continue
            if self._parted:
                await self._send_next(self._parted.popleft())

    async def _send_together(self) -> None:
        """Send one packet of messages and small graphs, or the first part of a graph that is not small."""
        messages: list[Message] = []
        frames: list[Any] = []
        nbytes = 0
        small: list[Ordered] = []
        while self._items and len(messages) < _MOST_MESSAGES and nbytes < _TOGETHER:
            item = self._items[0]
            if isinstance(item, Shipment):
                if messages and not item.is_small:
                    break
                self._items.popleft()
                number = self._admit(item)
                if number is None:
                    continue
                is_small, part = item.is_small, item.take_first(number)
                if not is_small:
                    await self._send(item, part)
                    return
                messages.append(encode(part.message))
                frames += part.frames
                nbytes += part.nbytes
                small.append(item.graph)
                self._session.shipped(item.graph)  # so that the next in this packet may speak of it
            else:
                self._items.popleft()
                messages.append(item)
        if messages:
            await self._send_packet(messages, frames, small)

    async def _send_packet(self, messages: list[Message], frames: list[Any], graphs: list[Ordered]) -> None:
        try:
            await self._channel.send(messages, frames)
        except (ValueError, OverflowError, TypeError) as error:
            for graph in graphs:
                self._session.refuse(graph, error)

    def _admit(self, shipment: Shipment) -> int | None:
        if shipment.graph.over:
            self._let_others_go()
            return None
        if any(not result.graph.shipped and not result.graph.over for result in shipment.externals):
            self._held.append(shipment)
            return None
        return self._session.admit(shipment.graph, shipment.externals)

    async def _send_next(self, shipment: Shipment) -> None:
        if shipment.graph.over:
            self._let_others_go()
            return
        try:
            part = await shipment.take_next()
        except Exception as error:  # the arguments' own code
            self._refuse(shipment, error)
        else:
            if shipment.graph.over:
                self._let_others_go()
            else:
                await self._send(shipment, part)

    async def _send(self, shipment: Shipment, part: Part) -> None:
        try:
            await self._channel.send([encode(part.message)], part.frames)
        except (ValueError, OverflowError, TypeError) as error:  # OversizeError, say: nothing was sent
            self._refuse(shipment, error)
            return
        if shipment.left:
            self._parted.append(shipment)
        else:
            self._session.shipped(shipment.graph)
            self._let_others_go()

    def _refuse(self, shipment: Shipment, error: BaseException) -> None:
        self._session.refuse(shipment.graph, error)
        self._let_others_go()

    def _let_others_go(self) -> None:
        held, self._held = self._held, []
        self._items.extendleft(reversed(held))
