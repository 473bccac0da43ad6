"""What may happen to a scheduler, in the past tense. Each is the wire message too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from .evidence import Evidence
from .makers import Maker
from .types import Capacity, ClientId, Outcome, TaskId, TaskSpec, WorkerId

__all__ = [
    "AskedAgain",
    "CapacityChanged",
    "ClientEvent",
    "ClientLeft",
    "Event",
    "GraphCancelled",
    "GraphExtended",
    "GraphReleased",
    "GraphSubmitted",
    "InputsMissing",
    "KeysReleased",
    "LessonsForgotten",
    "ReplicasAdded",
    "ResultsMissing",
    "TasksFailed",
    "TasksFinished",
    "TasksReturned",
    "TasksStranded",
    "TimePassed",
    "TransfersMeasured",
    "WorkerEvent",
    "WorkerJoined",
    "WorkerLost",
    "WorkerRetiring",
]


class GraphSubmitted(NamedTuple):
    """A client wants a graph run.

    ``tasks`` come in the order they should be started, every task after all it depends on; dependencies are positions
    in this list. ``wanted`` are the positions whose results the client will fetch. ``graph`` is a number the client has
    not used before. Of two graphs the one of greater ``urgency`` goes first (a graph submitted from inside a task is
    more urgent than the task's own). ``lanes`` renames executors for this graph alone, ``{"cpu": "cpu:3"}``.

    A negative dependency ``-1 - n`` is the n-th of ``externals``: ``(graph, position)`` of a result that this client
    wants of another graph. ``total`` says how many tasks the graph has in all, if the rest follows as
    :class:`GraphExtended`.

    ``makers`` are the functions the tasks call and ``made_by`` says of each task which, by its place among them; both
    are empty where nobody looked. The makers of later parts go on counting.
    """

    client: ClientId
    graph: int
    tasks: Sequence[TaskSpec]
    wanted: Sequence[int]
    urgency: int = 0
    lanes: dict[str, str] | None = None
    externals: Sequence[tuple[int, int]] = ()
    total: int | None = None
    makers: Sequence[Maker] = ()
    made_by: Sequence[int] = ()


class GraphExtended(NamedTuple):
    """The next tasks of a graph that is coming in parts; positions go on counting."""

    client: ClientId
    graph: int
    tasks: Sequence[TaskSpec]
    wanted: Sequence[int]
    makers: Sequence[Maker] = ()
    made_by: Sequence[int] = ()


class KeysReleased(NamedTuple):
    """A client does not want these results of a graph any more, told by position."""

    client: ClientId
    graph: int
    positions: Sequence[int]


class ResultsMissing(NamedTuple):
    """A client could not get results it wants from anyone said to hold them, told by position: make them again."""

    client: ClientId
    graph: int
    positions: Sequence[int]


class GraphReleased(NamedTuple):
    """A client needs nothing of a graph any more; what has not run will not be."""

    client: ClientId
    graph: int


class GraphCancelled(NamedTuple):
    """A client gave a graph up: as released, and tasks that run are asked to stop."""

    client: ClientId
    graph: int


class ClientLeft(NamedTuple):
    """A client is gone: all its graphs are cancelled."""

    client: ClientId


class WorkerJoined(NamedTuple):
    """A worker offers itself."""

    worker: WorkerId
    capacity: Capacity


class CapacityChanged(NamedTuple):
    """A worker can do something else than it announced."""

    worker: WorkerId
    capacity: Capacity


class WorkerRetiring(NamedTuple):
    """A worker will end and is to be given nothing more; what only it holds should be copied."""

    worker: WorkerId


class WorkerLost(NamedTuple):
    """A worker is gone, with all it held."""

    worker: WorkerId
    reason: str


class TasksFinished(NamedTuple):
    """Tasks have run on a worker, which now holds their results.

    ``seen`` is what probes of device memory saw of some of them; ``watched`` says that such were at work.
    """

    worker: WorkerId
    executor: str
    outcomes: Sequence[Outcome]
    seen: Sequence[tuple[TaskId, Evidence]] = ()
    watched: bool = False


class TasksFailed(NamedTuple):
    """Tasks raised. ``failures`` holds ``(task, attempt, error, may_retry)``; the error is opaque to the scheduler.

    ``device`` are those of them that failed with an error of a device, each with a word on it.
    """

    worker: WorkerId
    executor: str
    failures: Sequence[tuple[TaskId, int, Any, bool]]
    device: Sequence[tuple[TaskId, str]] = ()


class TasksReturned(NamedTuple):
    """A worker has put down tasks that it has no executor for, or no slot for now, told as ``(task, attempt)``."""

    worker: WorkerId
    tasks: Sequence[tuple[TaskId, int]]


class InputsMissing(NamedTuple):
    """A worker could not get inputs from anyone said to hold them.

    It has put down again the tasks that read them, told as ``(task, attempt)``.
    """

    worker: WorkerId
    inputs: Sequence[TaskId]
    tasks: Sequence[tuple[TaskId, int]]


class ReplicasAdded(NamedTuple):
    """A worker has fetched copies of results that others hold."""

    worker: WorkerId
    tasks: Sequence[TaskId]


class TransfersMeasured(NamedTuple):
    """A worker has brought results from others: ``(worker they came from, bytes on the wire, seconds)`` each."""

    worker: WorkerId
    transfers: Sequence[tuple[WorkerId, int, float]]


class TasksStranded(NamedTuple):
    """No worker could run these tasks for so many seconds, and they are to wait no longer."""

    tasks: Sequence[TaskId]
    seconds: float


class TimePassed(NamedTuple):
    """The time has come that ``Scheduler.due`` told: tasks have waited for a worker as long as they may."""


class AskedAgain(NamedTuple):
    """It is time to ask plugins once more about tasks that wait: their opinions may change by themselves."""


class LessonsForgotten(NamedTuple):
    """A person has had forgotten what was learned of GPU tasks: of functions whose name fits one of these patterns."""

    patterns: Sequence[str]


ClientEvent: TypeAlias = (
    GraphSubmitted | GraphExtended | KeysReleased | ResultsMissing | GraphReleased | GraphCancelled | ClientLeft
)
"""What a client's channel carries to the scheduler."""

WorkerEvent: TypeAlias = (
    WorkerJoined
    | CapacityChanged
    | WorkerRetiring
    | WorkerLost
    | TasksFinished
    | TasksFailed
    | TasksReturned
    | InputsMissing
    | ReplicasAdded
    | TransfersMeasured
)
"""What a worker's channel carries to the scheduler (and what the scheduler is told about it)."""

Event: TypeAlias = ClientEvent | WorkerEvent | TasksStranded | TimePassed | AskedAgain | LessonsForgotten
