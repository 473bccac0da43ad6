"""``faults``: seeded runs in which things go wrong."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack

import click

from hetsched.sims.faults.case import make_case
from hetsched.sims.faults.shrink import shrink, tell
from hetsched.sims.faults.verdict import what_is_wrong

from .showing import progress

__all__ = ["faults"]

_PART = 100


@click.command()
@click.option("--seeds", default=2000, show_default=True, type=click.IntRange(1), help="How many seeds to run.")
@click.option("--from", "first", default=0, show_default=True, help="The first of them.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1), help="Processes that share the work.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def faults(seeds: int, first: int, jobs: int, as_json: bool) -> None:
    """Run small random cases with losses, silences, errors and full disks.

    In each, the state of every mind is checked after every event, every result that was wanted has to be right, and
    nothing may be left behind. A seed that fails is printed with a case as small as can be that fails likewise, and the
    exit status is 1.
    """
    wrong: dict[int, str] = {}
    starts = list(range(first, first + seeds, _PART))
    with progress("faults", len(starts)) as told, ExitStack() as stack:
        each: Callable[..., Iterator[dict[int, str]]] = map
        if jobs > 1:
            each = stack.enter_context(ProcessPoolExecutor(jobs)).map
        for found in each(_part, starts, [first + seeds] * len(starts)):
            wrong.update(found)
            told()
    if as_json:
        click.echo(json.dumps({"seeds": seeds, "from": first, "failed": wrong}))
    else:
        for seed, why in wrong.items():
            click.echo(f"seed {seed}: {why}")
        if wrong:
            _show_smallest(min(wrong), wrong[min(wrong)])
        click.echo(f"{seeds} seeds from {first}: {len(wrong) or 'none'} failed")
    sys.exit(bool(wrong))


def _part(start: int, end: int) -> dict[int, str]:
    """The seeds of a part that fail, and why."""
    verdicts = {seed: what_is_wrong(make_case(seed)) for seed in range(start, min(start + _PART, end))}
    return {seed: why for seed, why in verdicts.items() if why is not None}


def _show_smallest(seed: int, why: str) -> None:
    kind = why.split(":", maxsplit=1)[0]
    small = shrink(make_case(seed), lambda case: (what_is_wrong(case) or "").startswith(kind))
    click.echo(f"\nThe smallest case found that fails like seed {seed}:\n{tell(small)}\n{what_is_wrong(small)}\n")
    click.echo(f"Again: python -m hetsched.sims faults --from {seed} --seeds 1")
