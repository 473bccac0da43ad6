"""What no schedule can beat where tasks are bound to pools: the time that links need for what has to cross them.

A linear programme. Each task runs in pools that it may run in, in parts or several times if that helps. A pool has of a
result what is made there, and what came; it needs as much of it as it runs of any reader. What comes to a pool comes
from one that has it. No link carries more than it can in the time, which is to be as short as can be. With more than
two pools two of them could, in the programme, have a result from each other; so it is a bound, and not always the best.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from hetsched.core.needs import Needs
from hetsched.core.types import Capacity

from .linear import Programme
from .model import Machine, Workload
from .network.spec import NetworkSpec

__all__ = ["crossing_bound"]

Way: TypeAlias = "tuple[str | None, str | None]"
"""From a pool to a pool; None: to or from any other."""


def crossing_bound(workload: Workload, machines: Sequence[Machine], network: NetworkSpec) -> float:
    """Seconds that the links between pools need at least; 0 where nothing has to cross, or links are not shared.

    Raises HetschedError where scipy is not installed and something may have to cross.
    """
    speeds = dict(_speeds(machines, network)) if network.model == "maxmin" else {}
    if not speeds:
        return 0.0
    if any(task.outputs for task in workload.tasks):
        workload = workload.split()
    pools = list(dict.fromkeys(machine.pool or "" for machine in machines))
    places = _places(workload, machines, pools)
    if all(len(there) == len(pools) for there in places):
        return 0.0
    return _Crossing(workload, places, pools, speeds).least()


def _speeds(machines: Sequence[Machine], network: NetworkSpec) -> Iterator[tuple[Way, float]]:
    """Bytes per second of the links that have a limit."""
    pools = dict.fromkeys(machine.pool or "" for machine in machines)
    if len(pools) < 2:
        return
    yield from (((a, b), wire.bandwidth) for (a, b), wire in network.between.items() if wire.bandwidth)
    for pool, wire in network.uplinks.items():
        if wire.bandwidth:
            yield (pool, None), wire.bandwidth
            yield (None, pool), wire.bandwidth


def _places(workload: Workload, machines: Sequence[Machine], pools: Sequence[str]) -> list[Sequence[str]]:
    """The pools that each task may run in: those with a machine that meets what it demands; all where none does."""
    known: dict[tuple[object, ...], Sequence[str]] = {}
    found = []
    for task in workload.tasks:
        needs = Needs(task.annotations or {})
        key = needs.key()
        there = known.get(key)
        if there is None:
            ways = [needs, needs.on_gpu()] if needs.free else [needs]
            may = {m.pool or "" for m in machines for n in ways if n.may_meet(m.name, _capacity(m))}
            there = known[key] = [pool for pool in pools if pool in may] or pools
        found.append(there)
    return found


def _capacity(machine: Machine) -> Capacity:
    return Capacity(machine.slots(), machine.all_resources(), machine.pool, machine.window, machine.ahead)


class _Crossing:
    """The programme: what is made where, what comes from where, and what each link has to carry."""

    def __init__(
        self, workload: Workload, places: Sequence[Sequence[str]], pools: Sequence[str], speeds: Mapping[Way, float]
    ) -> None:
        self._workload = workload
        self._places = places
        self._pools = pools
        self._speeds = speeds
        programme = self._programme = Programme()
        total = programme.variable(cost=1.0)
        self._loads: dict[Way, list[tuple[int, float]]] = {link: [(total, -1.0)] for link in speeds}
        self._runs = [{pool: programme.variable() for pool in there} for there in places]
        for parts in self._runs:
            programme.at_most([(part, -1.0) for part in parts.values()], -1.0)

    def least(self) -> float:
        """The shortest time that is enough for all links."""
        readers: dict[int, dict[int, None]] = {}
        for position, task in enumerate(self._workload.tasks):
            for d in task.dependencies:
                readers.setdefault(d, {})[position] = None
        for position, reading in readers.items():
            if self._workload.tasks[position].nbytes:
                self._bring(position, list(reading))
        for terms in self._loads.values():
            self._programme.at_most(terms, 0.0)
        return self._programme.minimum()

    def _bring(self, position: int, readers: Sequence[int]) -> None:
        """A result has to come to the pools that run its readers and did not make it."""
        programme, made = self._programme, self._runs[position]
        comes = {p: programme.variable() for p in self._pools if any(p in self._places[r] for r in readers)}
        has = {pool: [(v[pool], -1.0) for v in (made, comes) if pool in v] for pool in self._pools}
        for pool, come in comes.items():
            for reader in readers:
                if pool in self._runs[reader]:
                    programme.at_most([(self._runs[reader][pool], 1.0), *has[pool]], 0.0)
            sent = {other: programme.variable() for other in self._pools if other != pool and has[other]}
            programme.at_most([(come, 1.0), *((part, -1.0) for part in sent.values())], 0.0)
            for other, part in sent.items():
                programme.at_most([(part, 1.0), *has[other]], 0.0)
                self._load(other, pool, part, self._workload.tasks[position].nbytes)

    def _load(self, source: str, target: str, part: int, nbytes: int) -> None:
        """Part of a result crosses the links from a pool to a pool."""
        for link in ((source, target), (source, None), (None, target)):
            if link in self._speeds:
                self._loads[link].append((part, nbytes / self._speeds[link]))
