"""Run the tasks of a batch, one after another: what a thread spends its time in beside the tasks themselves."""

from __future__ import annotations

import threading
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import suppress
from time import perf_counter
from types import TracebackType
from typing import Any, NamedTuple, TypeAlias

from hetsched.core.evidence import Evidence
from hetsched.core.types import EACH, Outcome, TaskId, TaskSpec
from hetsched.errors import TaskCancelled
from hetsched.gpu.errors import device_error

from .child import ChildProcess
from .context import InContext
from .current import RunningBatch
from .inside import current_task
from .sizes import FIXED
from .supervised import Supervisor

__all__ = ["SLICE_SECONDS", "Failure", "Report", "in_child", "run_tasks"]

SLICE_SECONDS = 0.005
"""A batch that lasts longer than this hands its remaining tasks back, whatever was expected of them."""


class Failure(NamedTuple):
    """What a task raised, and where: the executor and the thread it ran on."""

    error: Any  # a BaseException, which mypyc 2.4 cannot name in such a class
    executor: str
    thread: str


class Report(NamedTuple):
    """What came of a batch."""

    batch: int
    done: list[Outcome]
    failed: list[tuple[TaskId, int, Any, bool]]
    left: list[TaskId]
    missing: list[TaskId]
    seen: list[tuple[TaskId, Evidence]]
    device: list[tuple[TaskId, str]]
    watched: bool


_Measure: TypeAlias = "Callable[[Any], tuple[int, int]]"
_Store: TypeAlias = "MutableMapping[TaskId, Any]"


def run_tasks(  # noqa: C901 - hot
    batch: RunningBatch, report: Report, store: _Store, measure: _Measure, child: ChildProcess | None,
    supervisor: Supervisor | None = None,
) -> None:  # fmt: skip
    """Run what is left of a batch, in this thread or a child process, and note down what came of it.

    With a ``supervisor`` it is this that runs the tasks of this thread.
    """
    fixed, items = FIXED, batch.items
    stopped, done = batch.stopped, report.done
    inputs: list[Any] = []
    value: Any = None
    keep: set[TaskId] = set()
    start: Any = perf_counter()
    deadline: float = start + SLICE_SECONDS
    while items:
        try:
            # Ids and times are taken as the objects they are, which compiled code need not make anew.
            item: tuple[Any, Any, TaskSpec, Sequence[Any], Sequence[Any]] = items.popleft()
        except IndexError:  # the last one was taken back
            break
        task, attempt, spec, needs, drops = item
        batch.task = task
        try:
            inputs = [store[i] for i in needs] if needs else []
        except KeyError:
            _leave(report, task, needs, keep, store)
            continue
        if stopped and task in stopped:
            _leave(report, task, needs, keep)
            continue
        try:
            if child is not None:
                value = in_child(child, spec, inputs)
            elif supervisor is not None:
                value = supervisor.run(task, spec, inputs)
            elif spec.args is EACH:
                value = spec.func(*inputs)
            else:
                value = spec(inputs)
        except BaseException as error:  # user code: whatever it raises is the task's outcome
            _fail(report, batch.executor, task, attempt, error)
            keep.update(needs)  # as it may run again; the tasks that read its result find it missing and are left
            store.pop(task, None)  # a copy of an earlier attempt's: nobody may read it now
        else:
            try:
                nbytes, cuda_nbytes = fixed[type(value)], 0
            except Exception:  # not one of these, or of a type that cannot be hashed
                nbytes, cuda_nbytes = measure(value)
            if not stopped or task not in stopped:
                store[task] = value
            if drops:
                _drop(store, drops, keep)
            value, inputs = None, []
            stop: Any = perf_counter()
            done.append((task, attempt, start, stop, nbytes, cuda_nbytes))
            start = stop
            now: float = stop
            if now > deadline:
                break
    report.left.extend(item[0] for item in items)
    items.clear()


def _drop(store: _Store, drops: Sequence[TaskId], keep: set[TaskId]) -> None:
    for i in drops:
        if i not in keep:
            store.pop(i, None)


def _leave(
    report: Report, task: TaskId, needs: Sequence[TaskId], keep: set[TaskId], store: _Store | None = None
) -> None:
    """Give a task back; what was to go after the last reader in this batch has to stay. Tell what a ``store`` lacks."""
    if store is not None:
        report.missing.extend(i for i in needs if i not in store)
    report.left.append(task)
    keep.update(needs)


def _fail(report: Report, executor: str, task: TaskId, attempt: int, error: BaseException) -> None:
    word = device_error(error)
    if word is not None:
        report.device.append((task, word))
    with suppress(Exception):  # an exception may refuse to be changed
        BaseException.with_traceback(error, _user_part(error.__traceback__))
    failure = Failure(error, executor, threading.current_thread().name)
    may_retry = isinstance(error, Exception) and not isinstance(error, TaskCancelled)
    report.failed.append((task, attempt, failure, may_retry))


def in_child(child: ChildProcess, spec: TaskSpec, inputs: Sequence[Any]) -> Any:
    """Run a task in a child process; a function that has something to do around the call in this one may do it."""
    child.about = current_task()
    spec = spec.loaded()
    func = spec.func
    if isinstance(func, InContext):
        func = func.__wrapped__
    around = getattr(type(func), "around", None)
    if around is None:
        return child.call(spec, inputs)
    return around(func, child.call, inputs)


def _user_part(traceback: TracebackType | None) -> TracebackType | None:
    """Skip our own frames at the start of a traceback: they tell the person nothing, and keep inputs alive."""
    # By the module's name and not the file's: a compiled module knows its file from the checkout it was compiled in.
    while traceback is not None and str(traceback.tb_frame.f_globals.get("__name__")).startswith("hetsched."):
        traceback = traceback.tb_next
    return traceback
