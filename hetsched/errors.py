"""Every error hetsched raises on purpose.

The tree, with the built-in error each one also is, so that programs which catch the built-in go on working::

    HetschedError
    ├── GraphError            the graph cannot be run as it was written
    │   ├── CycleError        (ValueError)  tasks wait for each other in a ring
    │   ├── MissingKeyError   (KeyError)    a key is asked for or needed, and nobody makes it
    │   └── BadKeyError       (TypeError)   a key that is None or cannot be hashed
    ├── AnnotationError       (ValueError)  a known annotation with a bad value
    ├── NoWorkerError         (ValueError)  no worker there is could ever run the task
    ├── ProtocolError         the peer said something that is not in the protocol
    ├── ConnectionLost        (ConnectionError)  the peer is gone, or was never there
    ├── Rejected              the two ends of a connection cannot or may not speak
    ├── OversizeError         (ValueError)  a message is larger than the peer takes
    └── TaskError             running a task failed for a reason that is not the user's own exception
        ├── TaskCancelled     the task was cancelled before it ended
        ├── WorkerLostError   the workers that tried the task were lost
        └── RemoteError       stands in for an exception that could not be carried over

Beside it there is one warning::

    DeviceWarning             (UserWarning)  a result was on a device and came as a copy in host memory

Blame has a direction: a ``GraphError``, ``AnnotationError`` or ``NoWorkerError`` is the caller's to mend, a
``ProtocolError`` the peer's, and an ``AssertionError`` out of hetsched is a bug of ours. A user function's own
exception is never wrapped: it reaches the caller as it was raised.
"""

from __future__ import annotations

__all__ = [
    "AnnotationError",
    "BadKeyError",
    "ConnectionLost",
    "CycleError",
    "DeviceWarning",
    "GraphError",
    "HetschedError",
    "MissingKeyError",
    "NoWorkerError",
    "OversizeError",
    "ProtocolError",
    "Rejected",
    "RemoteError",
    "TaskCancelled",
    "TaskError",
    "WorkerLostError",
]


class HetschedError(Exception):
    """The root of hetsched's own errors."""


class GraphError(HetschedError):
    """The graph cannot be run as it was written."""


class CycleError(GraphError, ValueError):
    """Tasks wait for each other in a ring.

    ``cycle`` holds what was found: positions when raised by :func:`hetsched.core.order.order`, keys when it reaches
    the caller of ``get``. Each entry depends on the one after it, the last on the first.
    """

    def __init__(self, cycle: list[object]) -> None:
        shown = [*cycle[:20], "..."] if len(cycle) > 20 else [*cycle, *cycle[:1]]
        super().__init__("the graph has a cycle: " + " -> ".join(map(repr, shown)))
        self.cycle = cycle


class MissingKeyError(GraphError, KeyError):
    """A key is asked for, or needed by a task, and nobody makes it."""

    def __str__(self) -> str:  # KeyError would show the repr of the sentence
        return str(self.args[0]) if self.args else ""


class BadKeyError(GraphError, TypeError):
    """A key that is None or cannot be hashed."""


class AnnotationError(HetschedError, ValueError):
    """A known annotation was given a bad value."""


class NoWorkerError(HetschedError, ValueError):
    """No worker there is could ever run the task."""


class ProtocolError(HetschedError):
    """The peer said something that is not in the protocol."""


class ConnectionLost(HetschedError, ConnectionError):
    """The peer is gone, or was never there. Connecting again may help."""


class Rejected(HetschedError):
    """The two ends of a connection cannot or may not speak; connecting again will not help."""


class OversizeError(HetschedError, ValueError):
    """A message is larger than the peer takes. Nothing was sent, and the connection is as good as before."""


class TaskError(HetschedError):
    """Running a task failed for a reason that is not the user's own exception."""


class TaskCancelled(TaskError):
    """The task was cancelled before it ended."""


class WorkerLostError(TaskError):
    """The workers that tried the task were lost."""


class RemoteError(TaskError):
    """Stands in for an exception that could not be carried over; its text holds the type's name and text.

    ``type_name`` and ``message`` hold these apart, ``remote_traceback`` the traceback as text; "" where not known.
    """

    def __init__(self, text: str = "", *, type_name: str = "", message: str = "", remote_traceback: str = "") -> None:
        super().__init__(text)
        self.type_name = type_name
        self.message = message
        self.remote_traceback = remote_traceback


class DeviceWarning(UserWarning):
    """A result was on a device, and came as a copy in host memory since there is no such device here."""
