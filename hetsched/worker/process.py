"""A worker of a cluster: an engine, a store, and the connections that feed them."""

from __future__ import annotations

import logging
import os
import platform
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import psutil
import trio

from hetsched.comm.channel import Channel, open_channel
from hetsched.comm.handshake import Hello
from hetsched.comm.messages import (
    BeatHeard,
    Closed,
    HeartBeat,
    Orders,
    PayloadsDropped,
    PeerLost,
    WorkerLeaving,
    WorkerOffered,
    WorkerWelcomed,
)
from hetsched.comm.remote_errors import dump_error, load_error
from hetsched.comm.silence import wait_for_silence
from hetsched.comm.transports import listen
from hetsched.comm.wire import encode, to_worker
from hetsched.core.commands import CancelTasks, FetchKeys, FreeKeys, MoveTasks
from hetsched.core.events import TasksFailed
from hetsched.core.types import Capacity, TaskId
from hetsched.errors import ConnectionLost, ProtocolError, Rejected, RemoteError
from hetsched.gpu.objects import device_number

from .device_memory import DeviceLimit
from .engine import Engine
from .instructions import KeysFetched
from .peers import Holder, Peers, Secrets
from .running import Failure
from .shipped import Shelf
from .sizes import Measure
from .standing import Standing
from .store import Store
from .thresholds import MemoryState, Thresholds, assess, excess
from .transfers import Transfers

__all__ = ["Offer", "OutOfMemory", "WorkerProcess"]

log = logging.getLogger("hetsched.worker")

BEAT_SECONDS = 1.0
"""How often a worker says that it is alive, and looks at its memory."""


PACKET_BYTES = 32 * 2**20
"""Errors leave in packets of about so many bytes."""

MOST_FETCHES = 8
"""How many peers a worker takes results from at a time: each answer under way has up to some 64 MB in flight."""


class Offer(NamedTuple):
    """What a worker is to be: its name, what it can do, where it listens, the memory it may use (bytes, 0: any).

    ``beat`` is how often (in seconds) it says that it is alive, and looks at its memory.
    """

    name: str
    capacity: Capacity
    listen: str = "tcp://127.0.0.1:0"
    memory_limit: int = 0
    local_directory: str | None = None
    devices: int = 0
    thresholds: Thresholds = Thresholds()
    beat: float = BEAT_SECONDS
    device_memory_limit: str | float | None = None
    """Of results on devices, see :class:`DeviceLimit`."""
    scheduler_silence: float | None = None
    """A scheduler that was not heard for so long (seconds) is taken for lost; None: never."""


class OutOfMemory(Exception):
    """The process has used up its memory and is to be started anew."""


