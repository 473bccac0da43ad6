"""A client's connection to its scheduler: graphs go out, news of their results come in."""

from __future__ import annotations

import itertools
import logging
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import trio

from hetsched.comm.channel import Channel, open_channel
from hetsched.comm.handshake import Hello
from hetsched.comm.messages import Answered, Asked, Closed, PeerLost, PickleLimited, Warned
from hetsched.comm.silence import wait_for_silence
from hetsched.comm.wire import encode, to_client
from hetsched.core.commands import KeysFailed, KeysReady
from hetsched.core.types import TaskSpec
from hetsched.errors import ConnectionLost, HetschedError, ProtocolError

from .brought import Brought
from .loop import Loop
from .orders import Orders
from .reading import Gathering, Readers
from .results import Ordered, Result
from .sending import Sender, Shipment

__all__ = ["Session", "open_session"]

log = logging.getLogger("hetsched.client")

_CLOSE_SECONDS = 2.0
_FLUSHED = 256  # released results after which the loop is woken once more


async def open_session(
    address: str, hello: Hello, token: bytes | None, tls: ssl.SSLContext | None, timeout: float,  # noqa: ASYNC109
    silence: float | None = None,
) -> Session:  # fmt: skip
    """Connect to a scheduler; one that is not there yet is waited for, ``timeout`` seconds in all.

    The session ends when nothing was heard of the scheduler for ``silence`` seconds, though it was asked.

    Raises Rejected, ConnectionLost, TimeoutError, ProtocolError or ValueError. Cancelled, it leaves nothing behind.
    """
    until = trio.current_time() + timeout
    pause = 0.02
    while True:
        try:
            left = max(0.1, until - trio.current_time())
            channel = await open_channel(address, hello, token, _tls_for(address, tls), left)
        except ConnectionLost as error:
            if trio.current_time() + pause > until:
                raise ConnectionLost(f"there is no scheduler at {address}: {error}") from error
            await trio.sleep(pause)
            pause = min(0.5, 2 * pause)
        else:
            session = Session(address, channel, hello, token, tls, silence)
            await session.begin()
            return session


def _tls_for(address: str, tls: ssl.SSLContext | None) -> ssl.SSLContext | None:
    return tls if address.startswith("tls:") else None


