"""A scheduler that says what a test tells it to, and a worker that holds what it is given, for a client in the loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio

from hetsched.client.asynchronous import AsyncClient
from hetsched.comm.channel import Channel, accept_channel
from hetsched.comm.introduction import introduce
from hetsched.comm.messages import ResultsAsked, ResultsSent
from hetsched.comm.serialize import serialize
from hetsched.comm.transports import Listener, listen
from hetsched.comm.wire import encode, from_client, from_reader

__all__ = ["FakeScheduler", "FakeWorker", "fake_scheduler"]


class FakeScheduler:
    """One client's scheduler: ``hear`` what the client says, ``say`` something to it."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._heard: list[Any] = []

    async def hear(self) -> Any:
        """The next message of the client."""
        while not self._heard:
            messages, _ = await self.channel.receive()
            self._heard += [from_client.decode(message, "c") for message in messages]
        return self._heard.pop(0)

    async def say(self, *messages: Any) -> None:
        """Send messages in one packet."""
        await self.channel.send([encode(message) for message in messages])


class FakeWorker:
    """Answers one request after the other with what ``holds`` has; ``asked`` are the requests."""

    def __init__(self, listener: Listener, holds: dict[int, Any]) -> None:
        self.address = listener.address
        self.holds = holds
        self.asked: list[tuple[int, ...]] = []
        self.gone = False
        self._listener = listener

    async def serve(self) -> None:
        """Serve for ever, one reader after the other."""
        async with trio.open_nursery() as nursery:
            while True:
                stream = await self._listener.accept()
                channel = await accept_channel(stream, introduce("worker", "w"))
                nursery.start_soon(self._answer, channel)

    async def _answer(self, channel: Channel) -> None:
        from hetsched.errors import ConnectionLost

        try:
            while True:
                messages, _ = await channel.receive()
                (asked,) = [from_reader.decode(message, "r") for message in messages]
                self.asked.append(asked.tasks)
                if self.gone:
                    await channel.aclose()
                    return
                await self._send(channel, asked)
        except ConnectionLost:
            return

    async def _send(self, channel: Channel, asked: ResultsAsked) -> None:
        results, frames = [], []
        for task in asked.tasks:
            if task in self.holds:
                header, buffers = serialize(self.holds[task], 5)
                results.append((task, header, len(buffers)))
                frames += buffers
        missing: Sequence[int] = [task for task in asked.tasks if task not in self.holds]
        await channel.send([encode(ResultsSent("", results, (), (), False))], frames)
        await channel.send([encode(ResultsSent("", (), missing, (), True))])


@asynccontextmanager
async def fake_scheduler(
    *holds: dict[int, Any], **limits: int
) -> AsyncIterator[tuple[AsyncClient, FakeScheduler, list[FakeWorker]]]:
    """A client with its scheduler, and a worker for each dict of results."""
    listener = await listen("inproc://scheduler")
    made: list[FakeScheduler] = []

    async def accept() -> None:
        hello = introduce("scheduler", "s")._replace(**limits)
        made.append(FakeScheduler(await accept_channel(await listener.accept(), hello)))

    client = AsyncClient(listener.address)
    async with trio.open_nursery() as nursery:
        workers = [FakeWorker(await listen(f"inproc://worker-{n}"), held) for n, held in enumerate(holds)]
        for worker in workers:
            nursery.start_soon(worker.serve)
        nursery.start_soon(accept)
        async with client:
            while not made:
                await trio.lowlevel.checkpoint()
            yield client, made[0], workers
        await made[0].channel.aclose()
        nursery.cancel_scope.cancel()
    await listener.aclose()
