"""From a graph and the requested keys to what a scheduler is given."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from dask._task_spec import DataNode

from hetsched.core.annotations import combine, resolve, validate, varies
from hetsched.core.types import Key, TaskSpec, prefix_of
from hetsched.errors import AnnotationError
from hetsched.worker.collector import collector_paused

from .draft import Draft
from .fuse import fuse_chains
from .groups import Measured
from .materialise import materialise
from .reader import Reader
from .request import flat_keys
from .spreading import is_propagating, spread_pools

__all__ = ["Built", "build", "draft_of"]


class Built(NamedTuple):
    """``tasks`` in the order to start them, ``places`` of the requested keys that are tasks, ``values`` of the rest."""

    tasks: list[TaskSpec]
    places: dict[Key, int]
    values: dict[Key, Any]
    source: Mapping[Key, Any] = {}
    """The graph it was built of."""
    literals: Mapping[Key, Any] = {}
    """The values of all keys that no task makes, as far as they were spoken of."""
    annotations: Collection[Mapping[str, Any]] = ()
    """The annotations of the tasks, those of tasks annotated alike once; and perhaps some that others went before."""


def build(
    dsk: Any,
    keys: Any,
    around: Mapping[str, Any] | None = None,
    by_key: Mapping[Key, Mapping[str, Any]] | None = None,
    known: Mapping[Key, Any] | None = None,
    measured: Measured | None = None,
) -> Built:
    """Read any form of graph.

    ``around`` are annotations for every task, overridden by a layer's, by a callable's, and by those that ``by_key``
    gives to a key or to all keys of a prefix. ``known`` are values that need not be made; ``measured`` is asked for
    sizes that nothing else tells, where pools are propagated. Raises GraphError or AnnotationError as the graph
    deserves.
    """
    requested = flat_keys(keys)
    per_key = _PerKey(by_key) if by_key else None
    material = materialise(dsk, per_key.names if per_key is not None else ())
    graph = material.graph
    if known:
        graph = {**graph, **{key: DataNode(key, value) for key, value in known.items()}}
    with collector_paused(len(material.graph)):
        reader = Reader(graph, _notes(validate(around, per_key=True) if around else {}, material.notes))
        numbers = reader.read(requested)
        draft = reader.draft
        if draft.notes:
            draft.resolve()
        if per_key is not None:
            per_key.apply(draft)
        if is_propagating():
            spread_pools(draft, dsk, measured)
        if material.fuse:
            draft, renumbered = fuse_chains(draft, [n for n in numbers.values() if n >= 0], _joining())
            numbers = {key: renumbered[n] if n >= 0 else n for key, n in numbers.items()}
        tasks, place_of = draft.specs()
    places = {key: place_of[n] for key, n in numbers.items() if n >= 0}
    values = {key: reader.keys.values[key] for key, n in numbers.items() if n < 0}
    return Built(tasks, places, values, graph, reader.keys.values, draft.distinct.values())


def draft_of(dsk: Any, keys: Any, around: Mapping[str, Any] | None = None) -> tuple[Draft, dict[Key, int]]:
    """Read any form of graph as :func:`build` does, its tasks as they are before any is fused; raises the same.

    Returns the tasks and, for each key that is asked for, the number of its task, below 0 where it is a plain value.
    """
    material = materialise(dsk)
    reader = Reader(material.graph, _notes(validate(around, per_key=True) if around else {}, material.notes))
    numbers = reader.read(flat_keys(keys))
    if reader.draft.notes:
        reader.draft.resolve()
    return reader.draft, numbers


def _notes(
    around: dict[str, Any], layers: dict[Key, dict[str, Any]]
) -> Callable[[Key], dict[str, Any] | None] | None:
    """Look up the annotations of a key; tasks annotated alike share one dict, so that they can be told by identity."""
    if not around:
        return layers.get if layers else None
    combined: dict[int, dict[str, Any]] = {}

    def note(key: Key) -> dict[str, Any]:
        inner = layers.get(key)
        if inner is None:
            return around
        both = combined.get(id(inner))
        if both is None:
            both = combined[id(inner)] = combine(around, inner)
        return both

    return note


def _joining() -> Callable[[Any], Any]:
    """What joins slices of slices of arrays; where dask.array is not loaded there can be none."""
    if "dask.array" not in sys.modules:
        return list
    from .slices import join_slices

    return join_slices


class _PerKey:
    """Annotations given on the call, by key or prefix."""

    def __init__(self, given: Mapping[Key, Mapping[str, Any]]) -> None:
        if not isinstance(given, Mapping):
            raise AnnotationError(
                f"annotations= maps a key or a prefix to its annotations, as in {{'load': {{'retries': 2}}}}; "
                f"it is not {given!r:.200}"
            )
        self._given: dict[Key, dict[str, Any]] = {}
        for name, notes in given.items():
            if not isinstance(notes, Mapping):
                raise AnnotationError(
                    f"annotations= maps a key or a prefix to its annotations, as in {{{name!r}: {{'retries': 2}}}}; "
                    f"the value given for {name!r} is {notes!r}"
                )
            self._given[name] = validate(notes, per_key=True)
        self._varying = {name for name, notes in self._given.items() if varies(notes)}

    @property
    def names(self) -> Collection[Key]:
        """The keys and prefixes that are spoken of."""
        return self._given.keys()

    def apply(self, draft: Draft) -> None:
        """Put them on the tasks; warn of a name that is no task's."""
        unused = dict.fromkeys(self._given)
        for number, key in enumerate(draft.keys):
            for name in (prefix_of(key), key):
                found = self._given.get(name)
                if found is not None:
                    note = draft.notes.get(number)
                    if name in self._varying:
                        found = resolve(found, key)
                    draft.annotate(number, combine(note, found) if note else found)
                    unused.pop(name, None)
        if unused:
            names = ", ".join(map(repr, unused))
            warnings.warn(f"annotations= names no task of this graph: {names}", UserWarning, stacklevel=4)
