"""The scheduler's process: accepts connections, and attends to each until its end."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import trio

from hetsched.comm.channel import accept_channel
from hetsched.comm.handshake import Hello
from hetsched.comm.messages import PeerLost
from hetsched.comm.transports import Listener, Stream, listen
from hetsched.core.events import ClientLeft, Event, WorkerLost
from hetsched.core.scheduler import Scheduler
from hetsched.errors import AnnotationError, ConnectionLost, HetschedError, OversizeError, ProtocolError
from hetsched.gpu.learned import Learned

from .feeding import Feeder
from .hearing import Ear
from .lessons import Lessons
from .limits import Limits
from .links import ClientLink, Link, WorkerLink
from .pickles import limit_clients, suited
from .plugins import Door
from .watching import Watch

__all__ = ["Server"]

log = logging.getLogger("hetsched.scheduler")


_LOOK_SECONDS = 0.05


class Server:
    """Workers and clients around one scheduler. ``hello`` is what it says of itself to each."""

    def __init__(
        self,
        scheduler: Scheduler,
        hello: Hello,
        limits: Limits = Limits(),  # noqa: B008 - immutable
        record: Callable[[float, Event], None] | None = None,
        door: Door | None = None,
        learned: Learned | None = None,
    ) -> None:
        self.scheduler = scheduler
        self.hello = hello
        self.addresses: list[str] = []
        door = Door(scheduler.plugins) if door is None else door
        self._feeder = Feeder(scheduler, record)
        self._lessons = Lessons(learned, scheduler.state, self._feeder.feed)
        self._post = self._feeder.post
        self._ear = Ear(self._feeder, door, self._lessons, self._facts, limits.leaving)
        self._watch = Watch(self._feeder, door, self._lessons, limits, self.stop)
        self._serial = 0
        self._stop = trio.Event()
        self._started = perf_counter()

    async def serve(
        self,
        addresses: Sequence[str],
        token: bytes | None = None,
        tls: ssl.SSLContext | None = None,
        *,
        task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Listen and serve until :meth:`stop`; reports the real addresses when it listens.

        Raises OSError or ValueError for an address it cannot listen at. Cancelled, it tells all peers and closes.
        """
        listeners = [await listen(address, tls if address.startswith("tls:") else None) for address in addresses]
        self.addresses = [listener.address for listener in listeners]
        try:
            async with trio.open_nursery() as nursery:
                for listener in listeners:
                    nursery.start_soon(self._accept, listener, token, nursery)
                nursery.start_soon(self._watch.keep)
                nursery.start_soon(self._feeder.keep_time)
                task_status.started(self.addresses)
                await self._stop.wait()
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True):
                for listener in listeners:
                    await listener.aclose()
                async with trio.open_nursery() as nursery:
                    for link in (*self._post.workers.values(), *self._post.clients.values()):
                        nursery.start_soon(link.close, "the scheduler ends")
            with trio.CancelScope(shield=True):
                await self._lessons.keep(everything=True)

    def stop(self) -> None:
        """Have :meth:`serve` tell all peers that it ends, and return."""
        self._stop.set()

    # Connections

    async def _accept(self, listener: Listener, token: bytes | None, nursery: trio.Nursery) -> None:
        while True:
            stream = await listener.accept()
            nursery.start_soon(self._greet, stream, token)

    async def _greet(self, stream: Stream, token: bytes | None) -> None:
        peername = stream.peername
        try:
            suit = partial(suited, self.hello, self._post.workers)
            channel = await accept_channel(stream, self.hello, token, suit=suit)
        except (HetschedError, OSError, TimeoutError) as error:
            log.warning("turned away %s: %s", peername, error)
            return
        role, name = channel.peer.role, channel.peer.name
        if role == "worker":
            worker = WorkerLink(name, channel, perf_counter())
            if not await self._is_free(name):
                await worker.close(f"there is a worker {name!r} already: give this one another --name", final=True)
                log.warning("turned away a second worker %s from %s", name, peername)
                return
            worker.heard = perf_counter()
            self._post.workers[name] = worker
            await self._attend(worker)
        elif role == "client":
            self._serial += 1
            client = ClientLink(f"{name}-{self._serial}", channel, perf_counter())
            self._post.clients[client.name] = client
            limit_clients([client], self._post.workers.values())
            await self._attend(client)
        else:
            await channel.aclose()

    async def _is_free(self, name: str) -> bool:
        """Wait until a worker of this name, if there is one, is gone or has shown that it lives."""
        knocked = perf_counter()
        while (known := self._post.workers.get(name)) is not None:
            if known.heard > knocked:
                return False
            await trio.sleep(_LOOK_SECONDS)
        return True

    async def _attend(self, link: WorkerLink | ClientLink) -> None:
        """Carry messages to and from one peer until its end."""
        why = ""
        channel = link.channel
        log.info("%s %s from %s: %s", channel.peer.role, link.name, channel.peername, channel.terms)
        try:
            with link.scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(link.write)
                    try:
                        await self._ear.listen(link)
                    finally:
                        nursery.cancel_scope.cancel()
        except* (ConnectionLost, OSError) as group:
            why = str(_first(group))
        except* (ProtocolError, OversizeError, AnnotationError) as group:
            why = str(_first(group))
            with trio.CancelScope(shield=True):
                await link.close(why)
        except* Exception as group:  # a bug of ours must not end the others' work
            why = "an error of the scheduler's own"
            log.exception("while attending to %s", link.name, exc_info=_first(group))
        finally:
            self._leave(link, link.why or why or "the server ends")
            with trio.CancelScope(shield=True):
                await link.close(link.why or why or "the scheduler ends")

    def _leave(self, link: Link, why: str) -> None:
        log.info("%s %s is gone: %s", link.channel.peer.role, link.name, why)
        if isinstance(link, WorkerLink):
            self._post.workers.pop(link.name, None)
            self._post.where.pop(link.name, None)
            if link.joined:
                joined = [other for other in self._post.workers.values() if other.joined]
                for other in (*joined, *self._post.clients.values()):
                    other.say(PeerLost(other.name, link.address))
                self._feeder.feed(WorkerLost(link.name, why))
        else:
            self._post.clients.pop(link.name, None)
            self._feeder.feed(ClientLeft(link.name))

    def _facts(self) -> dict[str, Any]:
        return {
            "addresses": self.addresses,
            "seconds": perf_counter() - self._started,
            "name": self.hello.name,
            "stranded": self._watch.complaints(),
            "jobs": self.scheduler.jobs.report(self.scheduler.state),
            "plugins": self.scheduler.plugins.report(),
        }


def _first(group: BaseExceptionGroup[Any]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
