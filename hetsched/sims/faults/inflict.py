"""Have faults happen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hetsched.sims.clock import INSTANT
from hetsched.sims.model import Machine
from hetsched.sims.network.topology import Topology
from hetsched.sims.network.transfers import Transfers
from hetsched.sims.server import SimulatedServer
from hetsched.sims.world import Worker, World

from .plan import Fault

__all__ = ["Inflictor"]


class Inflictor:
    """Does to workers what the plan of a scenario says. A fault that has no worker to happen to does not."""

    def __init__(
        self,
        world: World,
        server: SimulatedServer,
        network: Transfers,
        topology: Topology,
        start: Callable[[Machine, str], None],
    ) -> None:
        self._world = world
        self._server = server
        self._network = network
        self._topology = topology
        self._start = start
        self._lives: dict[str, int] = {}
        self._until: dict[tuple[str, str], float] = {}
        """When a worker's silence of a kind ends, that of all faults that overlap."""
        self._silent_since: dict[str, float] = {}
        world.out_of_memory = self._out_of_memory
        for fault in world.scenario.faults:
            world.clock.at(fault.at, self._inflict, fault)

    def _inflict(self, fault: Fault, _: Any) -> None:
        worker = self._living(fault.worker)
        if worker is None:
            return
        self._world.trace.note(self._world.clock.now, fault.kind, worker.name)
        match fault.kind:
            case "crash":
                self._server.broken(worker.name, "its process ended")
                self._crash(worker)
            case "disconnect":
                self._server.lose(worker.name, "its connection broke")
                self._crash(worker)
            case "freeze":
                self._silent(worker, fault)
                self._end_after(fault, self._thaw, worker)
            case "partition":
                self._silent(worker, fault)
                self._end_after(fault, self._rejoin, worker)
            case "cut":
                self._network.cut(worker.name, None)
                self._network.cut(None, worker.name)
            case "slow":
                self._scale(worker, fault.amount)
                self._end_after(fault, self._restore, (worker, fault.amount))
            case "delay":
                self._server.links[worker.name].extra += fault.amount
                self._end_after(fault, self._in_time, (worker, fault.amount))
            case "fill":
                worker.memory.full = True
                self._end_after(fault, self._emptied, worker)

    def _living(self, name: str) -> Worker | None:
        """The worker of that name or, if it was started anew, its last life."""
        life = self._lives.get(name, 0)
        worker = self._world.workers.get(f"{name}'{life}" if life else name)
        return worker if worker is not None and worker.alive and worker.name in self._server.links else None

    def _end_after(self, fault: Fault, call: Callable[[Any, Any], None], what: Any) -> None:
        self._world.clock.at(self._world.clock.now + fault.seconds, call, what)

    def _crash(self, worker: Worker) -> None:
        """Its process ends; the machine starts another, under another name."""
        worker.die()
        self._network.gone(worker.name)
        self._world.clock.at(self._world.clock.now + self._world.scenario.restart, self._start_anew, worker)

    def _start_anew(self, worker: Worker, _: Any) -> None:
        first = worker.machine.name
        life = self._lives[first] = self._lives.get(first, 0) + 1
        self._start(worker.machine, f"{first}'{life}")

    def _out_of_memory(self, worker: Worker) -> None:
        self._server.broken(worker.name, "it was out of memory")
        self._crash(worker)

    # Silence

    def _silent(self, worker: Worker, fault: Fault) -> None:
        now = self._world.clock.now
        kind = worker.name, fault.kind
        self._until[kind] = max(self._until.get(kind, 0.0), now + fault.seconds)
        if not (worker.frozen or worker.unreachable):
            self._silent_since[worker.name] = now
            self._world.clock.at(now + self._world.scenario.silence, self._missed, worker, now)
        if fault.kind == "freeze":
            worker.freeze()
        else:
            worker.unreachable = True
        self._network.hang(worker.name)

    def _missed(self, worker: Worker, since: float) -> None:
        """The scheduler has heard nothing of it for too long; it will find its connection closed."""
        if (worker.frozen or worker.unreachable) and self._silent_since[worker.name] == since:
            self._server.lose(worker.name, f"nothing was heard of it for {self._world.scenario.silence:g} s")

    def _thaw(self, worker: Worker, _: Any) -> None:
        if self._is_over(worker, "freeze"):
            worker.frozen = False
            self._heard_again(worker)

    def _rejoin(self, worker: Worker, _: Any) -> None:
        if self._is_over(worker, "partition"):
            worker.unreachable = False
            self._heard_again(worker)

    def _is_over(self, worker: Worker, kind: str) -> bool:
        """Tell whether no other fault of the kind, begun later, lasts longer."""
        return self._until[worker.name, kind] <= self._world.clock.now + INSTANT

    def _heard_again(self, worker: Worker) -> None:
        """A silence of one kind is over: what it held up comes before anything else, be there another or not."""
        name = worker.name
        is_heard = not (worker.frozen or worker.unreachable)
        if worker.alive and is_heard and name not in self._server.links:
            self._crash(worker)
            return
        if worker.alive and not worker.frozen:
            worker.thaw()
        if not worker.unreachable:
            self._server.reached_again(name)
        if worker.alive and is_heard:
            self._network.go_on(name)

    # Slow and full

    def _scale(self, worker: Worker, by: float) -> None:
        for link in self._topology.links_of(worker.name):
            self._topology.capacity[link] *= by
        self._topology.forget_ways(worker.name)
        self._network.links_changed()

    def _restore(self, what: tuple[Worker, float], _: Any) -> None:
        self._scale(what[0], 1.0 / what[1])

    def _in_time(self, what: tuple[Worker, float], _: Any) -> None:
        link = self._server.links.get(what[0].name)
        if link is not None:
            link.extra = max(0.0, link.extra - what[1])

    def _emptied(self, worker: Worker, _: Any) -> None:
        worker.memory.full = False
        worker.memory.look_again()
