"""The scheduler's process: the scheduler that ships, its connections, and the time it takes to think.

It goes by the rules of ``hetsched.server``. This is the one place where commands are told apart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, assert_never

from hetsched.core.check import check
from hetsched.core.commands import (
    CancelTasks,
    Command,
    FetchKeys,
    FreeKeys,
    KeysFailed,
    KeysReady,
    MoveTasks,
    RunTask,
    RunTasks,
)
from hetsched.core.events import (
    CapacityChanged,
    ClientEvent,
    Event,
    ReplicasAdded,
    TasksFailed,
    TasksFinished,
    TimePassed,
    WorkerEvent,
    WorkerJoined,
    WorkerLost,
    WorkerRetiring,
)
from hetsched.core.retiring import may_leave
from hetsched.core.state import State

from .clock import INSTANT
from .model import ServerCost
from .post import Link, Post
from .thinking import Thinking
from .world import Worker, World

__all__ = ["Mind", "SimulatedServer"]


class Mind(Protocol):
    """What decides: a :class:`hetsched.core.scheduler.Scheduler`, or what speaks its language."""

    state: State

    @property
    def due(self) -> float | None:
        """When TimePassed has to be told, if at all."""
        ...

    def handle(self, event: Event, now: float) -> list[Command]:
        """Take note of an event; return what is to be done."""
        ...


class SimulatedServer:
    """Takes what workers and clients say, one message after another, and sends the scheduler's commands."""

    def __init__(self, world: World, mind: Mind) -> None:
        self.mind = mind
        self.links: dict[str, Link] = {}
        self.hook: Callable[[Event, Sequence[Command]], None] | None = None
        """Called with each event and what the scheduler made of it."""
        self._world = world
        self.inbox: deque[Event] = deque()
        """What has come and was not handled yet."""
        self._leaving: dict[str, Link] = {}
        self._busy_until: float | None = None
        self._clock = world.clock
        self._post = Post(world.clock, world.scenario.jitter, world.scenario.seed)
        self._alarm = float("inf")
        """The next time at which the scheduler will be told that time has passed, if it still wants to be."""
        cost = world.scenario.server
        self._goes_near = world.scenario.network.replica == "nearest"
        self._thinking = Thinking(cost, mind.state) if cost != ServerCost() else None
        self.handled = 0
        self.busy_seconds = 0.0
        self.queued_seconds = 0.0

    # Connections

    def join(self, worker: Worker) -> None:
        """A worker offers itself."""
        delay = worker.machine.delay
        link = self.links[worker.name] = Link(worker, self._world.scenario.delay if delay is None else delay)
        self._post.send_up(link, self._joined, worker)

    def _joined(self, worker: Worker, _: Any = None) -> None:
        self._hear(WorkerJoined(worker.name, worker.capacity()))

    def told(self, worker: Worker, event: WorkerEvent) -> None:
        """A worker says something."""
        link = self.links.get(worker.name)
        if link is not None and link.worker is worker:
            self._post.send_up(link, self._hear, event)

    def reached_again(self, name: str) -> None:
        """A partition is over: what was said meanwhile arrives."""
        if name in self.links:
            self._post.reached_again(self.links[name])

    def asked(self, event: ClientEvent) -> None:
        """A client says something."""
        self._hear(event)

    def broken(self, name: str, why: str) -> None:
        """A worker has ended: what it had said before still arrives, then the end of its connection."""
        link = self.links.get(name)
        if link is not None:
            self._post.send_up(link, self.lose, name)
            link.why = why

    def lose(self, name: str, why: str = "") -> None:
        """A connection has ended: the others are told that the worker is lost."""
        link = self.links.pop(name, None)
        if link is None:
            return
        link.open = False
        self._leaving.pop(name, None)
        world = self._world
        why = why or link.why
        world.trace.note(world.clock.now, f"lost: {why}", name)
        for other in self.links.values():
            world.clock.at(world.clock.now + other.delay + other.extra, self._peer_lost, other, name)
        self._hear(WorkerLost(name, why))

    def _peer_lost(self, link: Link, name: str) -> None:
        if link.open:
            self._world.network.lost(link.worker, name)

    def leaving(self, worker: Worker) -> None:
        """A worker wants to leave."""
        link = self.links.get(worker.name)
        if link is not None:
            self._post.send_up(link, self._wants_to_leave, link)

    def _wants_to_leave(self, link: Link) -> None:
        self._leaving[link.worker.name] = link
        self._hear(WorkerRetiring(link.worker.name))
        self._clock.at(self._clock.now + self._world.scenario.leaving, self._must_go, link)

    def _must_go(self, link: Link, _: Any) -> None:
        if link.open:
            self.let_go(link, "it wanted to leave, and had not finished in time")

    def let_go(self, link: Link, why: str) -> None:
        """End a connection: the worker's process ends with it."""
        self.lose(link.worker.name, why)
        link.worker.die()
        self._world.network.gone(link.worker.name)

    def _see_off(self, link: Link) -> None:
        """Let a worker go that wants to, once it has nothing left to do and others have what it holds."""
        state = self.mind.state
        ws = state.workers.get(link.worker.name)
        if ws is not None and may_leave(state, ws):
            self.let_go(link, "it has left")

    # The scheduler

    def _hear(self, event: Event) -> None:
        self.inbox.append(event)
        if self._busy_until is not None:
            self.queued_seconds += self._busy_until - self._clock.now

    def _set_alarm(self) -> None:
        due = self.mind.due
        if due is not None and due < self._alarm:
            self._alarm = due
            self._clock.at(due, self._ring, due)

    def _ring(self, time: float, _: Any) -> None:
        if time == self._alarm:
            self._alarm = float("inf")
            due = self.mind.due
            if due is not None and due <= self._clock.now + INSTANT:
                self._hear(TimePassed())
            else:
                self._set_alarm()

    def settle(self) -> bool:
        """Have the scheduler handle what has come; False while it is busy."""
        if self._busy_until is not None:
            return False
        while self.inbox:
            event = self.inbox.popleft()
            commands = self._handle(event)
            if self._thinking is not None:
                seconds = self._thinking.seconds(event, commands)
                self.busy_seconds += seconds
                self.queued_seconds += seconds * len(self.inbox)
                clock = self._clock
                self._busy_until = until = clock.now + seconds
                self._world.trace.busy.append((clock.now, until, type(event).__name__))
                clock.at(until, self._thought, event, commands)
                return True
            self._carry_out(commands)
            if self._leaving:
                self._after(event)
        return True

    def _thought(self, event: Event, commands: Sequence[Command]) -> None:
        self._busy_until = None
        self._carry_out(commands)
        if self._leaving:
            self._after(event)

    def _handle(self, event: Event) -> list[Command]:
        self.handled += 1
        commands = self.mind.handle(event, self._world.clock.now)
        self._set_alarm()
        if self._world.is_checked:
            check(self.mind.state)
        if self.hook is not None:
            self.hook(event, commands)
        return commands

    def _after(self, event: Event) -> None:
        """See off those who want to leave, where this may have been what they waited for."""
        if isinstance(event, TasksFinished | TasksFailed | ReplicasAdded | WorkerRetiring | CapacityChanged):
            for link in list(self._leaving.values()):
                if isinstance(event, ReplicasAdded) or event.worker == link.worker.name:
                    self._see_off(link)

    def _carry_out(self, commands: Sequence[Command]) -> None:
        for command in commands:
            match command:
                case RunTasks() | MoveTasks() | CancelTasks() | FreeKeys() | FetchKeys():
                    link = self.links.get(command.worker)
                    if link is not None:
                        self._post.send_down(link, self._seen_by_worker(command))
                case KeysReady() | KeysFailed():
                    self._world.client.hear(command)
                case _:
                    assert_never(command)

    def _seen_by_worker(self, command: Any) -> Any:
        """An order with the kinds of tasks by their true names, and the nearest holders first, where that is wanted."""
        kinds = self._world.kinds
        if kinds and isinstance(command, RunTasks):
            command = RunTasks(command.worker, [o._replace(prefix=kinds[o.task]) for o in command.tasks])
        return _nearest_first(command, self._world.workers) if self._goes_near else command


def _nearest_first(command: Any, workers: Mapping[str, Worker]) -> Any:
    """An order whose holders are sorted: those of the worker's own pool first."""
    pool = workers[command.worker].machine.pool
    match command:
        case RunTasks():
            return RunTasks(command.worker, [_from_near(order, workers, pool) for order in command.tasks])
        case FetchKeys():
            return FetchKeys(command.worker, _near(command.holders, workers, pool))
    return command


def _from_near(order: RunTask, workers: Mapping[str, Worker], pool: str | None) -> RunTask:
    return order._replace(holders=_near(order.holders, workers, pool)) if order.holders else order


def _near(holders: Any, workers: Mapping[str, Worker], pool: str | None) -> list[tuple[int, tuple[str, ...]]]:
    found: list[tuple[int, tuple[str, ...]]] = []
    for task, names in holders:
        near = [name for name in names if workers[name].machine.pool == pool]
        found.append((task, (*near, *(name for name in names if name not in near))))
    return found
