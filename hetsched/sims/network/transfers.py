"""Requests of workers to peers: which may go ahead, what each brings, and what becomes of it when a peer is gone."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from typing import Any

from hetsched.core.types import TaskId
from hetsched.sims.world import Worker, World
from hetsched.worker.instructions import KeysFetched

from .maxmin import MaxMin
from .simple import Instant, Simple
from .topology import Topology
from .transfer import Transfer

__all__ = ["Transfers"]

_MODELS: dict[str, Callable[..., Instant | Simple | MaxMin]] = {"instant": Instant, "simple": Simple, "maxmin": MaxMin}

class Transfers:
    """All transfers of a simulation.

    ``priority`` gives that of a worker's request for a result where not all may go ahead at a time; the greater first,
    equal ones in the order in which they were asked for. A single result without bytes waits for nothing.
    """

    def __init__(self, world: World, topology: Topology) -> None:
        spec = topology.spec
        self.topology = topology
        self.priority: Callable[[str, TaskId], float] | None = None
        self._world = world
        self._is_single = spec.requests == "many"
        self._most = spec.downloads
        self._most_per_source = spec.downloads_per_source
        self._model = _MODELS[spec.model](topology, world.clock, self._done)
        self._serial = 0
        self._asked: dict[str, list[tuple[float, int, Transfer]]] = {}
        """Of each worker what waits, the next first."""
        self._active: dict[str, dict[int, Transfer]] = {}
        """Of each worker what is under way, by number."""
        self._count: dict[str, int] = {}
        """How many there are of those that are limited, and"""
        self._count_of_pair: dict[tuple[str, str], int] = {}
        """of each source and target."""
        self._woken: dict[str, None] = {}
        """The workers for which more may go ahead than before."""
        self._crossed: dict[tuple[str, str], int] = {}
        """Bytes from pool to pool."""
        self._spent = 0.0
        self._hanging: dict[str, list[Transfer]] = {}
        """What cannot go on since the peer is silent, or nobody reaches who asked."""

    def ask(self, target: Worker, source: str, tasks: Sequence[TaskId]) -> None:
        """A worker asks a peer for results."""
        if not self._is_single:
            self._put(target, source, tasks)
            return
        for task in tasks:
            self._put(target, source, [task])
        # The peer may be asked for more meanwhile: an answer with nothing in it says that.
        target.feed(KeysFetched(source, (), ()))

    def _put(self, target: Worker, source: str, tasks: Sequence[TaskId]) -> None:
        self._serial += 1
        way = self.topology.way(source, target.name)
        transfer = Transfer(self._serial, source, target.name, tasks, way, self._world.clock.now)
        first = -max(self.priority(target.name, task) for task in tasks) if self.priority is not None else 0.0
        insort(self._asked.setdefault(target.name, []), (first, self._serial, transfer))
        self._woken[target.name] = None

    def settle(self) -> None:
        """Begin what may go ahead, and share the links anew: the instant is over."""
        if self._woken:
            woken, self._woken = self._woken, {}
            for name in woken:
                waiting = self._asked.get(name)
                if waiting:
                    self._begin_some(name, waiting)
        self._model.settle()

    def _begin_some(self, name: str, waiting: list[tuple[float, int, Transfer]]) -> None:
        most, per_source = self._most, self._most_per_source
        stay = []
        for entry in waiting:
            transfer = entry[2]
            pair = (transfer.source, name)
            transfer.is_counted = not self._is_single or self._world.tasks[transfer.keys[0]].nbytes > 0
            if transfer.is_counted:
                count, of_pair = self._count.get(name, 0), self._count_of_pair.get(pair, 0)
                if (most is not None and count >= most) or (per_source is not None and of_pair >= per_source):
                    stay.append(entry)
                    continue
                self._count[name] = count + 1
                self._count_of_pair[pair] = of_pair + 1
            self._active.setdefault(name, {})[transfer.number] = transfer
            clock = self._world.clock
            transfer.sent = clock.now
            if transfer.way.latency:
                clock.at(clock.now + transfer.way.latency, self._serve, transfer)
            else:
                self._serve(transfer)
        waiting[:] = stay

    def _serve(self, transfer: Transfer, _: Any = None) -> None:
        """The request has come to the peer, which sends what it has of it."""
        if transfer.over:
            return
        world = self._world
        source = world.workers.get(transfer.source)
        if world.workers[transfer.target].unreachable:
            self._hanging.setdefault(transfer.target, []).append(transfer)
            return
        if source is None or not source.alive:
            self._refuse(transfer)
            return
        if source.frozen or source.unreachable:
            self._hanging.setdefault(transfer.source, []).append(transfer)
            return
        store, tasks = source.store, world.tasks
        came = [task for task in transfer.keys if task in store]
        transfer.came = came
        if len(came) < len(transfer.keys):
            transfer.missing = [task for task in transfer.keys if task not in store]
        nbytes = transfer.nbytes = sum(tasks[task].nbytes for task in came)
        there = source.device.there if source.device is not None else ()
        on_device = sum(tasks[task].nbytes for task in came if task in there)
        transfer.legs = [(transfer.way, nbytes - on_device)] if nbytes > on_device or not nbytes else []
        if on_device:
            transfer.legs.append((self.topology.from_device(transfer.way, source.name), on_device))
        transfer.leg = 0
        if world.has_values:
            transfer.values = {task: source.values[task] for task in came}
        transfer.began = world.clock.now
        if source.memory.on_disk and (wait := source.memory.read(came)):
            world.clock.at(world.clock.now + wait, self._send, transfer, transfer.version)
        else:
            self._send(transfer, transfer.version)

    def _send(self, transfer: Transfer, version: int) -> None:
        if transfer.version == version and not transfer.over:
            self._model.start(transfer)

    def _refuse(self, transfer: Transfer) -> None:
        """There is nobody to answer."""
        transfer.over = True
        transfer.came = []
        transfer.values = {}
        transfer.missing = list(transfer.keys)
        self._world.clock.at(self._world.clock.now, self._done, transfer)

    def _done(self, transfer: Transfer, _: Any = None) -> None:
        if not transfer.over and transfer.leg + 1 < len(transfer.legs):
            transfer.leg += 1
            self._model.start(transfer)
            return
        transfer.over = True
        name = transfer.target
        if transfer.number not in self._active.get(name, ()):
            return
        del self._active[name][transfer.number]
        if transfer.is_counted:
            self._count[name] -= 1
            self._count_of_pair[transfer.source, name] -= 1
        if self._asked.get(name):
            self._woken[name] = None
        world = self._world
        target = world.workers[name]
        if transfer.came:
            trace, now = world.trace, world.clock.now
            source = trace.number_of(transfer.source)
            trace.moved(source, target.number, transfer.came, transfer.nbytes, transfer.asked, transfer.began, now)
            self._note_bytes(transfer)
        target.receive(transfer)

    def _note_bytes(self, transfer: Transfer) -> None:
        """Count what has arrived, once, however often it had to be sent."""
        way, nbytes = transfer.way, transfer.nbytes
        for leg, part in transfer.legs:
            for link in leg.links:
                self.topology.carried[link] += part
        a, b = way.pools
        if a != b:
            self._crossed[a, b] = self._crossed.get((a, b), 0) + nbytes
            self._spent += nbytes * way.price

    def between_pools(self) -> tuple[dict[tuple[str, str], int], float]:
        """The bytes that have gone from one pool to another, and the money for all."""
        return dict(sorted(self._crossed.items())), self._spent

    def is_idle(self) -> bool:
        """Whether nothing is asked for, nothing under way, and no link taken."""
        return not any(self._asked.values()) and not any(self._active.values()) and self._model.is_idle()

    # When workers are gone

    def _between(self, source: str | None, target: str | None) -> list[Transfer]:
        """What is under way from or to these (None: any)."""
        names = list(self._active) if target is None else [target] if target in self._active else []
        return [t for name in names for t in self._active[name].values() if source is None or t.source == source]

    def cut(self, source: str | None, target: str | None) -> None:
        """Connections have broken: the answers that were to come over them do not."""
        for transfer in self._between(source, target):
            if not transfer.over:
                self._model.stop(transfer)
                self._refuse(transfer)

    def lost(self, target: Worker, source: str) -> None:
        """A worker is told that a peer is lost: it waits for it no longer."""
        self.cut(source, target.name)

    def gone(self, name: str) -> None:
        """A worker has ended: what it asked for is of no use, and what was asked of it does not come."""
        self._asked.pop(name, None)
        for transfer in self._between(None, name):
            self._model.stop(transfer)
            transfer.over = True
        self._active.pop(name, None)
        self._hanging.pop(name, None)
        self.cut(name, None)

    def hang(self, name: str) -> None:
        """A worker is silent: nothing more comes from it for now, and where it cannot be reached nothing to it."""
        hanging = self._between(name, None)
        if self._world.workers[name].unreachable:
            hanging += self._between(None, name)
        for transfer in hanging:
            if not transfer.over and transfer.began >= 0.0:
                self._model.stop(transfer)
                transfer.began = -1.0  # so that it hangs but once, however often the peer falls silent
                self._hanging.setdefault(name, []).append(transfer)

    def go_on(self, name: str) -> None:
        """It is heard of again: what hung is sent anew."""
        for transfer in self._hanging.pop(name, ()):
            self._serve(transfer)

    def links_changed(self) -> None:
        """Links have got faster or slower."""
        self._model.links_changed()
