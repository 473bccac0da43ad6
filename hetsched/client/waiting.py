"""Futures in the order in which they are done, and waiting for many of them; for threads and for trio."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any

import trio

from .calls import DoneAndNotDone, ReturnWhen
from .calls import wait as wait_for
from .futures import BaseFuture
from .results import Result
from .session import Session

__all__ = ["AsCompleted", "as_completed", "wait"]


class AsCompleted:
    """Iterates over Futures as they are done; also ``async for``. See :func:`as_completed`."""

    def __init__(self, futures: Iterable[BaseFuture], with_results: bool = False) -> None:
        self._with_results = with_results
        self._new: deque[BaseFuture] = deque()
        self._waiting: dict[Result, list[BaseFuture]] = {}
        self._done: deque[Result] = deque()
        self._left = 0
        self._ready: deque[Any] = deque()
        self._wake = trio.Event()
        for future in futures:
            self.add(future)

    def add(self, future: BaseFuture) -> None:
        """Have one more Future come."""
        self._left += 1
        self._new.append(future)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        session = self._session()
        if session is None:
            raise StopIteration
        if not self._ready:
            session.loop.run(self._more, session)
        self._left -= 1
        return self._ready.popleft()

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        session = self._session()
        if session is None:
            raise StopAsyncIteration
        if not self._ready:
            await self._more(session)
        self._left -= 1
        return self._ready.popleft()

    def _session(self) -> Session | None:
        if not self._left:
            return None
        if self._ready:
            first = self._ready[0]
            future: BaseFuture = first[0] if self._with_results else first
        elif self._new:
            future = self._new[0]
        else:
            future = next(iter(self._waiting.values()))[0]
        return future._session  # noqa: SLF001 - of this room

    async def _more(self, session: Session) -> None:
        """Wait until there is one, and take all there are."""
        await trio.lowlevel.checkpoint()  # who adds what is done already must let others have their turn
        while self._new:
            future = self._new.popleft()
            result = future._result  # noqa: SLF001 - of this room
            fresh = result not in self._waiting
            self._waiting.setdefault(result, []).append(future)
            if fresh and result.status == "pending":
                result.watchers.append(self._settled)
            elif fresh:
                self._done.append(result)
        while not self._done:
            self._wake = trio.Event()
            await self._wake.wait()
        done = []
        while self._done:
            result = self._done.popleft()
            if self._settled in result.watchers:
                result.watchers.remove(self._settled)
            done += [(future, result) for future in self._waiting.pop(result, ())]
        if not self._with_results:
            self._ready.extend(future for future, _ in done)
            return
        values = await session.gather([result for _, result in done], skips=True)
        for future, result in done:
            value = values[result] if result in values else result.raised()
            self._ready.append((future, value))

    def _settled(self, result: Result) -> None:
        self._done.append(result)
        self._wake.set()


def as_completed(futures: Iterable[BaseFuture], *, with_results: bool = False) -> AsCompleted:
    """Give Futures in the order in which they are done, failed ones too; more may be added to what this returns.

    ``with_results`` gives pairs of a Future and its value, or the exception instead of one that cannot be had.
    """
    return AsCompleted(futures, with_results)


def wait(
    futures: Sequence[BaseFuture], timeout: float | None = None, return_when: ReturnWhen = "ALL_COMPLETED"
) -> DoneAndNotDone:
    """Wait until all Futures are done (or one is, or one has failed): the sets of those that are, and are not.

    Raises TimeoutError after ``timeout`` seconds.
    """
    futures = list(futures)
    if not futures:
        return DoneAndNotDone(set(), set())
    done: DoneAndNotDone = futures[0]._session.loop.run(wait_for, futures, timeout, return_when)  # noqa: SLF001
    return done
