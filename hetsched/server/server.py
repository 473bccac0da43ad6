"""The scheduler's process: accepts connections, feeds the one scheduler, carries its commands out."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from time import perf_counter
from typing import Any

import trio

from hetsched.comm.channel import accept_channel
from hetsched.comm.handshake import Hello
from hetsched.comm.messages import (
    Answered,
    Asked,
    GraphPart,
    HeartBeat,
    PeerLost,
    Warned,
    WorkerLeaving,
    WorkerOffered,
    WorkerWelcomed,
)
from hetsched.comm.payloads import Depot
from hetsched.comm.transports import Listener, Stream, listen
from hetsched.comm.wire import from_client, from_worker
from hetsched.core.events import (
    AskedAgain,
    ClientLeft,
    Event,
    ReplicasAdded,
    TasksStranded,
    TimePassed,
    WorkerJoined,
    WorkerLost,
    WorkerRetiring,
)
from hetsched.core.retiring import may_leave
from hetsched.core.scheduler import Scheduler
from hetsched.errors import AnnotationError, ConnectionLost, HetschedError, OversizeError, ProtocolError
from hetsched.gpu.learned import Learned

from .lessons import Lessons
from .limits import Limits
from .links import ClientLink, Link, WorkerLink
from .pickles import limit_clients, suited
from .plugins import Door
from .post import Post
from .questions import answer
from .stranded import Stranded

__all__ = ["Limits", "Server"]

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
        self.limits = limits
        self.addresses: list[str] = []
        self._record = record
        self._lessons = Lessons(learned, scheduler.state, self.feed)
        self._door = Door(scheduler.plugins) if door is None else door
        self._depot = Depot()
        self._post = Post()
        self._serial = 0
        self._busy = perf_counter()
        self._stop = trio.Event()
        self._stranded = Stranded(limits.no_worker, limits.no_worker_ends)
        self._started = perf_counter()
        self._alarm = trio.CancelScope()

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
                nursery.start_soon(self._watch)
                nursery.start_soon(self._keep_time)
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
                        await self._read(link)
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
                self.feed(WorkerLost(link.name, why))
        else:
            self._post.clients.pop(link.name, None)
            self.feed(ClientLeft(link.name))

    async def _read(self, link: WorkerLink | ClientLink) -> None:
        channel = link.channel
        while True:
            messages, frames = await channel.receive()
            link.heard = perf_counter()
            left = iter(frames)
            if any(said[:1] == ("GraphPart",) for said in messages):
                await self._lessons.refresh()
            for message in messages:
                if isinstance(link, WorkerLink):
                    self._hear_worker(link, message)
                else:
                    self._hear_client(link, message, left)
            await trio.lowlevel.checkpoint()

    def _hear_worker(self, link: WorkerLink, said: tuple[Any, ...]) -> None:
        message = from_worker.decode(said, link.name)
        match message:
            case HeartBeat():
                link.beat(message)
            case WorkerOffered():
                link.offered(message)
                self._post.where[link.name] = link.address
                link.say(WorkerWelcomed(link.name))
                limit_clients(self._post.clients.values(), [link])
                self.feed(WorkerJoined(link.name, message.capacity))
            case WorkerLeaving():
                link.leave_by = perf_counter() + self.limits.leaving
                log.info("worker %s wants to leave: %s", link.name, message.why)
                self.feed(WorkerRetiring(link.name))
                self._see_off(link)
            case _:
                if not link.joined:
                    raise ProtocolError(f"{link.name} has not offered itself")
                self.feed(message)
                if link.leave_by is not None:
                    self._see_off(link)
                if isinstance(message, ReplicasAdded):
                    for other in list(self._post.workers.values()):
                        if other.leave_by is not None:
                            self._see_off(other)

    def _see_off(self, link: WorkerLink) -> None:
        """Let a worker go that wants to, once it has nothing left to do and others have what it holds."""
        state = self.scheduler.state
        ws = state.workers.get(link.name)
        if ws is None or may_leave(state, ws):
            link.end("it has left")

    def _hear_client(self, link: ClientLink, said: tuple[Any, ...], frames: Any) -> None:
        message = from_client.decode(said, link.name)
        match message:
            case GraphPart():
                graph = self.scheduler.state.graphs.get((link.name, message.graph))
                if graph is not None and message.first != len(graph.tasks):
                    raise ProtocolError(f"the tasks from {message.first} on came after {len(graph.tasks)}")
                if graph is not None or not message.first:
                    if message.makers:
                        message = message._replace(makers=self._lessons.recall(message.makers))
                    self.feed(self._depot.take(message, frames))
                else:
                    self._depot.take(message, frames)  # it was refused or given up meanwhile
            case Asked(_, number, question, about):
                self._answer(link, number, question, about)
            case _:
                self.feed(message)

    def _answer(self, link: ClientLink, number: int, question: str, about: Any) -> None:
        links: list[Link] = [*self._post.workers.values(), *self._post.clients.values()]
        facts = self._facts() if question == "info" else {}
        try:
            if question == "register_plugin":
                found = self._door.register(link.name, about)
                self.feed(AskedAgain())
            else:
                found = answer(question, about, link.name, self.scheduler.state, links, facts)
        except ProtocolError as error:
            link.say(Answered(link.name, number, None, str(error)))
        else:
            link.say(Answered(link.name, number, found, None))

    def _facts(self) -> dict[str, Any]:
        return {
            "addresses": self.addresses,
            "seconds": perf_counter() - self._started,
            "name": self.hello.name,
            "stranded": self._stranded.standing(self.scheduler.state),
            "jobs": self.scheduler.jobs.report(self.scheduler.state),
            "plugins": self.scheduler.plugins.report(),
        }

    # The scheduler

    def feed(self, event: Event) -> None:
        """Have the scheduler handle an event, and its commands sent. Raises ProtocolError as it does."""
        now = perf_counter()
        self._busy = now
        if self._record is not None:
            try:
                self._record(now, event)
            except OSError as error:
                self._record = None
                log.error("the recording ends here, since it cannot be written: %s", error)
        commands = self.scheduler.handle(event, now)
        del event  # may be the last thing that speaks of its payloads
        self._post.clear_out(self._depot.gone())
        self._post.deliver(commands)
        self._set_alarm()

    def _set_alarm(self) -> None:
        due = self.scheduler.due
        if due is not None:
            self._alarm.deadline = trio.current_time() + max(0.0, due - perf_counter())
        elif self._alarm.deadline != inf:
            self._alarm.deadline = inf

    async def _keep_time(self) -> None:
        """Tell the scheduler when a time has come that it waits for."""
        while True:
            with trio.CancelScope() as self._alarm:
                self._set_alarm()
                await trio.sleep_forever()
            self.feed(TimePassed())

    async def _watch(self) -> None:
        """Look after those who fall silent, and after the time without work."""
        silence = self.limits.worker_silence
        waits = [time for time in (self.limits.no_worker, self.limits.no_worker_ends) if time is not None]
        pause = max(0.01, min(silence / 4, 1.0, *(time / 4 for time in waits)))
        now = perf_counter()
        while True:
            looked = now
            await trio.sleep(pause)
            now = perf_counter()
            # Of the time in which this process was busy, or stopped, what it could not hear is no silence of others.
            seconds = min(now - looked, 2 * pause)
            for link in list(self._post.workers.values()):
                if link.listen(seconds) > silence:
                    link.end(f"nothing was heard of it for {silence:g} s")
                elif link.leave_by is not None:
                    if now > link.leave_by:
                        link.end(f"it wanted to leave, and had not finished after {self.limits.leaving:g} s")
                    self._see_off(link)
            self._door.ask_again(self.scheduler.state, now, lambda: self.feed(AskedAgain()))
            self._tell_stranded(now)
            await self._lessons.refresh()
            await self._lessons.keep()
            idle = self.limits.idle
            if self.scheduler.state.tasks or self._post.clients:
                self._busy = now
            elif idle is not None and now - self._busy > idle:
                log.info("nothing to do for %g s: this is the end", idle)
                self.stop()

    def _tell_stranded(self, now: float) -> None:
        """Tell of tasks that no worker could run, and give up those that have waited as long as they may."""
        told, overdue = self._stranded.look(self.scheduler.state, now)
        for plight in told:
            log.warning("%s", plight.sentence)
            for client in plight.clients:
                link = self._post.clients.get(client)
                if link is not None:
                    link.say(Warned(client, plight.sentence))
        if overdue:
            assert self.limits.no_worker_ends is not None
            self.feed(TasksStranded(overdue, self.limits.no_worker_ends))


def _first(group: BaseExceptionGroup[Any]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
