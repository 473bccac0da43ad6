"""Have dask's optimiser of arrays make one layer of two only where that changes no annotation.

Told not to merge annotations, it still joins layers whose annotations are equal, and then computes with them: the
largest of the priorities, a set of a worker's name. That fails on callables, takes a name apart into letters, and gives
two functions the one ``duration``. So while it runs each layer has a stand-in for its annotations.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from copy import copy
from typing import Any, Final

from dask.highlevelgraph import HighLevelGraph, Layer, MaterializedLayer

from hetsched.core.annotations import varies
from hetsched.core.rules import REGISTERED
from hetsched.core.types import Key, prefix_of

__all__ = ["Named", "guarded", "named_by", "unguarded"]

Named = Callable[[str], bool]

_STAND_IN: Final = "hetsched"


class _Said:
    """Stands for the annotations of a layer; equal to another where a layer of both may have the annotations of one."""

    __slots__ = ("alone", "annotations")

    def __init__(self, annotations: Mapping[str, Any] | None, alone: bool) -> None:
        self.annotations = annotations
        said = annotations or {}
        self.alone = alone or "duration" in said or varies(said) or not said.keys().isdisjoint(REGISTERED)

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, _Said) or self.alone or other.alone:
            return self is other
        try:
            return bool(self.annotations == other.annotations)
        except Exception:  # values of names that are not ours
            return False

    __hash__ = None  # type: ignore[assignment]


def named_by(names: Collection[Key]) -> Named:
    """Tells of a layer whether some of its keys are named, by key or by prefix."""
    said = {name[0] if type(name) is tuple and name else name for name in names}
    return lambda layer: layer in said or prefix_of(layer) in said


def guarded(hlg: HighLevelGraph, named: Named) -> HighLevelGraph:
    """The same graph, with stand-ins. A layer that is named is joined with no other. ``hlg`` stays as it is."""
    layers = {}
    for name, layer in hlg.layers.items():
        alone = named(name)
        if layer.annotations or alone:
            layer = copy(layer)
            layer.annotations = {_STAND_IN: _Said(layer.annotations, alone)}
        layers[name] = layer
    return HighLevelGraph(layers, hlg.dependencies, hlg.key_dependencies)


def unguarded(hlg: HighLevelGraph, before: HighLevelGraph) -> HighLevelGraph:
    """The graph that dask made of one with stand-ins, ``before``, with annotations again."""
    for layer in hlg.layers.values():
        said = _said(layer)
        if said is None and isinstance(layer, MaterializedLayer):  # dask loses those of layers with their roots
            key: Any = next(iter(layer), None)
            made = before.layers.get(key[0] if type(key) is tuple and key else key)
            said = None if made is None else _said(made)
        if said is not None:
            layer.annotations = said.annotations
    return hlg


def _said(layer: Layer) -> _Said | None:
    said = (layer.annotations or {}).get(_STAND_IN)
    return said if isinstance(said, _Said) else None
