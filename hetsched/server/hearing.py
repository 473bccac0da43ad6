"""What workers and clients say: decoded, answered, or told to the scheduler."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

import trio

from hetsched.comm.messages import (
    Answered,
    Asked,
    GraphPart,
    HeartBeat,
    WorkerLeaving,
    WorkerOffered,
    WorkerWelcomed,
)
from hetsched.comm.wire import from_client, from_worker
from hetsched.core.events import AskedAgain, ReplicasAdded, WorkerJoined, WorkerRetiring
from hetsched.core.retiring import may_leave
from hetsched.core.state import State
from hetsched.errors import ProtocolError

from .feeding import Feeder
from .lessons import Lessons
from .links import ClientLink, Link, WorkerLink
from .pickles import limit_clients
from .plugins import Door
from .questions import answer

__all__ = ["Ear", "see_off"]

log = logging.getLogger("hetsched.scheduler")


def see_off(state: State, link: WorkerLink) -> None:
    """Let a worker go that wants to, once it has nothing left to do and others have what it holds."""
    ws = state.workers.get(link.name)
    if ws is None or may_leave(state, ws):
        link.end("it has left")


class Ear:
    """Hears workers and clients. ``facts`` says what is known of the server itself; ``leaving`` as in Limits."""

    def __init__(
        self, feeder: Feeder, door: Door, lessons: Lessons, facts: Callable[[], Mapping[str, Any]], leaving: float
    ) -> None:
        self._feeder = feeder
        self._state = feeder.scheduler.state
        self._post = feeder.post
        self._door = door
        self._lessons = lessons
        self._facts = facts
        self._leaving = leaving

    async def listen(self, link: WorkerLink | ClientLink) -> None:
        """Hear a peer until its connection ends.

        Raises ConnectionLost and OSError then, and ProtocolError, OversizeError or AnnotationError where the peer said
        what it must not. Cancelled, no message is half heard.
        """
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
        feed = self._feeder.feed
        match message:
            case HeartBeat():
                link.beat(message)
            case WorkerOffered():
                link.offered(message)
                self._post.where[link.name] = link.address
                link.say(WorkerWelcomed(link.name))
                limit_clients(self._post.clients.values(), [link])
                feed(WorkerJoined(link.name, message.capacity))
            case WorkerLeaving():
                link.leave_by = perf_counter() + self._leaving
                log.info("worker %s wants to leave: %s", link.name, message.why)
                feed(WorkerRetiring(link.name))
                see_off(self._state, link)
            case _:
                if not link.joined:
                    raise ProtocolError(f"{link.name} has not offered itself")
                feed(message)
                if link.leave_by is not None:
                    see_off(self._state, link)
                if isinstance(message, ReplicasAdded):
                    for other in list(self._post.workers.values()):
                        if other.leave_by is not None:
                            see_off(self._state, other)

    def _hear_client(self, link: ClientLink, said: tuple[Any, ...], frames: Any) -> None:
        message = from_client.decode(said, link.name)
        depot = self._feeder.depot
        match message:
            case GraphPart():
                graph = self._state.graphs.get((link.name, message.graph))
                if graph is not None and message.first != len(graph.tasks):
                    raise ProtocolError(f"the tasks from {message.first} on came after {len(graph.tasks)}")
                if graph is not None or not message.first:
                    if message.makers:
                        message = message._replace(makers=self._lessons.recall(message.makers))
                    self._feeder.feed(depot.take(message, frames))
                else:
                    depot.take(message, frames)  # it was refused or given up meanwhile
            case Asked(_, number, question, about):
                self._answer(link, number, question, about)
            case _:
                self._feeder.feed(message)

    def _answer(self, link: ClientLink, number: int, question: str, about: Any) -> None:
        links: list[Link] = [*self._post.workers.values(), *self._post.clients.values()]
        facts = self._facts() if question == "info" else {}
        try:
            if question == "register_plugin":
                found = self._door.register(link.name, about)
                self._feeder.feed(AskedAgain())
            else:
                found = answer(question, about, link.name, self._state, links, facts)
        except ProtocolError as error:
            link.say(Answered(link.name, number, None, str(error)))
        else:
            link.say(Answered(link.name, number, found, None))
