"""Tasks by their layer, as :mod:`hetsched.core.pools` places them, and the pools put back onto the tasks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from hetsched.core.annotations import executor_of
from hetsched.core.pools import Layer, Plan
from hetsched.core.types import prefix_of

from .draft import Draft
from .sizes import Size
from .strands import NOWHERE, Strand, strands

__all__ = ["Groups", "Measured", "group", "restrict", "says_pool"]

Measured: TypeAlias = Callable[[Iterable[str]], Mapping[str, float]]
"""Asked for prefixes, tells the bytes of one result for those that were measured."""

_Said: TypeAlias = tuple[tuple[str, ...] | None, bool, bool]
_NOTHING: _Said = (None, False, False)
_NO_POOL: frozenset[str] = frozenset()
_UNKNOWN: tuple[int | None, str] = (None, "unknown")


class Groups(NamedTuple):
    """``layers`` to be placed, the numbers of the ``tasks`` of each, and the ``sources`` of their sizes."""

    layers: list[Layer]
    tasks: list[list[int]]
    sources: list[str]


def says_pool(notes: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a pool is said anywhere, so that there is something to propagate."""
    return any(note.get("pool") for note in {id(note): note for note in notes}.values())


def group(draft: Draft, sizes: Mapping[str, Size], measured: Measured | None = None) -> Groups:
    """Put tasks of one name, of which the same is said and which read from the same pools and layers, together.

    Sizes are taken from the layer's shape or rows, else from the hint ``nbytes``, else from what was measured.
    """
    kinds = _kinds(draft)
    index: dict[Hashable, int] = {}
    tasks: list[list[int]] = []
    group_of: list[int] = []
    about: list[tuple[Any, _Said]] = []
    for number, (name, said, _) in enumerate(kinds):
        place = index.get(kinds[number])
        if place is None:
            place = index[kinds[number]] = len(tasks)
            tasks.append([])
            about.append((name, said))
        tasks[place].append(number)
        group_of.append(place)
    names = [str(name) for name, _ in about]
    found = _bytes(draft, names, tasks, sizes, measured)
    layers = []
    for place, (_, (pools, forbidden, loose)) in enumerate(about):
        read = [d for number in tasks[place] for d in draft.deps[number]]
        inputs = [d for d in dict.fromkeys([group_of[d] for d in read]) if d != place] if read else ()
        layers.append(Layer(names[place], inputs, found[place][0], pools, forbidden, loose))
    return Groups(layers, tasks, [source for _, source in found])


def _kinds(draft: Draft) -> list[tuple[Any, _Said, Strand]]:
    """Of each task its name, what is said of it and what it leads back to, where more than one pool is said."""
    said_of: dict[int, _Said] = {}
    said = [_NOTHING] * len(draft)
    for number, note in draft.notes.items():
        if note:
            known = said_of.get(id(note))
            said[number] = said_of[id(note)] = _said(note) if known is None else known
    named = [
        (key[0] if type(key) is tuple and key else key, mine) for key, mine in zip(draft.keys, said, strict=True)
    ]
    pools = {pool for names, _, _ in said_of.values() for pool in names or ()}
    if len(pools) < 2:
        return [(name, mine, NOWHERE) for name, mine in named]

    def begins(number: int) -> frozenset[str] | None:
        names, forbidden, loose = said[number]
        return _NO_POOL if forbidden or loose else None if names is None else frozenset(names)

    found = strands(draft.deps, named, begins, len(pools))
    return [(name, mine, strand) for (name, mine), strand in zip(named, found, strict=True)]


def _said(note: Mapping[str, Any]) -> _Said:
    pool = note.get("pool", ())
    if pool:
        return (pool,) if isinstance(pool, str) else tuple(pool), False, False
    bound = bool(note.get("workers")) and not note.get("allow_other_workers")
    loose = bound or any((note.get("resources") or {}).values()) or executor_of(note) == "gpu"
    return None, pool is None and not loose, loose


def _bytes(
    draft: Draft, names: list[str], tasks: list[list[int]], sizes: Mapping[str, Size], measured: Measured | None
) -> list[tuple[int | None, str]]:
    notes = draft.notes
    found: list[tuple[int | None, str]] = []
    asked: dict[str, list[int]] = {}
    for place, (name, mine) in enumerate(zip(names, tasks, strict=True)):
        size = sizes.get(name)
        if size is not None:
            found.append((round(size.of([draft.keys[n] for n in mine])), size.source))
            continue
        hint = _hinted(notes, mine)
        if hint is not None:
            found.append((hint, "hint"))
            continue
        found.append(_UNKNOWN)
        if measured is not None:
            asked.setdefault(prefix_of(draft.keys[mine[0]]), []).append(place)
    known = measured(asked) if measured is not None and asked else {}
    for prefix, places in asked.items():
        if prefix in known:
            for place in places:
                found[place] = (round(known[prefix] * len(tasks[place])), "measured")
    return found


def _hinted(notes: Mapping[int, Mapping[str, Any]], mine: list[int]) -> int | None:
    """The sum of the hints, None where a task has none."""
    total = 0
    for number in mine:
        note = notes.get(number)
        hint = note.get("nbytes") if note else None
        if hint is None:
            return None
        total += hint
    return total


def restrict(draft: Draft, groups: Groups, plan: Plan) -> None:
    """Annotate the tasks of the layers that the plan restricts; tasks annotated alike share one dict."""
    for layer, mine, pools in zip(groups.layers, groups.tasks, plan.restricted, strict=True):
        if pools is None or pools == layer.pools:
            continue
        shared: dict[int, dict[str, Any]] = {}
        value = pools[0] if len(pools) == 1 else pools
        for number in mine:
            note = draft.notes.get(number) or {}
            noted = shared.get(id(note) if note else 0)
            if noted is None:
                noted = shared[id(note) if note else 0] = {**note, "pool": value}
            draft.notes[number] = noted
