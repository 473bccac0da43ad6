"""Pictures of a run: what each slot did when, and how full the workers were. PNG, SVG and a trace for Perfetto."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from hetsched.core.types import prefix_of
from hetsched.errors import HetschedError

from .engine import Simulation
from .perfetto import write_perfetto

__all__ = ["draw", "draw_bars"]

_MOST_ROWS: Final = 96
_PALETTE: Final = (
    "#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#edc948", "#ff9da7", "#9c755f", "#bab0ac",
)  # fmt: skip


def draw(simulation: Simulation, folder: Path, name: str, title: str) -> tuple[str, ...]:
    """Write the pictures of a run into a folder; returns the names of the files.

    Raises HetschedError where matplotlib is not installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for kind, paint in (("gantt", _gantt), ("memory", _memory)):
        figure = paint(simulation, title)
        for ending in ("png", "svg"):
            undated = {"Date": None} if ending == "svg" else {}
            figure.savefig(folder / f"{name}.{kind}.{ending}", dpi=110, metadata=undated)
            found.append(f"{name}.{kind}.{ending}")
    write_perfetto(simulation, folder / f"{name}.trace.json")
    return (*found, f"{name}.trace.json")


def _figure(width: float, height: float) -> Any:
    try:
        import matplotlib
    except ImportError:
        raise HetschedError("drawing needs matplotlib: pip install 'hetsched[sims]'") from None
    matplotlib.use("Agg")
    # Equal runs give equal files.
    matplotlib.rcParams["svg.hashsalt"] = "hetsched"
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _gantt(simulation: Simulation, title: str) -> Any:
    """Bars for tasks, coloured by their kind, a row for each slot; thin grey ones for what a worker receives."""
    trace, tasks = simulation.trace, simulation.world.tasks
    runs = list(trace.task_runs())
    places = sorted({(trace.number_of(r.worker), r.executor, r.slot) for r in runs})[:_MOST_ROWS]
    row = {place: n for n, place in enumerate(places)}
    kinds: dict[str, list[tuple[int, float, float]]] = {}
    for r in runs:
        place = row.get((trace.number_of(r.worker), r.executor, r.slot))
        if place is not None:
            kinds.setdefault(prefix_of(tasks[r.task].key), []).append((place, r.start, r.stop - r.start))
    figure = _figure(10, max(2.0, min(12.0, 0.16 * len(places) + 1.2)))
    axes = figure.add_subplot()
    last = {place[0]: n for place, n in row.items()}
    moves = [m for m in trace.transfer_runs() if trace.number_of(m.target) in last]
    axes.barh(
        [last[trace.number_of(m.target)] + 0.46 for m in moves], [m.ended - m.began for m in moves], 0.12,
        [m.began for m in moves], color="#999999", label="receives", rasterized=len(moves) > 2000,
    )  # fmt: skip
    for n, (kind, bars) in enumerate(sorted(kinds.items())):
        axes.barh(
            [bar[0] for bar in bars], [bar[2] for bar in bars], 0.8, [bar[1] for bar in bars],
            color=_PALETTE[n % len(_PALETTE)], edgecolor="white", linewidth=0.2, label=kind,
            rasterized=len(bars) > 2000,
        )  # fmt: skip
    names = [f"{trace.workers[w]} {executor} {slot}" for w, executor, slot in places]
    step = max(1, len(names) // 32)
    axes.set_yticks(range(0, len(names), step), names[::step], fontsize=6)
    axes.invert_yaxis()
    axes.set(xlabel="seconds", title=title)
    if 0 < len(kinds) <= 16:
        figure.legend(loc="outside right upper", fontsize=7, frameon=False)
    return figure


def _memory(simulation: Simulation, title: str) -> Any:
    """The bytes that each worker holds in memory, over time, and all of them together."""
    trace = simulation.trace
    figure = _figure(10, 3.2)
    axes = figure.add_subplot()
    now: dict[int, int] = {}
    lines: dict[int, tuple[list[float], list[float]]] = {}
    together: tuple[list[float], list[float]] = ([], [])
    for at, worker, used, _ in trace.memory:
        now[worker] = used
        xs, ys = lines.setdefault(worker, ([], []))
        xs.append(at)
        ys.append(used / 1e9)
        together[0].append(at)
        together[1].append(sum(now.values()) / 1e9)
    for xs, ys in lines.values():
        axes.step(xs, ys, where="post", linewidth=0.6, color=_PALETTE[0], alpha=0.5)
    axes.step(*together, where="post", color=_PALETTE[3], linewidth=1.4, label="all workers")
    axes.set(xlabel="seconds", ylabel="GB in memory", title=title)
    axes.set_ylim(bottom=0)
    if together[0]:
        axes.legend(fontsize=7, frameon=False)
    return figure


def draw_bars(folder: Path, name: str, title: str, measure: str, bars: dict[str, tuple[float, float, float]]) -> str:
    """Draw a measure of each cell, ``(mean, lower, upper)``; returns the name of the SVG file."""
    folder.mkdir(parents=True, exist_ok=True)
    figure = _figure(7, 0.6 + 0.36 * len(bars) + 0.5)
    axes = figure.add_subplot()
    names = list(bars)
    middle = [bars[cell][0] for cell in names]
    spread = [
        [max(0.0, m - bars[cell][1]) for m, cell in zip(middle, names, strict=True)],
        [max(0.0, bars[cell][2] - m) for m, cell in zip(middle, names, strict=True)],
    ]
    axes.barh(names, middle, 0.62, color=_PALETTE[0], xerr=spread, error_kw={"elinewidth": 0.8, "capsize": 2})
    axes.bar_label(axes.containers[-1], fmt="%.4g", padding=4, fontsize=8)
    axes.margins(x=0.15)
    axes.invert_yaxis()
    axes.tick_params(labelsize=8)
    axes.set_title(title, fontsize=9)
    axes.set_xlabel(measure, fontsize=8)
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    return f"{name}.svg"