class Session:
    """Lives in one loop; what may be called in any thread says so."""

    def __init__(
        self, address: str, channel: Channel, hello: Hello, token: bytes | None, tls: ssl.SSLContext | None,
        silence: float | None = None,
    ) -> None:  # fmt: skip
        self.address = address
        self.loop = Loop.here()
        self.ended: str | None = None
        """Why the connection is no more."""
        self._channel = channel
        self._hello = hello
        self._token = token
        self._tls = tls
        self._silence = silence
        self._pickle = channel.terms.pickle
        """The protocol of what is sent, which all workers know."""
        self.orders = Orders(self._say)
        self._brought = Brought()
        self._sender = Sender(channel, self.loop, self.orders)
        self._asked: dict[int, tuple[trio.Event, list[Answered]]] = {}
        self._numbers = itertools.count(1)
        self._scope = trio.CancelScope()
        self._begun = trio.Event()
        self._over = trio.Event()
        self._readers: Readers
        self._nursery: trio.Nursery

    # Any thread

    def submit(
        self, tasks: Sequence[TaskSpec], wanted: Iterable[int], externals: Sequence[Result] = (), keeps: Any = None
    ) -> Ordered:
        """Have a graph run; for any thread, which makes the first part of what is sent.

        ``keeps`` is held until the externals are named. Raises ConnectionLost, and what pickling raises.
        """
        self.check()
        graph = Ordered(tasks, wanted)
        shipment = Shipment(graph, tasks, externals, keeps, self._pickle, self._channel.terms.send_limit)
        self.orders.add(graph)
        self.check()  # again: whoever ended it meanwhile may not have seen this one
        self._sender.put(shipment)
        return graph

    def release(self, result: Result) -> None:
        """Nobody wants a result any more; for any thread, and finalizers. It is told before long."""
        count = self.orders.release(result)
        if (count <= 1 or not count % _FLUSHED) and self.ended is None:
            try:
                self.loop.soon(self._sender.wake, once=True)
            except RuntimeError:
                return

    def give_up(self, results: Sequence[Result]) -> None:
        """Have results cancelled: whoever waits for them gets TaskCancelled; for any thread."""
        if self.loop.inside:
            self.orders.cancel(results)
        elif self.ended is None:
            self.loop.soon(lambda: self.orders.cancel(results))

    def check(self) -> None:
        """Raise ConnectionLost where the connection is no more."""
        if self.ended is not None:
            raise ConnectionLost(self.ended)

    def call_in_thread(self, call: Callable[[Any], object], about: Any) -> None:
        """Have a person's function called, in a thread; for the loop's thread. What it raises is logged."""
        if self.ended is None:
            self._nursery.start_soon(_call, call, about)
        else:
            trio.lowlevel.spawn_system_task(_call, call, about)

    def begin_soon(self, work: Callable[..., Awaitable[Any]], *args: Any) -> None:
        """Have an async function run beside, until the connection ends; for any thread."""

        def begin() -> None:
            if self.ended is None:
                self._nursery.start_soon(work, *args)

        self.loop.soon(begin)

    # Waiting

    async def gather(self, results: Iterable[Result], skips: bool = False) -> dict[Result, Any]:
        """Wait for results and fetch them. Raises the error of the first that fails, or leaves it out (``skips``).

        Warns, once, where values were brought to the host from a device for this client. Safe to cancel.
        """
        self.check()
        found = await Gathering(results, self._readers, skips).wait()
        self._brought.tell()
        return found

    async def ask(self, question: str, about: Any) -> Any:
        """Ask the scheduler. Raises ProtocolError for what it cannot answer, and ConnectionLost. Safe to cancel."""
        self.check()
        number = next(self._numbers)
        event, answers = self._asked[number] = trio.Event(), []
        self._sender.put(Asked("", number, question, about))
        try:
            await event.wait()
        finally:
            del self._asked[number]
        if not answers:
            raise ConnectionLost(self.ended or "")
        answered = answers[0]
        if answered.error is not None:
            raise ProtocolError(answered.error)
        return answered.answer

    # The connection

    async def begin(self) -> None:
        """Start to speak."""
        trio.lowlevel.spawn_system_task(self._run, name=f"hetsched session with {self.address}")
        await self._begun.wait()

    async def aclose(self) -> None:
        """Say good-bye; the results are let go. Cancelled, it has closed all the same."""
        self._end("the Client is closed")
        await self._over.wait()

    async def _run(self) -> None:
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    self._nursery = nursery
                    self._readers = Readers(nursery, self._connect, self.orders.missing, self._brought.note)
                    self._begun.set()
                    nursery.start_soon(self._send)
                    if self._silence:
                        nursery.start_soon(self._watch, self._silence)
                    await self._receive()
        except* HetschedError as group:
            self._end(f"the connection to the scheduler at {self.address} is broken: {group.exceptions[0]}")
        except* Exception as group:  # a bug of ours: those who wait are told, rather than left waiting
            log.exception("in the session with %s", self.address, exc_info=group)
            self._end(f"the connection to the scheduler at {self.address} failed: {group!r}")
        finally:
            self._end("the loop of the Client has ended")
            with trio.move_on_after(_CLOSE_SECONDS, shield=True):
                await self._channel.aclose()
            self._over.set()

    def _end(self, why: str) -> None:
        if self.ended is not None:
            return
        self.ended = why
        self._scope.cancel()
        self.orders.end(why)
        for event, _ in self._asked.values():
            event.set()

    async def _send(self) -> None:
        try:
            await self._sender.run()
        except ConnectionLost as error:
            self._lose(str(error))

    async def _watch(self, limit: float) -> None:
        def ask() -> None:  # about nothing, past all that waits to be sent
            self._nursery.start_soon(self._channel.send, [encode(Asked("", 0, "who_has", (0, ())))])

        await wait_for_silence(self._channel, limit, ask)
        self._lose(f"nothing was heard of it for {limit:g} s (comm.scheduler-silence), it or its machine hangs")

    async def _receive(self) -> None:
        try:
            while True:
                messages, _ = await self._channel.receive()
                for message in messages:
                    self._hear(to_client.decode(message, ""))
                await trio.lowlevel.checkpoint()
        except (ConnectionLost, ProtocolError) as error:
            self._lose(str(error))

    def _lose(self, why: str) -> None:
        why = why or "it has ended"
        self._end(f"the scheduler at {self.address} is gone: {why}; what was under way is lost, make a new Client")

    def _hear(self, message: KeysReady | KeysFailed | Answered | PeerLost | Warned | PickleLimited | Closed) -> None:
        match message:
            case KeysReady():
                self.orders.ready(message)
            case KeysFailed():
                self.orders.failed(message)
            case Answered(_, number, _, _):
                if number in self._asked:
                    event, answers = self._asked[number]
                    answers.append(message)
                    event.set()
            case PeerLost(_, address):
                self._readers.lost(address)
            case Warned(_, sentence):
                log.warning("%s", sentence)
            case PickleLimited(_, protocol):
                self._pickle = min(self._pickle, protocol)
            case Closed(_, why, _):
                self._lose(why)

    # Workers

    def _say(self, message: Any) -> None:
        if self.ended is None:
            self._sender.put(message)

    async def _connect(self, address: str) -> Channel:
        return await open_channel(address, self._hello, self._token, _tls_for(address, self._tls))

async def _call(call: Callable[[Any], object], about: Any) -> None:
    try:
        await trio.to_thread.run_sync(call, about, abandon_on_cancel=True)
    except Exception:  # the person's own code
        log.exception("in a function to be called when %r is done", about)
