"""Results on their way between workers, and to clients: asked for in one message, sent in one or a few."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Iterable, Sequence
from time import perf_counter
from typing import Any

import trio

from hetsched.comm.channel import Channel, accept_channel, open_channel
from hetsched.comm.handshake import Hello
from hetsched.comm.messages import ResultsAsked, ResultsSent
from hetsched.comm.packets import MOST_EMPTY
from hetsched.comm.remote_errors import dump_error
from hetsched.comm.serialize import deserialize, is_value
from hetsched.comm.transports import Listener, Stream
from hetsched.comm.wire import encode, from_holder, from_reader
from hetsched.core.types import TaskId
from hetsched.errors import ConnectionLost, HetschedError, OversizeError

from .packing import Packing
from .store import Store

__all__ = ["ANSWER_BYTES", "Holder", "Peers", "Secrets", "take_results"]

log = logging.getLogger("hetsched.worker")

ANSWER_BYTES = 64 * 2**20
"""An answer is sent in pieces of about so many bytes, each with one result at least."""

_TOGETHER = 4000  # values in one message

_IN_THREAD = 1 << 18  # bytes of a pickle from which it is loaded in a thread

_UNFIT = (Exception, SystemExit)
"""What an object's own code may raise when it is pickled or loaded, without an end to the process."""


class Secrets:
    """What opens a cluster's doors: its token, and TLS contexts for either side."""

    __slots__ = ("client_tls", "server_tls", "token")

    def __init__(
        self,
        token: bytes | None = None,
        server_tls: ssl.SSLContext | None = None,
        client_tls: ssl.SSLContext | None = None,
    ) -> None:
        self.token = token
        self.server_tls = server_tls
        self.client_tls = client_tls

    def tls_for(self, address: str) -> ssl.SSLContext | None:
        """The context to connect to an address with."""
        return self.client_tls if address.startswith("tls:") else None


class Holder:
    """Serves the results of a store to whoever may ask."""

    def __init__(self, store: Store, hello: Hello, token: bytes | None) -> None:
        self._store = store
        self._hello = hello
        self._token = token
        self._packing = Packing()

    async def serve(self, listener: Listener, nursery: trio.Nursery) -> None:
        """Accept readers for ever; each has a task of its own in ``nursery``."""
        while True:
            stream = await listener.accept()
            nursery.start_soon(self._attend, stream)

    async def _attend(self, stream: Stream) -> None:
        peername = stream.peername
        try:
            channel = await accept_channel(stream, self._hello, self._token)
        except (HetschedError, OSError) as error:
            log.warning("turned away %s: %s", peername, error)
            return
        log.info("%s %s reads, from %s: %s", channel.peer.role, channel.peer.name, peername, channel.terms)
        try:
            while True:
                messages, _ = await channel.receive()
                for message in messages:
                    asked = from_reader.decode(message, peername)
                    await self._answer(channel, asked)
        except (HetschedError, OSError) as error:
            log.debug("reader %s is gone: %s", peername, error)
        finally:
            with trio.move_on_after(1, shield=True):
                await channel.aclose()

    async def _answer(self, channel: Channel, asked: ResultsAsked) -> None:
        results: list[tuple[TaskId, Any, int]] = []
        frames: list[Any] = []
        missing: list[TaskId] = []
        unfit: list[tuple[TaskId, bytes]] = []
        nbytes = 0
        for task in await self._send_values(channel, asked.tasks):
            try:
                value = await self._look(task)
            except Exception:  # it is not here, or came and could not be loaded: others may still have it
                missing.append(task)
                continue
            try:
                header, buffers = await self._packing.pack(value, channel.terms.pickle, channel.terms.send_devices)
                size = _size_for(channel, buffers)
            except _UNFIT as error:
                unfit.append((task, dump_error(error, channel.terms.pickle)))
                continue
            finally:
                del value
            full = nbytes + size > min(ANSWER_BYTES, channel.terms.send_limit)
            if results and (full or len(frames) + len(buffers) > MOST_EMPTY):
                await channel.send([encode(ResultsSent("", results, (), (), False))], frames)
                results, frames, nbytes = [], [], 0
            results.append((task, header, len(buffers)))
            frames.extend(buffers)
            nbytes += size
        await channel.send([encode(ResultsSent("", results, missing, unfit, True))], frames)

    async def _send_values(self, channel: Channel, asked: Sequence[TaskId]) -> list[TaskId]:
        """Send those that a message can hold as they are, many at once; return the others."""
        peek = self._store.peek
        others: list[TaskId] = []
        plain: list[TaskId] = []
        values: list[Any] = []
        for task in asked:
            value = peek(task, self)
            if is_value(value):
                plain.append(task)
                values.append(value)
            else:
                others.append(task)
            del value
        for first in range(0, len(plain), _TOGETHER):
            some = slice(first, first + _TOGETHER)
            await channel.send([encode(ResultsSent("", (), (), (), False, plain[some], values[some]))])
        return others

    async def _look(self, task: TaskId) -> Any:
        """Get a result, in a thread where it has to be read from disk. Raises KeyError."""
        if self._store.in_memory(task):
            return self._store[task]
        return await trio.to_thread.run_sync(self._store.__getitem__, task)


