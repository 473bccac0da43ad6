"""Results as one HTML page that needs nothing beside it."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TypeAlias

from .expectation import Outcome
from .experiment import Experiment
from .measures import MEASURES
from .running import Cell
from .statistics import bootstrap, mean

__all__ = ["Measured", "Result", "table_of", "write_report"]

Measured: TypeAlias = "Mapping[str, Sequence[Mapping[str, float]]]"
"""The measures of each cell, by seed."""

Result: TypeAlias = "tuple[Experiment, Measured, Sequence[Outcome], Sequence[Cell]]"

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: 1em 0 } td, th { padding: .25em .8em; border-bottom: 1px solid #ddd }
td { text-align: right; font-variant-numeric: tabular-nums } td:first-child, th { text-align: left }
.no { color: #b00; font-weight: bold } img { max-width: 100% } small { color: #777 } details { margin: .5em 0 }
"""


def table_of(experiment: Experiment, cells: Measured) -> tuple[list[str], list[list[str]]]:
    """The columns and rows of an experiment: the mean of each measure that matters, with its interval over seeds."""
    rows = []
    for name, runs in cells.items():
        row = [name]
        for measure in experiment.shown:
            values = [run[measure] for run in runs]
            low, high = bootstrap(values)
            row.append(f"{mean(values):.4g}" + (f" ({low:.4g} .. {high:.4g})" if high > low else ""))
        rows.append(row)
    return ["", *experiment.shown], rows


def write_report(path: Path, results: Sequence[Result]) -> None:
    """Write a page of experiments, with the pictures that lie beside it built in."""
    parts = ["<!doctype html><meta charset='utf-8'><title>hetsched.sims</title>", f"<style>{_STYLE}</style>"]
    parts.append("<h1>Simulations</h1>")
    for experiment, cells, outcomes, drawn in results:
        parts.append(f"<h2>{escape(experiment.name)}</h2><p>{escape(experiment.question)}</p>")
        columns, rows = table_of(experiment, cells)
        head = "".join(f"<th title='{escape(MEASURES.get(c, ''))}'>{escape(c)}</th>" for c in columns)
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        parts.append(f"<table><tr>{head}</tr>{body}</table>")
        for outcome in outcomes:
            kind = "" if outcome.holds else " class='no'"
            parts.append(f"<p{kind}>{escape(outcome.sentence())}</p>")
        if experiment.notes:
            parts.append(f"<p>{escape(experiment.notes)}</p>")
        for cell in drawn:
            pictures = [_picture(path.parent / name) for name in cell.pictures if name.endswith(".svg")]
            if pictures:
                title = escape(f"{cell.cell}, seed {cell.seed}")
                parts.append(f"<details><summary>{title}</summary>{''.join(pictures)}</details>")
    parts.append("<p><small>GB are 10^9 bytes. Intervals hold 95% of resampled means over seeds.</small></p>")
    path.write_text("\n".join(parts), encoding="utf-8")


def _picture(path: Path) -> str:
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    return f"<img alt='{escape(path.name)}' src='data:image/svg+xml;base64,{data}'>"
