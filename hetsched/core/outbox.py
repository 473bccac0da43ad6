"""What a scheduler is about to say, gathered while it handles one event."""

from __future__ import annotations

from .commands import CancelTasks, Command, FetchKeys, FreeKeys, KeysFailed, KeysReady, MoveTasks
from .state import Phase, State, TaskState, WorkerState
from .types import TaskId, WorkerId

__all__ = ["Outbox"]


class Outbox:
    """Orders by worker, one message of a kind to each; and what clients are told."""

    __slots__ = ("_cancel", "_copy", "_free", "_move", "_state", "_to_clients")

    def __init__(self, state: State) -> None:
        self._state = state
        self._cancel: dict[WorkerState, list[TaskId]] = {}
        self._free: dict[WorkerState, list[TaskId]] = {}
        self._copy: dict[WorkerState, list[tuple[TaskId, tuple[WorkerId, ...]]]] = {}
        self._move: dict[WorkerState, tuple[list[tuple[TaskId, str]], list[tuple[str, bool]]]] = {}
        self._to_clients: list[KeysReady | KeysFailed] = []

    def cancel(self, worker: WorkerState, tasks: list[TaskId]) -> None:
        """Have a worker put tasks down."""
        self._cancel.setdefault(worker, []).extend(tasks)

    def move(self, worker: WorkerState, tasks: list[tuple[TaskId, str]], kinds: list[tuple[str, bool]]) -> None:
        """Have a worker run tasks on another executor, and know of kinds whether they are GPU tasks."""
        moves = self._move.setdefault(worker, ([], []))
        moves[0].extend(tasks)
        moves[1].extend(kinds)

    def free(self, worker: WorkerState, tasks: list[TaskId]) -> None:
        """Have a worker forget results."""
        self._free.setdefault(worker, []).extend(tasks)

    def copy(self, worker: WorkerState, ts: TaskState) -> None:
        """Have a worker get a copy of a result."""
        self._copy.setdefault(worker, []).append((ts.id, tuple(w.id for w in ts.who_has)))

    def tell(self, message: KeysReady | KeysFailed) -> None:
        """Tell a client something."""
        self._to_clients.append(message)

    def let_go(self, ts: TaskState) -> None:
        """Free a result wherever it is; its phase is the caller's to change."""
        for w in ts.who_has:
            w.nbytes -= ts.nbytes
            w.held -= 1
            if not ts.forgets:
                self._free.setdefault(w, []).append(ts.id)
        ts.who_has = ()

    def release(self, tasks: list[TaskState], now: float) -> None:
        """Drop results that have no user left."""
        if tasks:
            for ts in tasks:
                self.let_go(ts)
            self._state.move(tasks, Phase.RELEASED, "nobody needs it", now)

    def orders(self) -> list[Command]:
        """Take what workers are to move, to put down, to forget and to copy."""
        out: list[Command] = []
        if self._move:
            out += [MoveTasks(w.id, tasks, kinds) for w, (tasks, kinds) in self._move.items()]
            self._move = {}
        if self._cancel:
            out += [CancelTasks(w.id, ids) for w, ids in self._cancel.items()]
            self._cancel = {}
        if self._free:
            out += [FreeKeys(w.id, ids) for w, ids in self._free.items()]
            self._free = {}
        if self._copy:
            out += [FetchKeys(w.id, holders) for w, holders in self._copy.items()]
            self._copy = {}
        return out

    def news(self) -> list[KeysReady | KeysFailed]:
        """Take what clients are to be told."""
        told, self._to_clients = self._to_clients, []
        return told
