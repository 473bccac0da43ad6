"""The exception of a failure that a scheduler tells, with a note that says whose it is and where it was raised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hetsched import errors
from hetsched.comm.remote_errors import load_error
from hetsched.core.commands import KeysFailed
from hetsched.core.types import TaskSpec
from hetsched.errors import HetschedError, TaskError
from hetsched.outcome import note_task

__all__ = ["blame"]


def blame(failure: KeysFailed, tasks: Sequence[TaskSpec]) -> BaseException:
    """Make the exception; ``tasks`` are those of the graph, as far as they are still known."""
    spec = tasks[failure.root] if 0 <= failure.root < len(tasks) else None
    match failure.error:
        case ("raised", bytes(packed), str(executor), str(thread)):
            raised = load_error(packed)
            note_task(raised, spec, executor, str(failure.worker), thread)
            return raised
        case ("said", str(name), str(text)):
            return _said(name, text)
        case other:
            return TaskError(f"the scheduler tells of an error that cannot be read: {other!r:.200}")


def _said(name: str, text: str) -> HetschedError:
    kind: Any = getattr(errors, name, None) if name in errors.__all__ else None
    if kind is None or kind is errors.CycleError:
        return TaskError(text)
    return kind(text)  # type: ignore[no-any-return]
