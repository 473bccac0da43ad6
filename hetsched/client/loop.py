"""The trio loop of a process that its Clients share, in a daemon thread, and the way other threads call into it."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar
from weakref import WeakSet

import trio

from hetsched.worker.current import current_batch

__all__ = ["Loop", "process_loop"]

T = TypeVar("T")

_LOOK_SECONDS = 0.5  # how often a thread that waits looks up
_END_SECONDS = 2.0


class _Job(Generic[T]):
    """A call into the loop, and the thread that waits for it."""

    def __init__(self, call: Callable[..., Awaitable[T]], args: tuple[Any, ...]) -> None:
        self.scope = trio.CancelScope()
        self.value: T | None = None
        self.error: BaseException | None = None
        self._call = call
        self._args = args
        self._over = threading.Lock()
        self._over.acquire()
        self._is_over = False
        self._then: list[Callable[[], None]] = []

    def start(self) -> None:
        trio.lowlevel.spawn_system_task(self._run, name=getattr(self._call, "__qualname__", None))

    async def _run(self) -> None:
        try:
            with self.scope:
                self.value = await self._call(*self._args)
        except trio.Cancelled:
            self.error = RuntimeError("the loop of hetsched's Clients has ended")
            raise
        except BaseException as error:  # it is the waiting thread's
            self.error = error
        finally:
            self._args = ()
            self._is_over = True
            self._over.release()
            for call in self._then:
                call()

    def finished(self) -> bool:
        return self._is_over

    def on_finish(self, call: Callable[[], None]) -> None:
        self._then.append(call)
        if self._is_over:
            call()

    def wait(self) -> None:
        # In turns: a signal that comes just before an endless wait would not be looked at until its end.
        while not self._is_over and not self._over.acquire(timeout=_LOOK_SECONDS):
            pass

    def outcome(self) -> T:
        error, self.error = self.error, None
        if error is None:
            return self.value  # type: ignore[return-value]
        try:
            raise error
        finally:
            del error  # the traceback holds this frame


class Loop:
    """A running trio loop, seen from other threads."""

    def __init__(self, token: trio.lowlevel.TrioToken, ident: int | None, stop: Callable[[], None]) -> None:
        self._token = token
        self._ident = ident
        self._stop = stop
        self.thread: threading.Thread | None = None
        self._forked = False
        _loops.add(self)

    @classmethod
    def here(cls) -> Loop:
        """The loop that this is called in."""
        if _loop is not None and _loop.inside:
            return _loop
        return cls(trio.lowlevel.current_trio_token(), threading.get_ident(), lambda: None)

    @classmethod
    def start(cls) -> Loop:
        """Start one in a daemon thread."""
        made: list[Loop] = []
        started = threading.Event()

        async def main() -> None:
            stop = trio.Event()
            made.append(cls(trio.lowlevel.current_trio_token(), threading.get_ident(), stop.set))
            started.set()
            await stop.wait()

        thread = threading.Thread(target=trio.run, args=(main,), name="hetsched-clients", daemon=True)
        thread.start()
        started.wait()
        loop = made[0]
        loop.thread = thread
        return loop

    @property
    def inside(self) -> bool:
        """Whether this is the loop's own thread."""
        return threading.get_ident() == self._ident

    def soon(self, call: Callable[[], object], once: bool = False) -> None:
        """Have a plain function called in the loop; ``once``: not twice if it is waiting already.

        Safe in finalizers and signal handlers. Raises RuntimeError where the loop is another process's or has ended.
        """
        if self._forked:
            raise RuntimeError(_FORKED)
        try:
            self._token.run_sync_soon(call, idempotent=once)
        except trio.RunFinishedError:
            raise RuntimeError("the loop of hetsched's Clients has ended") from None

    def run(self, call: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run an async function in the loop and wait for it, in any thread but the loop's own.

        Raises what it raises. An exception out of the wait, such as KeyboardInterrupt, cancels it and passes through.
        Within a task the task's slot is given up meanwhile.
        """
        if self.inside:
            raise RuntimeError("this would wait for itself: it was called by code that runs in the Client's own loop")
        job = _Job(call, args)
        try:
            self.soon(job.start)
            batch = current_batch()
            if batch is None or batch.owner is None:
                job.wait()
            else:
                batch.owner.wait(batch, job)
        except BaseException:
            if not self._forked:
                self.soon(job.scope.cancel)
            raise
        return job.outcome()

    def end(self) -> None:
        """Stop it; waits for a moment, so that connections are closed in good order."""
        try:
            self.soon(self._stop)
        except RuntimeError:
            return
        if self.thread is not None:
            self.thread.join(_END_SECONDS)

    def forget(self) -> None:
        """This is a fork's child, which has none of its parent's threads."""
        self._forked = True


_FORKED = (
    "this Client was made before the process was forked, and its connection is the parent's: make a new Client in the "
    "child, or start children by 'spawn' or 'forkserver'"
)

_loops: WeakSet[Loop] = WeakSet()
_loop: Loop | None = None
_lock = threading.Lock()


def process_loop() -> Loop:
    """The loop of this process's Clients, started at the first call."""
    global _loop
    with _lock:
        if _loop is None:
            _loop = Loop.start()
        return _loop


def _end() -> None:
    global _loop
    loop, _loop = _loop, None
    if loop is not None:
        loop.end()


def _forget_after_fork() -> None:
    global _loop, _lock
    for loop in _loops:
        loop.forget()
    _loop = None
    _lock = threading.Lock()


atexit.register(_end)
os.register_at_fork(after_in_child=_forget_after_fork)