def _size_for(channel: Channel, buffers: Sequence[Any]) -> int:
    """The bytes of a result. Raises OversizeError where that is more than the peer takes."""
    size = sum(memoryview(buffer).nbytes for buffer in buffers)
    if size > channel.terms.send_limit:
        raise OversizeError(f"a result of {size} bytes; {channel.peername} takes {channel.terms.send_limit} at once")
    return size


async def take_results(
    channel: Channel, tasks: Sequence[TaskId], keep: Callable[[TaskId, Any], None]
) -> tuple[list[TaskId], list[tuple[TaskId, bytes | BaseException]]]:
    """Ask the peer of a channel for results, which ``keep`` is called with one by one.

    Returns those it has not, and those that cannot be had: with the error, packed by the peer or raised here by the
    object's own code. Raises ConnectionLost and ProtocolError. Cancelled, the channel must be closed: an answer may
    still be on its way.
    """
    await channel.send([encode(ResultsAsked("", list(tasks)))])
    missing: list[TaskId] = []
    unfit: list[tuple[TaskId, bytes | BaseException]] = []
    while True:
        messages, frames = await channel.receive()
        left = iter(frames)
        for message in messages:
            sent = from_holder.decode(message, channel.peername)
            for task, value in zip(sent.plain, sent.values, strict=False):
                keep(task, value)
            missing.extend(sent.missing)
            unfit.extend(sent.unfit)
            for task, header, count in sent.results:
                own = [frame for _, frame in zip(range(count), left, strict=False)]
                try:
                    keep(task, await _load(header, own))
                except _UNFIT as error:
                    unfit.append((task, error))
            if sent.final:
                return missing, unfit


async def _load(header: Any, frames: Sequence[Any]) -> Any:
    nbytes = sum(memoryview(frame).nbytes for frame in frames)
    if nbytes > _IN_THREAD and header[0] == "pickle":
        return await trio.to_thread.run_sync(deserialize, header, frames)
    return deserialize(header, frames)


class Peers:
    """Connections to other workers, one each, kept while they are used now and then.

    ``measured`` is told of each answer the peer's name, its bytes on the wire, and the seconds since it was asked for.
    """

    def __init__(
        self, hello: Hello, secrets: Secrets, measured: Callable[[str, int, float], None] | None = None
    ) -> None:
        self._hello = hello
        self._secrets = secrets
        self._measured = measured
        self.fetched = 0
        """Bytes that came from peers, as they were on the wire."""
        self._idle: dict[str, Channel] = {}

    async def fetch(
        self, address: str, tasks: Sequence[TaskId], keep: Callable[[TaskId, Any], None]
    ) -> tuple[list[TaskId], list[tuple[TaskId, bytes | BaseException]]]:
        """Get results from a peer: see :func:`take_results`. All are missing where it cannot be reached."""
        channel = self._idle.pop(address, None)
        fresh = channel is None
        done: set[TaskId] = set()

        def note(task: TaskId, value: Any) -> None:
            keep(task, value)
            done.add(task)

        try:
            if channel is None:
                channel = await open_channel(
                    address, self._hello, self._secrets.token, self._secrets.tls_for(address)
                )
            started, before = perf_counter(), channel.bytes_in
            found = await take_results(channel, tasks, note)
            nbytes = channel.bytes_in - before
            self.fetched += nbytes
            if self._measured is not None:
                self._measured(channel.peer.name, nbytes, perf_counter() - started)
        except (HetschedError, OSError, ValueError) as error:  # ValueError: it has no address that fits this worker
            if channel is not None:
                await channel.aclose()
            left = [task for task in tasks if task not in done]
            if not fresh and isinstance(error, ConnectionLost):
                missing, unfit = await self.fetch(address, left, keep)  # it had closed the idle connection
                return missing, unfit
            log.info("cannot get %d results from %s: %s", len(left), address, error)
            return left, []
        except BaseException:
            if channel is not None:
                with trio.move_on_after(1, shield=True):
                    await channel.aclose()
            raise
        if self._idle.setdefault(address, channel) is not channel:
            await channel.aclose()
        return found

    async def forget(self, address: str) -> None:
        """Close the connection to a peer, if there is one that is not in use."""
        channel = self._idle.pop(address, None)
        if channel is not None:
            await channel.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        channels: Iterable[Channel] = list(self._idle.values())
        self._idle.clear()
        for channel in channels:
            await channel.aclose()
