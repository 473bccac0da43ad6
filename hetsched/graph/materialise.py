"""From what dask hands to a ``get`` to one plain mapping, with the annotations of every key.

Annotations live on the layers of a HighLevelGraph, and dask's low-level optimisation replaces the layers by one plain
mapping. So where there are any, only the optimisation that keeps layers is let run, and where an optimiser keeps none
(that of bags) the layers it was given are read instead. Fusion of chains is done again afterwards, by
:mod:`hetsched.graph.fuse`, which knows about annotations, and so is the joining of slices, by
:mod:`hetsched.graph.slices`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

import dask
from dask._expr import HLGExpr, _AnnotationsTombstone, _HLGExprSequence
from dask.highlevelgraph import HighLevelGraph, Layer
from dask.utils import ensure_dict

from hetsched.core.annotations import resolve, validate, varies
from hetsched.core.types import Key

from .carried import some_carry
from .request import flat_keys

__all__ = ["Material", "materialise"]

_configuring = threading.RLock()

_FUSED_BY_DASK = ("dask.array", "dask.bag")
"""The collections whose own optimisation fuses chains, and so has to be made up for where it was kept from it."""


class Material(NamedTuple):
    """A graph as one mapping, the annotations of those keys that have any, and whether chains are to be fused."""

    graph: Mapping[Key, Any]
    notes: dict[Key, dict[str, Any]]
    fuse: bool


def materialise(dsk: Any) -> Material:
    """Take any form of graph: an expression, a HighLevelGraph, a mapping.

    Raises AnnotationError, naming the annotation, where a known one has a bad value.
    """
    if isinstance(dsk, HighLevelGraph):
        return _from_layers([dsk], False)
    if isinstance(dsk, Mapping):
        return Material(dsk, {}, False)
    if isinstance(dsk, _HLGExprSequence):
        return _from_expressions(dsk.operands)
    if isinstance(dsk, HLGExpr):
        return _from_expressions([dsk])
    return Material(dsk.__dask_graph__(), {}, False)


def _from_expressions(expressions: list[HLGExpr]) -> Material:
    graphs: list[HighLevelGraph | Mapping[Key, Any]] = []
    fuse = False
    user_wants_fusion = dask.config.get("optimization.fuse.active", None) is not False
    for expression in expressions:
        graph, mine = _optimised(expression.hlg, expression.low_level_optimizer, _keys_of(expression))
        fuse = fuse or mine
        graphs.append(graph)
    return _from_layers(graphs, fuse and user_wants_fusion)


def _optimised(hlg: HighLevelGraph, optimizer: Any, keys: Any) -> tuple[HighLevelGraph | Mapping[Key, Any], bool]:
    if optimizer is None:
        return hlg, False
    annotated = any(layer.annotations for layer in hlg.layers.values())
    by_dask = str(getattr(optimizer, "__module__", "")).startswith(_FUSED_BY_DASK)
    if by_dask and not annotated and not _is_array(optimizer):
        annotated = some_carry(hlg)  # that of bags makes calls lazy, so that they would run in their readers' tasks
    if not annotated and (not by_dask or not _is_array(optimizer)):
        return optimizer(hlg, keys), False
    # The first keeps the layers; the second keeps dask from merging layers whose annotations differ.
    # dask's configuration is the process's: overlapping changes of it would not be undone in their order.
    with _configuring, dask.config.set({"optimization.fuse.active": False, "optimization.annotations.fuse": False}):
        graph = optimizer(hlg, keys)
    if annotated and not isinstance(graph, HighLevelGraph):
        graph = hlg.cull(set(flat_keys(keys)))  # type: ignore[arg-type]  # dask says narrower than it takes
    return graph, by_dask


def _keys_of(expression: Any) -> Any:
    return expression.__dask_keys__()


def _is_array(optimizer: Any) -> bool:
    return str(getattr(optimizer, "__module__", "")).startswith("dask.array")


def _from_layers(graphs: list[HighLevelGraph | Mapping[Key, Any]], fuse: bool) -> Material:
    merged: dict[Key, Any] = {}
    notes: dict[Key, dict[str, Any]] = {}
    for graph in graphs:
        if not isinstance(graph, HighLevelGraph):
            merged.update(ensure_dict(graph))
            continue
        for layer in graph.layers.values():
            merged.update(layer.items())
            if layer.annotations:
                _annotate(notes, layer, layer.annotations)
    return Material(merged, notes, fuse)


def _annotate(notes: dict[Key, dict[str, Any]], layer: Layer, annotations: Mapping[str, Any]) -> None:
    if not varies(annotations):
        notes.update(dict.fromkeys(layer, validate(annotations)))
        return
    for key in layer:
        called = {name: value(key) if callable(value) else value for name, value in annotations.items()}
        # What delayed makes of several annotated values is one layer, where a tombstone says that a key had none.
        found = {name: value for name, value in called.items() if not isinstance(value, _AnnotationsTombstone)}
        if found:
            notes[key] = resolve(found, key)
