"""A picture of a graph's layers in the colours of their pools."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hetsched.core.pools import Plan
from hetsched.errors import HetschedError
from hetsched.graph.spreading import is_propagating

from .crossing import names
from .planning import Planned, plan_of
from .report import readable

__all__ = ["visualize_pools"]

_COLOURS = ("#8fbce6", "#f2b76b", "#a5d6a0", "#d9a3d9", "#e6d36e", "#e89b93", "#9fd9d3", "#c3b3e3")
_FREE, _CROSSING, _INSIDE = "#eeeeee", "#c62828", "#777777"


def visualize_pools(*xs: Any, filename: str | None = "pools.svg") -> Any:
    """Draw the layers of dask collections in the colours of their pools; what crosses between pools is drawn in red.

    The more bytes cross, the wider the line; a legend names the pools and the sum. Pools are those that were said, or,
    where propagation is on, those that follow from them. The format is that of the file's name, such as ``.svg``,
    ``.png``, ``.pdf``; ``.dot`` needs no program to draw it. Returns the graphviz graph, which notebooks show;
    ``filename=None`` writes no file.

    Raises ImportError without the ``graphviz`` package, HetschedError without Graphviz's program ``dot``.
    """
    planned = plan_of(xs)
    on = is_propagating()
    places = planned.plan.places if on else _said(planned.plan)
    graph = _draw(planned, places, on)
    if filename is None:
        return graph
    path = Path(filename)
    suffix = path.suffix.removeprefix(".") or "svg"
    if suffix in ("dot", "gv"):
        path.write_text(graph.source, encoding="utf-8")
        return graph
    from graphviz import ExecutableNotFound

    try:
        drawn = graph.pipe(format=suffix)
    except ExecutableNotFound:
        raise HetschedError(
            "the program dot, which draws the picture, is not on the PATH: install Graphviz (apt-get install graphviz, "
            f"conda install graphviz), or have the graph written as text: filename='{path.stem}.dot'"
        ) from None
    path.with_suffix(f".{suffix}").write_bytes(drawn)
    return graph


def _said(plan: Plan) -> list[int]:
    allowed = plan.problem.allowed
    return [
        -1 if layer.pools is None or len(layer.pools) > 1 else allowed[n][0]
        for n, layer in enumerate(plan.problem.layers)
    ]


def _draw(planned: Planned, places: Sequence[int], on: bool) -> Any:
    try:
        from graphviz import Digraph
    except ImportError as error:
        raise ImportError("visualize_pools needs the graphviz package: pip install 'hetsched[plots]'") from error
    problem = planned.plan.problem
    nodes = [n for n, layer in enumerate(planned.groups.layers) if layer.name]
    most = max([problem.weights[n] for n in nodes], default=1) or 1
    graph = Digraph("pools", graph_attr={"rankdir": "BT", "fontname": "Helvetica", "labelloc": "b"})
    graph.attr("node", shape="box", style="filled,rounded", fontname="Helvetica", fontsize="11")
    graph.attr("edge", fontname="Helvetica", fontsize="10")
    for n in nodes:
        pool = places[n] if not on or planned.plan.restricted[n] is not None else -1
        graph.node(str(n), label=_label(planned, n), fillcolor=_FREE if pool < 0 else _COLOURS[pool % len(_COLOURS)])
    total = unknown = 0
    for n in nodes:
        here = places[n]
        into = {places[reader] for reader in problem.readers[n]} - {here, -1} if here >= 0 else set()
        if problem.unknown[n]:
            unknown += len(into)
        else:
            total += problem.weights[n] * len(into)
        for reader in problem.readers[n]:
            _edge(graph, planned, n, reader, here >= 0 and places[reader] in into, most)
    graph.attr(label=_legend(planned, places, total, unknown, on))
    return graph


def _edge(graph: Any, planned: Planned, n: int, reader: int, crosses: bool, most: int) -> None:
    problem = planned.plan.problem
    if not crosses:
        graph.edge(str(n), str(reader), color=_INSIDE)
        return
    width = 1.5 + 4.5 * math.sqrt(problem.weights[n] / most)
    label = "? B" if problem.unknown[n] else readable(problem.weights[n])
    graph.edge(str(n), str(reader), color=_CROSSING, penwidth=f"{width:.1f}", label=f" {label}", fontcolor=_CROSSING)


def _label(planned: Planned, n: int) -> str:
    layer = planned.groups.layers[n]
    head, dash, tail = layer.name.rpartition("-")
    name = head if dash and len(tail) >= 16 else layer.name
    size = "unknown size" if layer.nbytes is None else readable(layer.nbytes)
    return f"{name[:40]}\\n{size}".replace('"', "'")


def _legend(planned: Planned, places: Sequence[int], total: int, unknown: int, on: bool) -> str:
    problem = planned.plan.problem
    used = sorted({place for place in places if place >= 0})
    cells = [
        f'<TD BGCOLOR="{_COLOURS[n % len(_COLOURS)]}"> pool {html.escape(names(problem)[n])} </TD>' for n in used
    ]
    cells.append(f'<TD BGCOLOR="{_FREE}"> any worker </TD>')
    words = f"{readable(total)} cross" + (f", and {unknown} results of unknown size" if unknown else "")
    cells.append(f"<TD> {words}; propagation is {'on' if on else 'off'} </TD>")
    return f'<<TABLE BORDER="0" CELLBORDER="1" CELLSPACING="0" CELLPADDING="5"><TR>{"".join(cells)}</TR></TABLE>>'
