"""Wall-clock limits for tests: a plugin that ``conftest.py`` loads.

- An async test has 20 seconds, or what ``@pytest.mark.limit(seconds)`` says. Then a timer thread asks the test's loop
  to write its tree of tasks to standard error and to cancel the test, which fails with :class:`TookTooLong`. (A limit
  by signal, as pytest-timeout sets it, leaves trio in pieces: the next test hears "Attempted to call run() from inside
  a run()".) The limit is of real time: a mock clock does not move it.
- Every test has a hard limit: 120 seconds, or the marker's; for an async test the marker's and a minute, if that is
  more. Then the tracebacks of all threads are written, the test's name last, and the process ends: no other way out of
  a test that blocks its loop, or waits in C, is safe.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import trio

__all__ = ["TookTooLong", "limit_async", "task_tree"]

ASYNC_LIMIT = 20.0
HARD_LIMIT = 120.0
GRACE = 60.0

_stderr = pytest.StashKey[int]()


class TookTooLong(AssertionError):
    """An async test was cancelled by its wall-clock limit."""


def task_tree() -> str:
    """Every trio task of the running loop, children below their parents, each with the lines it waits at."""
    root = trio.lowlevel.current_root_task()
    return "" if root is None else "\n".join(_describe(root, ""))


def _describe(task: trio.lowlevel.Task, indent: str) -> Iterator[str]:
    yield f"{indent}{task.name}"
    for frame, line in task.iter_await_frames():
        code = frame.f_code
        yield f"{indent}  | {code.co_filename}:{line} in {code.co_qualname}"
    for nursery in task.child_nurseries:
        for child in sorted(nursery.child_tasks, key=lambda t: t.name):
            yield from _describe(child, indent + "    ")


def limit_async(
    test: Callable[..., Awaitable[Any]], seconds: float, name: str, say: Callable[[str], object]
) -> Callable[..., Awaitable[Any]]:
    """The same async test under a limit. The tree of tasks goes to ``say`` when the limit strikes."""

    @functools.wraps(test)
    async def limited(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        token = trio.lowlevel.current_trio_token()
        struck = False

        def strike() -> None:  # in the loop's thread
            nonlocal struck
            if not over:
                struck = True
                say(f"\n{name} took longer than {seconds:g} s; its tasks:\n{task_tree()}\n")
                scope.cancel()

        def ring() -> None:  # in the timer's thread
            with contextlib.suppress(trio.RunFinishedError):
                token.run_sync_soon(strike)

        over = False
        timer = threading.Timer(seconds, ring)
        timer.daemon = True
        timer.start()
        error: BaseException | None = None
        result = None
        try:
            with trio.CancelScope() as scope:
                result = await test(*args, **kwargs)
        except BaseException as exc:
            if not struck:
                raise
            error = exc
        finally:
            over = True
            timer.cancel()
        if struck:
            raise TookTooLong(f"{name} took longer than {seconds:g} s") from error
        return result

    return limited


def _marked(item: pytest.Item) -> float | None:
    marker = item.get_closest_marker("limit")
    return None if marker is None else float(marker.args[0])


def _inner(item: pytest.Item) -> Any:
    """The test function itself, below Hypothesis where it is used."""
    obj = getattr(item, "obj", None)
    return obj.hypothesis.inner_test if hasattr(obj, "hypothesis") else obj


def pytest_configure(config: pytest.Config) -> None:
    """Keep the real standard error: during a test, pytest's capture has taken its place."""
    config.stash[_stderr] = os.dup(2)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Close what ``pytest_configure`` opened."""
    os.close(config.stash[_stderr])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Any:
    """The hard limit."""
    marked = _marked(item)
    if inspect.iscoroutinefunction(_inner(item)):
        hard = max(HARD_LIMIT, (marked or ASYNC_LIMIT) + GRACE)
    else:
        hard = marked or HARD_LIMIT
    fd = item.config.stash[_stderr]

    def end() -> None:
        faulthandler.dump_traceback(fd)
        os.write(fd, f"\n{item.nodeid} took longer than {hard:g} s\n".encode())
        os._exit(1)

    timer = threading.Timer(hard, end)
    timer.daemon = True
    timer.start()
    # For a test that keeps the interpreter's lock, so that no timer can strike.
    faulthandler.dump_traceback_later(hard + 5, exit=True, file=fd)
    try:
        return (yield)
    finally:
        timer.cancel()
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before pytest-trio turns the test into a plain function
def pytest_runtest_call(item: pytest.Item) -> Any:
    """The limit of async tests."""
    test = _inner(item)
    if inspect.iscoroutinefunction(test):
        seconds = _marked(item) or ASYNC_LIMIT
        fd = item.config.stash[_stderr]
        limited = limit_async(test, seconds, item.nodeid, lambda text: os.write(fd, text.encode()))
        if hasattr(item.obj, "hypothesis"):
            item.obj.hypothesis.inner_test = limited
        else:
            item.obj = limited
    return (yield)
