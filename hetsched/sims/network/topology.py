"""Which links a transfer crosses, what they can carry, and what they have carried."""

from __future__ import annotations

from collections.abc import Mapping

from .spec import NetworkSpec, Wire

__all__ = ["Topology", "Way"]


class Way:
    """From one worker to another: the links crossed, the bytes per second of the slowest, seconds, money per byte."""

    __slots__ = ("bandwidth", "latency", "links", "pools", "price")

    def __init__(
        self, links: tuple[int, ...], bandwidth: float, latency: float, price: float, pools: tuple[str, str]
    ) -> None:
        self.links = links
        self.bandwidth = bandwidth
        self.latency = latency
        self.price = price
        self.pools = pools


class Topology:
    """All links, numbered. Workers may be added at any time; a link without limit is none."""

    def __init__(self, spec: NetworkSpec, workers: Mapping[str, tuple[str, float]] | None = None) -> None:
        self.spec = spec
        self.names: list[str] = []
        self.capacity: list[float] = []
        self.carried: list[int] = []
        """Bytes that have crossed each link and arrived."""
        self._number: dict[str, int] = {}
        self._pool: dict[str, str] = {}
        self._ways: dict[tuple[str, str], Way] = {}
        for name, (pool, bandwidth) in (workers or {}).items():
            self.add_worker(name, pool, bandwidth)

    def add_worker(self, name: str, pool: str = "", bandwidth: float | None = None, pcie: float = 0.0) -> None:
        """Take a worker in, with a link of its own up and down, and the bus that leads from its devices."""
        self._pool[name] = pool
        own = self.spec.bandwidth if bandwidth is None else bandwidth
        self._link(f"{name} up", own)
        self._link(f"{name} down", own)
        self._link(f"{name} pcie", pcie)

    def _link(self, name: str, bandwidth: float) -> None:
        if bandwidth > 0 and name not in self._number:
            self._number[name] = len(self.names)
            self.names.append(name)
            self.capacity.append(bandwidth)
            self.carried.append(0)

    def forget_ways(self, worker: str) -> None:
        """The links of a worker have changed."""
        self._ways = {pair: way for pair, way in self._ways.items() if worker not in pair}

    def pool_of(self, worker: str) -> str:
        """The pool of a worker, "" where it has none."""
        return self._pool.get(worker, "")

    def links_of(self, worker: str) -> list[int]:
        """The numbers of a worker's own links."""
        return [self._number[n] for n in (f"{worker} up", f"{worker} down") if n in self._number]

    def way(self, source: str, target: str) -> Way:
        """The way from a worker to another."""
        known = self._ways.get((source, target))
        if known is None:
            known = self._ways[source, target] = self._find(source, target)
        return known

    def from_device(self, way: Way, source: str) -> Way:
        """The same way for what is on a device of the worker it comes from, and has to come to its host first."""
        number = self._number.get(f"{source} pcie")
        if number is None:
            return way
        bus = self.capacity[number]
        bandwidth = min(way.bandwidth, bus) if way.bandwidth else bus
        return Way((number, *way.links), bandwidth, way.latency, way.price, way.pools)

    def wires(self, a: str, b: str) -> list[tuple[str, Wire]]:
        """The links, by name, that lead from a pool to a pool."""
        if a == b:
            return []
        up, between, down = self.spec.uplinks.get(a), self.spec.between.get((a, b)), self.spec.uplinks.get(b)
        named = ((f"pool {a} up", up), (f"{a} to {b}", between), (f"pool {b} down", down))
        return [(name, wire) for name, wire in named if wire is not None]

    def _find(self, source: str, target: str) -> Way:
        spec = self.spec
        a, b = self._pool.get(source, ""), self._pool.get(target, "")
        wires = self.wires(a, b)
        for name, wire in wires:
            self._link(name, wire.bandwidth)
        names = [f"{source} up", *(name for name, _ in wires), f"{target} down"]
        links = tuple(self._number[name] for name in names if name in self._number)
        bandwidth = min((self.capacity[n] for n in links), default=0.0)
        latency = spec.latency + spec.overhead + sum(wire.latency for _, wire in wires)
        return Way(links, bandwidth, latency, sum(wire.price for _, wire in wires) / 1e9, (a, b))
