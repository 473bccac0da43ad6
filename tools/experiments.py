"""Write the answers of the experiments in sims/ into docs/experiments/: a page for each, with its table and a picture.

    python tools/experiments.py [NAME ...]

Without names all are run, which takes some minutes. The exit status is 1 where an expectation does not hold.
"""

from __future__ import annotations

import sys
from pathlib import Path

from hetsched.sims.drawing import draw_bars
from hetsched.sims.expectation import judge
from hetsched.sims.experiment import Experiment, read_experiment
from hetsched.sims.measures import MEASURES
from hetsched.sims.report import table_of
from hetsched.sims.running import orders_of, run_all
from hetsched.sims.statistics import bootstrap, mean

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "experiments"


def page(path: Path) -> bool:
    """Run an experiment and write its page; tell whether all is as expected."""
    experiment = read_experiment(path)
    measured: dict[str, list[dict[str, float]]] = {}
    for cell in run_all(orders_of(experiment)):
        measured.setdefault(cell.cell, []).append(cell.measures)
    outcomes = [judge(e, measured) for e in experiment.expectations]
    columns, rows = table_of(experiment, measured)
    first = experiment.shown[0]
    values = {name: [run[first] for run in runs] for name, runs in measured.items()}
    bars = {name: (mean(found), *bootstrap(found)) for name, found in values.items()}
    picture = draw_bars(PAGES, experiment.name, "", first, bars)
    lines = [f"# {experiment.question}", ""]
    lines += experiment.notes.strip().splitlines()
    lines += ["", f"![{first}]({picture})", "", _row(columns), _row(["---"] * len(columns)), *map(_row, rows), ""]
    lines += [f"- {outcome.sentence()}" for outcome in outcomes]
    lines += ["", *_meanings(experiment), "", f"Again: `python -m hetsched.sims run sims/{path.name}`", ""]
    (PAGES / f"{experiment.name}.md").write_text("\n".join(lines), encoding="utf-8")
    return all(outcome.holds for outcome in outcomes)


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _meanings(experiment: Experiment) -> list[str]:
    return ["; ".join(f"*{name}*: {MEASURES[name]}" for name in experiment.shown) + "."]


def index() -> None:
    """Write the page that leads to the others."""
    lines = ["# Experiments", "", "Questions about scheduling, asked of the simulator and answered with figures.", ""]
    paths = sorted((ROOT / "sims").glob("*.toml"))
    lines += [f"- [{read_experiment(path).question}]({path.stem}.md)" for path in paths]
    lines += ["", "```{toctree}", ":hidden:", "", *(path.stem for path in paths), "```", ""]
    (PAGES / "index.md").write_text("\n".join(lines), encoding="utf-8")


def main(names: list[str]) -> int:
    """Write the pages."""
    PAGES.mkdir(exist_ok=True)
    right = True
    for path in sorted((ROOT / "sims").glob("*.toml")):
        if not names or path.stem in names:
            held = page(path)
            print(f"{path.stem}: {'as expected' if held else 'NOT as expected'}", flush=True)
            right = right and held
    index()
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