class _Results(Store):
    """A store that also keeps, in the place of results that could not be loaded here, why."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.unfit: dict[TaskId, BaseException] = {}

    def _fetch(self, key: TaskId) -> Any:
        error = self.unfit.get(key)
        if error is None:
            return super()._fetch(key)
        if isinstance(error, Exception) and not isinstance(error, KeyError):
            raise error
        # A KeyError would say that the result is not here and may be had anew.
        name = type(error).__qualname__
        raise RemoteError(f"{name}: {error}", type_name=name, message=str(error), remote_traceback="") from error

    def drop(self, keys: Iterable[TaskId]) -> list[Any]:
        """Let results go."""
        if self.unfit:
            keys = list(keys)
            for key in keys:
                self.unfit.pop(key, None)
        return super().drop(keys)


class WorkerProcess:
    """One life with one scheduler. ``measure`` sizes host objects."""

    def __init__(
        self, offer: Offer, hello: Hello, secrets: Secrets, sizeof: Callable[[Any], int] | None = None
    ) -> None:
        self.offer = offer
        self._hello = hello
        self._secrets = secrets
        self._measure = Measure(sizeof) if sizeof is not None else Measure()
        limit, target = offer.memory_limit, offer.thresholds.target
        most = int(limit * target) if limit and target is not None else None
        self._device_limit = DeviceLimit(offer.device_memory_limit, offer.devices)
        device_most = self._device_limit.target
        self._store = _Results(
            most, offer.local_directory, device_target=device_most, device_targets=self._device_limit.each,
            locate=device_number if offer.devices > 1 else None, say=log.warning,
        )  # fmt: skip
        self._transfers = Transfers(offer.name, self._say)
        # Only between pools are links told apart.
        self._peers = Peers(hello, secrets, None if offer.capacity.pool is None else self._transfers.note)
        self._fetching = trio.CapacityLimiter(MOST_FETCHES)
        self._asked: dict[str, trio.CancelScope] = {}
        """What ends the waiting for a peer that was asked for results."""
        self._making_room = False
        self._shelf = Shelf()
        self._outbox: deque[Any] = deque()
        self._memory: MemoryState = "running"
        self._standing = Standing(offer.name, offer.capacity, self._outbox.append)
        self._process = psutil.Process()
        self._leaving: str | None = None
        self._why = ""

    async def run(self, address: str, *, started: Callable[[str], None] | None = None) -> str:
        """Serve a scheduler until it, or :meth:`leave`, ends this; returns why.

        ``started`` is called with the address for peers when the scheduler has taken this worker in.

        Raises Rejected where it does not take this worker, ConnectionLost or TimeoutError where it cannot be reached,
        OSError where this cannot listen, and OutOfMemory. Cancelled, everything is closed and tasks that run are left
        to themselves.
        """
        tls = self._secrets.server_tls if self.offer.listen.startswith("tls:") else None
        listener = await listen(self.offer.listen, tls)
        try:
            channel = await open_channel(address, self._hello, self._secrets.token, self._secrets.tls_for(address))
        except BaseException:
            with trio.CancelScope(shield=True):
                await listener.aclose()
            raise
        self._token = trio.lowlevel.current_trio_token()
        self._wake = trio.Event()
        capacity = self.offer.capacity
        engine = self._engine = Engine(
            self.offer.name, capacity.executors, capacity.resources, self._measure, self._outbox.append, self._after,
            self.offer.devices, self._store, self._fetch, self._note, capacity.pool, self._standing.take,
        )  # fmt: skip
        facts = {"host": platform.node(), "pid": os.getpid(), "memory_limit": self.offer.memory_limit}
        self._outbox.append(WorkerOffered(self.offer.name, capacity, listener.address, facts))
        self._wake.set()
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                holder = Holder(self._store, self._hello, self._secrets.token)
                nursery.start_soon(holder.serve, listener, nursery)
                nursery.start_soon(self._write, channel)
                nursery.start_soon(self._beat)
                nursery.start_soon(self._standing.watch, engine.look)
                if self.offer.scheduler_silence:
                    nursery.start_soon(self._watch, channel, self.offer.scheduler_silence)
                await self._read(channel, partial(started, listener.address) if started is not None else None)
                nursery.cancel_scope.cancel()
        except* (ConnectionLost, OSError, ProtocolError) as group:
            self._why = self._why or str(_first(group))
        except* (OutOfMemory, Rejected) as group:
            raise _first(group) from None
        finally:
            engine.close()
            with trio.CancelScope(shield=True):
                with trio.move_on_after(2):
                    await self._peers.aclose()
                    await channel.aclose()
                    await listener.aclose()
            self._store.close()
        return self._why

    def leave(self, why: str) -> None:
        """Ask the scheduler for no more tasks, and to be let go when those there are have ended."""
        if self._leaving is None:
            self._leaving = why
            self._standing.leave()
            self._say(WorkerLeaving(self.offer.name, why))

    # From the scheduler

    async def _read(self, channel: Channel, started: Callable[[], None] | None) -> None:
        while True:
            messages, frames = await channel.receive()
            left = iter(frames)
            for said in messages:
                message = to_worker.decode(said, self.offer.name)
                match message:
                    case WorkerWelcomed():
                        if started is not None:
                            started()
                    case PeerLost(_, address):
                        await self._give_up(address)
                    case Closed(_, why, final):
                        if final:
                            raise Rejected(why)
                        self._why = why
                        return
                    case BeatHeard():
                        pass
                    case _:
                        self._obey(message, left)
            self._after()
            await trio.lowlevel.checkpoint()

    def _obey(self, message: Any, frames: Iterator[Any]) -> None:
        """Carry out an order; what is dropped for it goes at the end, where no lock is held."""
        garbage: list[Any] = []
        match message:
            case Orders():
                garbage = self._engine.order(self._shelf.unpack(message, frames))
            case CancelTasks() | FreeKeys() | FetchKeys() | MoveTasks():
                garbage = self._engine.order(message)
                if isinstance(message, CancelTasks):
                    self._standing.cancelled()
            case PayloadsDropped():
                self._shelf.drop(message)
            case _:
                raise AssertionError(f"{message!r:.80} is no order")
        del garbage

    # To the scheduler

    def _say(self, message: Any) -> None:
        self._outbox.append(message)
        self._wake.set()

    def _after(self) -> None:
        """Called in any thread, without the engine's lock: see to it that what is in the outbox leaves."""
        if self._outbox:
            try:
                self._token.run_sync_soon(self._stir, idempotent=True)
            except trio.RunFinishedError:
                return

    def _stir(self) -> None:
        self._wake.set()

    async def _write(self, channel: Channel) -> None:
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            messages: list[Any] = []
            size = 0
            while self._outbox:
                message = self._outbox.popleft()
                for part in self._packed(message, channel) if isinstance(message, TasksFailed) else (message,):
                    messages.append(encode(part))
                    size += len(part.failures[0][2][1]) if isinstance(part, TasksFailed) else 0
                    if size > PACKET_BYTES:
                        await channel.send(messages)
                        messages, size = [], 0
            if messages:
                await channel.send(messages)

    def _packed(self, message: TasksFailed, channel: Channel) -> Iterator[TasksFailed]:
        """Each failure by itself, its error packed: errors may be large."""
        for task, attempt, failure, may_retry in message.failures:
            assert isinstance(failure, Failure)
            packed = dump_error(failure.error, channel.terms.pickle)
            error = ("raised", packed, failure.executor, failure.thread)
            yield message._replace(failures=[(task, attempt, error, may_retry)])

    async def _beat(self) -> None:
        while True:
            await trio.sleep(self.offer.beat)
            self._say(HeartBeat(self.offer.name, self._facts()))
            self._transfers.tell(perf_counter())

    async def _watch(self, channel: Channel, limit: float) -> None:
        await wait_for_silence(channel, limit, lambda: self._say(HeartBeat(self.offer.name, {}, asks=True)))
        raise ConnectionLost(f"nothing was heard of the scheduler for {limit:g} s (comm.scheduler-silence)")

    def _facts(self) -> Mapping[str, Any]:
        """Look at the memory, do something about it, and say how things are."""
        stats = self._store.stats()
        rss = self._process.memory_info().rss
        limit = self.offer.memory_limit
        if limit:
            over = excess(rss, limit, self.offer.thresholds)
            if over > 0 and not self._making_room:
                self._making_room = True
                self._nursery.start_soon(self._make_room, max(0, stats.nbytes - over))
            state = assess(rss, limit, self._memory, self.offer.thresholds)
            if state == "terminate":
                raise OutOfMemory(f"{rss} bytes of memory are in use, of {limit} allowed")
            if state != self._memory:
                self._memory = state
                log.warning("%s: %d bytes of memory are in use, of %d allowed", state, rss, limit)
                self._standing.pause(state == "paused")
                self._wake.set()
        fetched = self._peers.fetched
        return {"rss": rss, "state": self._memory, **stats._asdict(), "fetched": fetched, "time": perf_counter()}

    async def _make_room(self, target: int) -> None:
        try:
            await trio.to_thread.run_sync(self._store.make_room, target)
        finally:
            self._making_room = False

    # Results

    def _note(self, outcomes: Sequence[Any]) -> None:
        self._note_sizes((task, nbytes, cuda) for task, _, _, _, nbytes, cuda in outcomes)

    def _note_sizes(self, sizes: Iterable[tuple[TaskId, int, int]]) -> None:
        """Have those results counted that a limit holds for; what is beyond it leaves, in the caller's thread."""
        store, limit = self._store, self._device_limit
        if limit.waits:
            sizes = list(sizes)
            if any(cuda for _, _, cuda in sizes):
                limit.learn()
                store.device_target, store.device_targets = limit.target, limit.each
        if store.target is not None:
            store.note_many(sizes)
        elif limit.target is not None:
            on_device = [size for size in sizes if size[2]]
            if on_device:
                store.note_many(on_device)

    def _fetch(self, peer: str, tasks: Sequence[TaskId]) -> None:
        """Called under the engine's lock, in any thread."""
        try:
            self._token.run_sync_soon(partial(self._nursery.start_soon, self._get, peer, tasks))
        except trio.RunFinishedError:
            return

    async def _give_up(self, peer: str) -> None:
        """A peer is lost: wait for it no longer, though its connections may look alive if it is frozen."""
        scope = self._asked.get(peer)
        if scope is not None:
            scope.cancel()
        await self._peers.forget(peer)

    async def _get(self, peer: str, tasks: Sequence[TaskId]) -> None:
        came: list[TaskId] = []
        sizes: list[tuple[TaskId, int, int]] = []

        def keep(task: TaskId, value: Any) -> None:
            self._store[task] = value
            came.append(task)
            sizes.append((task, *self._measure(value)))

        missing: Sequence[TaskId] = ()
        unfit: Sequence[tuple[TaskId, bytes | BaseException]] = ()
        with trio.CancelScope() as scope:
            self._asked[peer] = scope
            async with self._fetching:
                missing, unfit = await self._peers.fetch(peer, tasks, keep)
        del self._asked[peer]
        self._transfers.tell(perf_counter())
        if scope.cancelled_caught:
            missing = [task for task in tasks if task not in came]
        if sizes and (self._store.target is not None or any(cuda for _, _, cuda in sizes)):
            await trio.to_thread.run_sync(self._note_sizes, sizes)
        for task, error in unfit:
            # Its readers fail with this error: they could do nothing with what cannot be loaded, here or anywhere.
            self._store.unfit[task] = load_error(error) if isinstance(error, bytes) else error
            came.append(task)
        garbage = self._engine.fetched(KeysFetched(peer, came, missing))
        del garbage
        self._after()


def _first(group: BaseExceptionGroup[Any]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
