"""What the parts of a simulation share, and what they know of each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from hetsched.core.commands import KeysFailed, KeysReady, WorkerCommand
from hetsched.core.events import ClientEvent, WorkerEvent
from hetsched.core.types import Capacity, TaskId
from hetsched.worker.instructions import WorkerInput

from .clock import INSTANT, Clock
from .device import Device
from .memory import Memory
from .model import Machine, Task
from .network.transfer import Transfer
from .scenario import Scenario
from .trace import Trace

__all__ = ["Client", "Network", "Server", "Worker", "World"]


class Worker(Protocol):
    """A worker, as the others see it: :class:`hetsched.sims.hands.Hands`."""

    name: str
    number: int
    machine: Machine
    memory: Memory
    busy: dict[str, float]
    store: dict[TaskId, int]
    values: dict[TaskId, int]
    device: Device | None
    """Where the bus to its devices takes time."""
    alive: bool
    frozen: bool
    unreachable: bool

    def capacity(self) -> Capacity:
        """What it announces."""
        ...

    def deliver(self, command: WorkerCommand, _: Any = None) -> None:
        """An order has come."""
        ...

    def feed(self, event: WorkerInput) -> None:
        """Tell its mind something."""
        ...

    def receive(self, transfer: Transfer) -> None:
        """What was asked of a peer has come, or has not."""
        ...

    def open(self) -> None:
        """The instant is over."""
        ...

    def freeze(self) -> None:
        """Notice nothing for a while."""
        ...

    def thaw(self) -> None:
        """Go on."""
        ...

    def die(self) -> None:
        """Its process has ended."""
        ...


class Server(Protocol):
    """The scheduler's process: :class:`hetsched.sims.server.SimulatedServer`."""

    def told(self, worker: Worker, event: WorkerEvent) -> None:
        """A worker says something."""
        ...

    def asked(self, event: ClientEvent) -> None:
        """A client says something."""
        ...


class Client(Protocol):
    """Who wants results: :class:`hetsched.sims.client.SimulatedClient`."""

    def hear(self, command: KeysReady | KeysFailed) -> None:
        """The scheduler tells of results."""
        ...


class Network(Protocol):
    """What carries results: :class:`hetsched.sims.network.transfers.Transfers`."""

    def ask(self, target: Worker, source: str, tasks: Sequence[TaskId]) -> None:
        """A worker asks a peer for results."""
        ...

    def lost(self, target: Worker, source: str) -> None:
        """A worker is told that a peer is lost."""
        ...

    def gone(self, name: str) -> None:
        """A worker has ended."""
        ...


class World:
    """All of a simulation: made by :class:`hetsched.sims.engine.Simulation`, which fills in the parts."""

    server: Server
    network: Network
    client: Client

    def __init__(self, scenario: Scenario, trace: Trace, is_checked: bool, has_values: bool) -> None:
        self.scenario = scenario
        self.trace = trace
        self.clock = Clock()
        self.tasks: list[Task] = []
        """Every task, by the number that the scheduler knows it by."""
        self.kinds: list[str] = []
        """What kind each is of, where the scheduler is not to know (else empty)."""
        self.workers: dict[str, Worker] = {}
        self.touched: list[Worker] = []
        """The workers that have been told something at this instant."""
        self.is_checked = is_checked
        self.has_values = has_values
        delays = [scenario.delay if machine.delay is None else machine.delay for machine in scenario.machines]
        self.is_slow = all(delay > 2 * INSTANT for delay in delays)
        """Whether the scheduler never answers at the instant at which it is told something."""
        noise = scenario.noise
        self.is_noisy = bool(noise.sigma or noise.straggler_chance)
        self.is_looking = scenario.detection.looks
        """Whether GPU tasks have to be found out."""
        self.is_watched = scenario.detection.watches
        """Whether runs show that they use a device."""
        self.fails: Callable[[TaskId, int], Any] | None = None
        """Tells for a task and an attempt what it raises, None where it runs."""
        self.out_of_memory: Callable[[Worker], None] = _nothing

    def value_of(self, task: TaskId, inputs: Sequence[int]) -> int:
        """The value of a task, which tells what it was made of; the same under any hash seed."""
        return hash((task, *inputs))


def _nothing(worker: Worker) -> None:
    """What becomes of a worker out of memory where nobody has said."""
