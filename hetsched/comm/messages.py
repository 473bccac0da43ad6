"""What ends say to each other beside the scheduler's own events and commands, and which message may go where.

Each message is a NamedTuple. Its first field names the worker or client at the far end of the channel and is not sent:
the one who receives it knows whom the channel belongs to, and would not believe another name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hetsched.core.commands import CancelTasks, FetchKeys, FreeKeys, KeysFailed, KeysReady, MoveTasks
from hetsched.core.events import (
    CapacityChanged,
    GraphCancelled,
    GraphReleased,
    InputsMissing,
    KeysReleased,
    ReplicasAdded,
    ResultsMissing,
    TasksFailed,
    TasksFinished,
    TasksReturned,
    TransfersMeasured,
)
from hetsched.core.makers import Maker
from hetsched.core.types import Capacity, ClientId, Key, TaskId, WorkerId

__all__ = [
    "DIRECTIONS",
    "FROM_CLIENT",
    "FROM_HOLDER",
    "FROM_READER",
    "FROM_WORKER",
    "TO_CLIENT",
    "TO_WORKER",
    "Answered",
    "Asked",
    "BeatHeard",
    "Closed",
    "GraphPart",
    "HeartBeat",
    "OrderRow",
    "Orders",
    "PayloadsDropped",
    "PeerLost",
    "PickleLimited",
    "ResultsAsked",
    "ResultsSent",
    "Warned",
    "WorkerLeaving",
    "WorkerOffered",
    "WorkerWelcomed",
]


class GraphPart(NamedTuple):
    """Tasks of a graph, column by column: the whole of it, or what comes next of one that comes in parts.

    ``total`` is how many tasks the graph has; ``first`` the position of the first one here. ``dependencies`` are empty
    where no task has any. ``notes`` are annotations, ``noted`` for each task one more than the place of its own among
    them, 0 for none; empty if none has any, and one item if it is the same for all.
    ``functions`` are digests, each with a frame; ``payloads`` say for runs of tasks, in order, ``(tasks, frames, places
    in functions)``, and their frames follow those of the functions: see :mod:`hetsched.comm.columns`. ``made_by``
    is one item, too, if it is the same for all. GraphSubmitted tells the rest.
    """

    client: ClientId
    graph: int
    total: int
    first: int
    keys: Sequence[Key]
    dependencies: Sequence[Sequence[int]]
    wanted: Sequence[int]
    notes: Sequence[Mapping[str, Any]]
    noted: Sequence[int]
    functions: Sequence[bytes]
    payloads: Sequence[tuple[int, int, Sequence[int]]]
    urgency: int = 0
    externals: Sequence[tuple[int, int]] = ()
    makers: Sequence[Maker] = ()
    made_by: Sequence[int] = ()


class OrderRow(NamedTuple):
    """One task to run: see RunTask. ``payload`` and ``place`` say where its function and arguments are."""

    task: TaskId
    rank: int | str
    payload: int
    place: int
    prefix: str
    executor: str
    inputs: Sequence[TaskId]
    uses: int
    attempt: int
    resources: Sequence[tuple[str, float]]
    holders: Sequence[tuple[TaskId, Sequence[str]]]


class Orders(NamedTuple):
    """Tasks to run, with the payloads that have not been sent to this worker yet.

    ``functions`` are digests, each with a frame; ``payloads`` are ``(id, frames, digests of functions)``, with their
    frames after those.
    """

    worker: WorkerId
    rows: Sequence[OrderRow]
    functions: Sequence[bytes]
    payloads: Sequence[tuple[int, int, Sequence[bytes]]]


class PayloadsDropped(NamedTuple):
    """No task will speak of these payloads and functions any more."""

    worker: WorkerId
    payloads: Sequence[int]
    functions: Sequence[bytes]


class WorkerOffered(NamedTuple):
    """A worker says what it can do, and where others get results from it."""

    worker: WorkerId
    capacity: Capacity
    address: str
    facts: Mapping[str, Any]


class WorkerWelcomed(NamedTuple):
    """A worker that has offered itself is taken in: what is asked of the scheduler from now on includes it."""

    worker: WorkerId


class PeerLost(NamedTuple):
    """A worker with this address is lost: what was asked of it will not come."""

    who: str
    address: str


class HeartBeat(NamedTuple):
    """A worker is alive. ``facts`` are for people: bytes in memory and on disk, and the like.

    One that ``asks`` wants to hear that the scheduler is alive too.
    """

    worker: WorkerId
    facts: Mapping[str, Any]
    asks: bool = False


class BeatHeard(NamedTuple):
    """The answer to a HeartBeat that asks."""

    worker: WorkerId


class WorkerLeaving(NamedTuple):
    """A worker is about to end and wants no more tasks; it ends when it is told that it may (Closed)."""

    worker: WorkerId
    why: str


class Closed(NamedTuple):
    """The other end is about to close this channel, and says why; ``final``: connecting again would not help."""

    who: str
    why: str
    final: bool = False


class Asked(NamedTuple):
    """A client asks something, to be answered under the same number."""

    client: ClientId
    number: int
    question: str
    about: Any


class Answered(NamedTuple):
    """The answer; ``error`` instead says why there is none."""

    client: ClientId
    number: int
    answer: Any
    error: str | None


class Warned(NamedTuple):
    """Something is amiss with graphs of a client, in a sentence for a person; nothing has failed."""

    client: ClientId
    sentence: str


class PickleLimited(NamedTuple):
    """A worker has come that knows no pickle protocol above this one: graphs from now on are to keep to it."""

    client: ClientId
    protocol: int


class ResultsAsked(NamedTuple):
    """Send these results."""

    reader: str
    tasks: Sequence[TaskId]


class ResultsSent(NamedTuple):
    """Some of the results asked for: ``(task, header, frames)``; the last message of an answer is ``final``.

    ``values`` are results that need no header: those of ``plain``, one by one. ``missing`` are not here; ``unfit`` are
    here and cannot be sent: ``(task, the error, packed)``.
    """

    holder: str
    results: Sequence[tuple[TaskId, Any, int]]
    missing: Sequence[TaskId]
    unfit: Sequence[tuple[TaskId, bytes]]
    final: bool
    plain: Sequence[TaskId] = ()
    values: Sequence[Any] = ()


FROM_CLIENT = (GraphPart, KeysReleased, ResultsMissing, GraphReleased, GraphCancelled, Asked)
TO_CLIENT = (KeysReady, KeysFailed, Answered, PeerLost, Warned, PickleLimited, Closed)
FROM_WORKER = (
    WorkerOffered, HeartBeat, WorkerLeaving, TasksFinished, TasksFailed, TasksReturned, InputsMissing, ReplicasAdded,
    CapacityChanged, TransfersMeasured,
)  # fmt: skip
TO_WORKER = (
    WorkerWelcomed, BeatHeard, Orders, MoveTasks, CancelTasks, FreeKeys, FetchKeys, PayloadsDropped, PeerLost, Closed,
)  # fmt: skip
DIRECTIONS = {
    "FROM_CLIENT": "A client to the scheduler",
    "TO_CLIENT": "The scheduler to a client",
    "FROM_WORKER": "A worker to the scheduler",
    "TO_WORKER": "The scheduler to a worker",
    "FROM_READER": "A client or a worker to a worker that holds results",
    "FROM_HOLDER": "That worker's answer",
}
"""The unions of this module, in words."""

FROM_READER = (ResultsAsked,)
FROM_HOLDER = (ResultsSent,)
