"""Futures: results that stay with the workers until somebody asks for them, and go when nobody can any more."""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import trio

from hetsched.core.types import Key

from .results import Result, Status, Waiting

if TYPE_CHECKING:
    from .session import Session

__all__ = ["AsyncFuture", "BaseFuture", "Future"]


class BaseFuture:
    """The result of a task on a cluster. It can be an argument of other tasks, also within lists, tuples and dicts.

    The result is let go when the last reference to the Future is dropped.
    """

    __slots__ = ("__weakref__", "_result", "_session", "client")

    made: ClassVar[bool] = False
    """Whether there ever was one in this process."""

    def __init__(self, session: Session, result: Result, client: Any) -> None:
        BaseFuture.made = True
        self._result = result
        self._session = session
        self.client = client
        """The Client it belongs to."""

    @property
    def key(self) -> Key:
        """What its task is called."""
        return self._result.key

    @property
    def status(self) -> Status:
        """"pending", "finished", "error", "cancelled", or "lost": its scheduler, or all who held it, are gone."""
        return self._result.status

    def done(self) -> bool:
        """Tell whether it is not pending any more."""
        return self._result.status != "pending"

    def cancelled(self) -> bool:
        """Tell whether it was cancelled, or released."""
        return self._result.status == "cancelled"

    def cancel(self) -> None:
        """Give it up: its task is not run, or asked to stop, unless others need it. Safe in any thread."""
        self._session.give_up([self._result])

    def release(self) -> None:
        """Let the result go now; the Future is of no use afterwards. Safe in any thread."""
        self._session.release(self._result)

    def add_done_callback(self, call: Callable[[Any], object]) -> None:
        """Have ``call(future)`` called in a thread when this is done. Safe in any thread."""
        session, result = self._session, self._result
        called: list[bool] = []

        def watch(_: Result) -> None:
            if not called:
                called.append(True)
                session.call_in_thread(call, self)

        def begin() -> None:
            if result.status == "pending":
                result.watchers.append(watch)
            else:
                watch(result)

        session.loop.soon(begin)

    def __del__(self) -> None:
        # What was made only in part, by an interrupt say, has no session.
        session = getattr(self, "_session", None)
        if session is not None:
            session.release(self._result)

    def __copy__(self) -> BaseFuture:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> BaseFuture:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"the Future {self.key!r} cannot be pickled: give it to tasks of its own Client as an argument, or within "
            "a list, tuple, set or dict (its values); elsewhere send its result()"
        )

    def __dask_tokenize__(self) -> object:
        return type(self).__name__, id(self._session), id(self._result)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.key!r}: {self.status}>"


async def fetch(session: Session, result: Result, timeout: float | None) -> Any:  # noqa: ASYNC109
    """The value of a result. Raises its error, or TimeoutError. Safe to cancel."""
    with trio.move_on_after(_seconds(timeout)):
        return (await session.gather([result]))[result]
    raise TimeoutError(f"the result of {result.key!r} was not there within {timeout:g} s")


async def settle(result: Result, timeout: float | None) -> Result:  # noqa: ASYNC109
    """Wait until something has become of a result. Raises TimeoutError. Safe to cancel."""
    with trio.move_on_after(_seconds(timeout)):
        await Waiting([result]).wait()
        return result
    raise TimeoutError(f"the task {result.key!r} was not done within {timeout:g} s")


def _seconds(timeout: float | None) -> float:
    return float("inf") if timeout is None else timeout


def _error(result: Result) -> BaseException | None:
    return None if result.status == "finished" else result.raised()


class Future(BaseFuture):
    """A result on a cluster, for threads. See :class:`hetsched.Client`.

    It can be an argument of other tasks of its Client, also within lists, tuples and dicts. The result is let go when
    the last reference to the Future is dropped.
    """

    __slots__ = ()

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the value, ``timeout`` seconds at most, and fetch it: anew each time, it is not kept here.

        Raises what the task raised, TaskCancelled, ConnectionLost, or TimeoutError, after which it can be tried again.
        """
        return self._session.loop.run(fetch, self._session, self._result, timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait until it is done, and return what the task raised, or why else there is no value; None if there is one.

        Raises TimeoutError.
        """
        return _error(self._session.loop.run(settle, self._result, timeout))

    def traceback(self, timeout: float | None = None) -> TracebackType | None:
        """Like :meth:`exception`, for the traceback of the task's exception."""
        error = self.exception(timeout)
        return None if error is None else error.__traceback__


class AsyncFuture(BaseFuture):
    """A result on a cluster, for trio; ``await future`` is ``await future.result()``."""

    __slots__ = ()

    async def result(self, timeout: float | None = None) -> Any:  # noqa: ASYNC109
        """See :meth:`Future.result`. Safe to cancel."""
        return await fetch(self._session, self._result, timeout)

    async def exception(self, timeout: float | None = None) -> BaseException | None:  # noqa: ASYNC109
        """See :meth:`Future.exception`. Safe to cancel."""
        return _error(await settle(self._result, timeout))

    async def traceback(self, timeout: float | None = None) -> TracebackType | None:  # noqa: ASYNC109
        """See :meth:`Future.traceback`. Safe to cancel."""
        error = await self.exception(timeout)
        return None if error is None else error.__traceback__

    def __await__(self) -> Generator[Any, None, Any]:
        return self.result().__await__()
