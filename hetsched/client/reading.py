"""Get results from the workers that hold them: several workers at once, many results in one request."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import trio

from hetsched.comm.channel import Channel
from hetsched.comm.remote_errors import load_error
from hetsched.comm.to_host import BROUGHT
from hetsched.core.types import TaskId
from hetsched.errors import ConnectionLost, HetschedError
from hetsched.worker.peers import take_results

from .results import Result

__all__ = ["MOST_ASKED", "MOST_CHANNELS", "MOST_TRIES", "Gathering", "Readers"]

MOST_ASKED = 4000
"""So many results are asked for in one request."""

MOST_CHANNELS = 3
"""So many connections to one worker, so that a large result does not hold up small ones."""

MOST_TRIES = 5
"""So often a result is made again because nobody who is said to hold it can be reached."""


class Gathering:
    """Waits for results and has them fetched as they are made. ``skips``: those that fail are left out."""

    def __init__(self, results: Iterable[Result], readers: Readers, skips: bool = False) -> None:
        self.values: dict[Result, Any] = {}
        self.over = False
        self._results = dict.fromkeys(results)
        self._readers = readers
        self._skips = skips
        self._left = dict.fromkeys(self._results)
        self._done = trio.Event()
        self._error: Callable[[], BaseException] | None = None
        self._asked: set[Result] = set()

    async def wait(self) -> dict[Result, Any]:
        """The values. Raises the error of the first that fails. Safe to cancel: nothing is lost."""
        for result in self._results:
            result.watchers.append(self._changed)
        try:
            for result in self._results:
                if result.status != "pending":
                    self._changed(result)
            if self._left and self._error is None:
                await self._done.wait()
            else:
                await trio.lowlevel.checkpoint()
        finally:
            self.over = True
            for result in self._results:
                result.watchers.remove(self._changed)
        if self._error is not None:
            raise self._error()
        return self.values

    def _changed(self, result: Result) -> None:
        if result not in self._left:
            return
        if result.status == "finished":
            if result not in self._asked:
                self._asked.add(result)
                self._readers.want(result, self)
        elif result.status != "pending":
            self._failed(result, result.raised)

    def _failed(self, result: Result, error: Callable[[], BaseException]) -> None:
        if result in self._left:
            del self._left[result]
            if not self._skips:
                self._error = self._error or error
            if self._error is not None or not self._left:
                self._done.set()

    def got(self, result: Result, value: Any) -> None:
        """A value came."""
        if result in self._left:
            self.values[result] = value
            del self._left[result]
            if not self._left:
                self._done.set()

    def cannot(self, result: Result, error: BaseException) -> None:
        """It is there, and cannot be had."""
        self._failed(result, lambda: error)

    def ask_again(self, result: Result) -> None:
        """It was not where it was said to be."""
        self._asked.discard(result)
        if not self.over and result.status == "finished":
            self._changed(result)


class Readers:
    """Fetches from all workers. ``connect`` opens a channel; ``missing`` has lost results made again.

    ``brought`` is told, in any thread, what types a worker had to bring to the host from a device.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        connect: Callable[[str], Awaitable[Channel]],
        missing: Callable[[list[Result]], None],
        brought: Callable[[str, Sequence[str]], None],
    ) -> None:
        self._nursery = nursery
        self._connect = connect
        self._missing = missing
        self._brought = brought
        self._sources: dict[str, _Source] = {}

    def want(self, result: Result, gathering: Gathering) -> None:
        """Fetch a result that is finished."""
        if not result.holders:
            self._lose([result], "nobody is said to hold it")
            return
        sources = [self._source(address) for address in result.holders]
        source = min(sources, key=lambda source: len(source.queue))
        source.queue.append((result, gathering))
        source.stir(self._nursery)

    def lost(self, address: str) -> None:
        """A worker is lost: wait for it no longer, though its connections may look alive if it is frozen."""
        source = self._sources.pop(address, None)
        if source is not None:
            source.give_up()

    def _source(self, address: str) -> _Source:
        source = self._sources.get(address)
        if source is None:
            source = self._sources[address] = _Source(
                address, self._connect, self._not_here, partial(self._brought, address)
            )
        return source

    def _not_here(self, address: str, wanted: list[tuple[Result, Gathering]], why: str) -> None:
        """These could not be had from a worker: try the next one that holds them, or have them made again."""
        lost: dict[Result, None] = {}
        for result, _ in wanted:
            if result.status == "finished" and address in result.holders:
                result.holders = [other for other in result.holders if other != address]
                if not result.holders:
                    lost[result] = None
        self._lose(list(lost), why)
        for result, gathering in wanted:
            gathering.ask_again(result)

    def _lose(self, results: list[Result], why: str) -> None:
        again = []
        for result in results:
            result.tries += 1
            if result.tries > MOST_TRIES:
                result.fail(ConnectionLost(f"the result of {result.key!r} cannot be fetched: {why}"), "lost")
            else:
                result.again()
                again.append(result)
        if again:
            self._missing(again)


