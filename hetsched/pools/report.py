"""What propagation does with a graph, layer by layer, and the bytes it saves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from hetsched.core.pools import Reason
from hetsched.pool_links import prices

from . import crossing
from .crossing import Crossing, Link
from .planning import Planned, plan_of

__all__ = ["PoolReport", "PoolRow", "pool_report", "readable"]


class PoolRow(NamedTuple):
    """A layer: its tasks, the bytes of its results (None: unknown) and where those are known from, its pool and why.

    ``pool`` is what it is restricted to, a name or several, None for nothing. ``saves`` are the bytes that this saves
    (in steps of a price where links have prices), ``elsewhere`` the bytes that would cross because of this layer in
    each pool that it might be in, all others staying as they are (None: unknown).
    """

    layer: str
    tasks: int
    nbytes: int | None
    source: str
    pool: str | tuple[str, ...] | None
    reason: Reason
    saves: int
    elsewhere: Mapping[str, int | None]


class PoolReport:
    """What propagation makes of a graph. ``rows`` are its layers; ``print`` it for a table.

    ``before`` and ``after`` are, by link, the bytes that cross without and with propagation. Without, a layer of which
    no pool was said is taken to run in all pools alike. ``unknown`` are the layers whose size is not known: each is
    counted like one of middle size when pools are chosen, and not counted in the sums.
    """

    def __init__(self, found: Planned) -> None:
        groups, plan = found.groups, found.plan
        problem = plan.problem
        self.rows = [
            PoolRow(
                layer.name, len(groups.tasks[n]), layer.nbytes, groups.sources[n], _shown(plan.restricted[n]),
                plan.reasons[n], plan.saves[n],
                crossing.elsewhere(problem, plan.places, n) if problem.placed[n] and problem.pools else {},
            )
            for _, n, layer in sorted((problem.depths[n], n, layer) for n, layer in enumerate(groups.layers))
        ]  # fmt: skip
        self.before: dict[Link, Crossing] = crossing.expected(problem) if problem.pools else {}
        self.after: dict[Link, Crossing] = crossing.planned(problem, plan.places) if problem.pools else {}
        self.unknown = [row.layer for row in self.rows if row.nbytes is None]
        self._prices = prices()

    @property
    def bytes_before(self) -> float:
        """All bytes of known size that cross without propagation."""
        return crossing.total(self.before)

    @property
    def bytes_after(self) -> float:
        """All bytes of known size that cross with propagation."""
        return crossing.total(self.after)

    def __str__(self) -> str:
        lines = [self._link_line(link) for link in self.before]
        lines = lines or ["no pool is said anywhere in this graph"]
        if self.unknown:
            lines.append(f"{len(self.unknown)} of {len(self.rows)} layers are of unknown size, and not in these sums")
        width = max([len(row.layer) for row in self.rows], default=0)
        for row in self.rows:
            lines.append(f"  {row.layer:<{width}}  {_size(row):>12}  {_name(row.pool):<8}  {self._why(row)}".rstrip())
        return "\n".join(lines)

    __repr__ = __str__

    def _link_line(self, link: Link) -> str:
        one, other = link
        before, after = self.before[link], self.after[link]
        price = self._prices.get((one, other), self._prices.get((other, one)))
        money = f" (price {before.nbytes / 1e9 * price:.3g} -> {after.nbytes / 1e9 * price:.3g})" if price else ""
        return f"{one} <-> {other}: {_sum(before)} without propagation, {_sum(after)} with it{money}"

    def _why(self, row: PoolRow) -> str:
        crossing = {pool: "unknown" if n is None else readable(n) for pool, n in row.elsewhere.items()}
        others = [f"{text} in {pool}" for pool, text in crossing.items() if pool != row.pool]
        return row.reason.value + (f"; would cross: {', '.join(others)}" if others else "")


def pool_report(*xs: Any) -> PoolReport:
    """Say what propagation makes of dask collections that would be computed together, whether it is on or not.

    Raises TypeError for what is no collection, and what reading its graph raises.
    """
    return PoolReport(plan_of(xs))


def readable(nbytes: float) -> str:
    """Bytes in a unit of their size."""
    for unit in ("B", "kB", "MB", "GB"):
        if nbytes < 1000:
            return f"{nbytes:.3g} {unit}" if nbytes < 100 else f"{nbytes:.0f} {unit}"
        nbytes /= 1000
    return f"{nbytes:.3g} TB"


def _shown(pools: tuple[str, ...] | None) -> str | tuple[str, ...] | None:
    return pools[0] if pools is not None and len(pools) == 1 else pools


def _name(pool: str | tuple[str, ...] | None) -> str:
    return "-" if pool is None else pool if isinstance(pool, str) else "|".join(pool)


def _size(row: PoolRow) -> str:
    return "unknown" if row.nbytes is None else readable(row.nbytes)


def _sum(found: Crossing) -> str:
    more = f" and {found.unknown} of unknown size" if found.unknown else ""
    return readable(found.nbytes) + more