class _Source:
    """One worker, and what is wanted of it."""

    def __init__(
        self,
        address: str,
        connect: Callable[[str], Awaitable[Channel]],
        missed: Callable[[str, list[tuple[Result, Gathering]], str], None],
        brought: Callable[[Sequence[str]], None],
    ) -> None:
        self.address = address
        self.queue: deque[tuple[Result, Gathering]] = deque()
        self._connect = connect
        self._missed = missed
        self._brought = brought
        self._readers = 0
        self._idle = 0
        self._wake = trio.Event()
        self._waits: set[trio.CancelScope] = set()
        """What ends the waiting for it."""
        self._lost = False

    def give_up(self) -> None:
        """Have no more to do with it; what is wanted of it is to be had elsewhere."""
        self._lost = True
        for scope in self._waits:
            scope.cancel()
        self._wake.set()

    def stir(self, nursery: trio.Nursery) -> None:
        """See to it that somebody reads what was put into the queue."""
        self._wake.set()
        if not self._idle and self._readers < MOST_CHANNELS:
            self._readers += 1
            self._idle += 1  # until it has begun
            nursery.start_soon(self._read)

    async def _read(self) -> None:
        channel: Channel | None = None
        BROUGHT.set(self._brought)  # for this task, and the threads that it has values made in
        began = False
        try:
            while True:
                if began:
                    self._idle += 1
                began = True
                while not self.queue:
                    if self._lost:
                        return
                    self._wake = trio.Event()
                    await self._wake.wait()
                self._idle -= 1
                channel = await self._serve(channel, self._take())
        finally:
            await _close(channel)

    def _take(self) -> dict[TaskId, list[tuple[Result, Gathering]]]:
        taken: dict[TaskId, list[tuple[Result, Gathering]]] = {}
        while self.queue and len(taken) < MOST_ASKED:
            result, gathering = self.queue.popleft()
            if not gathering.over and result.status == "finished":
                taken.setdefault(result.task, []).append((result, gathering))
        return taken

    async def _serve(
        self, channel: Channel | None, wanted: dict[TaskId, list[tuple[Result, Gathering]]]
    ) -> Channel | None:
        """Ask for results and hand them out; returns the channel, None where it is lost."""
        if not wanted:
            return channel

        def keep(task: TaskId, value: Any) -> None:
            for result, gathering in wanted.pop(task, ()):
                gathering.got(result, value)

        fresh = channel is None
        missing: list[TaskId] = []
        unfit: list[tuple[TaskId, bytes | BaseException]] = []
        scope = trio.CancelScope()
        self._waits.add(scope)
        try:
            with scope:
                if self._lost:
                    scope.cancel()
                if channel is None:
                    channel = await self._connect(self.address)
                missing, unfit = await take_results(channel, list(wanted), keep)
        except (HetschedError, OSError, ValueError) as error:
            await _close(channel)
            if fresh or not isinstance(error, ConnectionLost):
                self._missed(self.address, [pair for pairs in wanted.values() for pair in pairs], str(error))
                return None
            return await self._serve(None, wanted)  # it had closed an idle connection
        except BaseException:
            await _close(channel)
            raise
        finally:
            self._waits.discard(scope)
        self._cannot(unfit, wanted)
        gone = [pair for task in missing for pair in wanted.pop(task, ())]
        left = [pair for pairs in wanted.values() for pair in pairs]
        self._missed(self.address, gone + left, f"{self.address} does not have it")
        if scope.cancelled_caught:
            await _close(channel)
            return None
        return channel

    def _cannot(
        self,
        unfit: list[tuple[TaskId, bytes | BaseException]],
        wanted: dict[TaskId, list[tuple[Result, Gathering]]],
    ) -> None:
        """These are there and cannot be had: strike them off what is wanted."""
        for task, bad in unfit:
            for result, gathering in wanted.pop(task, ()):
                raised = load_error(bad) if isinstance(bad, bytes) else bad
                raised.add_note(f"raised while the result of {result.key!r} was brought here from {self.address}")
                gathering.cannot(result, raised)


async def _close(channel: Channel | None) -> None:
    if channel is not None:
        with trio.move_on_after(1, shield=True), suppress(HetschedError, OSError):
            await channel.aclose()
