"""How well GPU tasks are told from others, on the corpus in tests/gpu_corpus, and what telling costs.

Run it as ``python benchmarks/gpu_detection.py``. Stand-ins take the place of all GPU libraries (``--real``: of those
alone that are not installed). Where inputs and results live is as the corpus says; only code is really looked at.

Recall is the share of GPU tasks that are found, precision the share of GPU tasks among what is taken for one. What
depends on its input is no GPU task to the inspector of code, which has no input; with inputs it counts twice, once on
the host and once on a device.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import timeit
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from time import process_time
from typing import NamedTuple

import cloudpickle
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from gpu_corpus.entries import DEPENDS, GPU, Entry
from gpu_corpus.loading import PARTS, corpus

from hetsched.core.evidence import STRONG
from hetsched.gpu import code, probes
from hetsched.gpu.objects import cuda_nbytes


class Case(NamedTuple):
    """A task: whether it is a GPU task, whether code says so, inputs and results say so, or its run."""

    name: str
    right: bool
    code: bool
    values: bool
    run: bool


def convicts(func: Callable[..., object]) -> bool:
    """Whether code alone is enough for a verdict."""
    return any(evidence.weight >= STRONG for evidence in code.evidence_of(func))


def cases_of(entry: Entry) -> list[Case]:
    """The tasks that an entry stands for."""
    by_code = convicts(entry.func)
    if entry.answer == DEPENDS:
        return [Case(entry.name, there, by_code, there, there) for there in (False, True)]
    on_device = "device" in (entry.takes, entry.gives)
    return [Case(entry.name, entry.answer == GPU, by_code, on_device, entry.seen)]


def rates(judged: Iterable[tuple[bool, bool]]) -> tuple[float, float]:
    """Recall and precision of pairs of (is one, is taken for one)."""
    pairs = list(judged)
    found = sum(right and taken for right, taken in pairs)
    return found / sum(right for right, _ in pairs), found / max(1, sum(taken for _, taken in pairs))


def report(title: str, judged: Iterable[tuple[str, bool, bool]], *, show: bool = True) -> None:
    """Print one row, and what was judged wrong."""
    rows = list(judged)
    recall, precision = rates((right, taken) for _, right, taken in rows)
    print(f"{title:44s} recall {recall:.3f}   precision {precision:.3f}   ({len(rows)} tasks)")
    if show:
        for name, right, taken in rows:
            if right != taken:
                print(f"    {'missed' if right else 'wrongly convicted'}: {name}")


def judge(entries: list[Entry], others: dict[str, list[tuple[str, bool, bool]]]) -> None:
    """Print all rates."""
    cases = [case for entry in entries for case in cases_of(entry)]
    report("code alone", ((e.name, e.answer == GPU, convicts(e.func)) for e in entries))
    for half in ("before_", "after_"):
        some = [e for e in entries if e.name.startswith(half)]
        says = "written before the inspector" if half == "before_" else "written after it"
        report(f"  of those {says}", ((e.name, e.answer == GPU, convicts(e.func)) for e in some), show=False)
    for title, rows in others.items():
        report(f"  {title}", rows, show=False)
    report("inputs and results alone", ((c.name, c.right, c.values) for c in cases), show=False)
    report("all together, after a first task", ((c.name, c.right, c.code or c.values or c.run) for c in cases))


def in_pickles(entries: list[Entry]) -> list[tuple[str, bool, bool]]:
    """What pickles by value say."""
    with contextlib.ExitStack() as stack:
        for part in PARTS:
            module = sys.modules[f"gpu_corpus.{part}"]
            cloudpickle.register_pickle_by_value(module)
            stack.callback(cloudpickle.unregister_pickle_by_value, module)
        dumped = []
        for entry in entries:
            with contextlib.suppress(TypeError):  # those with locks or weak references in them
                dumped.append((entry, cloudpickle.dumps(entry.func)))
    return [
        (e.name, e.answer == GPU, any(x.weight >= STRONG for x in code.evidence_in_pickle(data))) for e, data in dumped
    ]


def microseconds(statement: str, number: int = 10_000, **names: object) -> float:
    """What a statement costs: the best of several rounds."""
    return min(timeit.repeat(statement, globals=names, number=number, repeat=60)) / number * 1e6


def never_seen(entries: list[Entry]) -> float:
    """CPU microseconds that a function takes on average which was not seen before."""
    funcs = [e.func for e in entries if isinstance(e.func, types.FunctionType)]
    best = float("inf")
    for _ in range(9):
        code.forget()
        start = process_time()
        for func in funcs:
            code.evidence_of(func)
        best = min(best, (process_time() - start) / len(funcs))
    return best * 1e6


def speed(func: Callable[..., object], fresh: float) -> None:
    """Print what telling costs, beside what it may; no stand-in is loaded now."""
    array, numbers, probe = np.arange(10), list(range(100)), probes.Probe()
    code.evidence_of(func)

    size = {"size": cuda_nbytes}
    rows: list[tuple[str, float, float | None]] = [
        ("cuda_nbytes of a numpy array", microseconds("size(x)", x=array, **size), 0.5),
        ("cuda_nbytes of a list of 100 numbers", microseconds("size(x)", 1_000, x=numbers, **size), None),
        ("a function that was seen before", microseconds("look(func)", look=code.evidence_of, func=func), 0.2),
        ("a function that was not, of the corpus", fresh, 100.0),
    ]
    with contextlib.suppress(ImportError):
        import pandas as pd

        frame = pd.DataFrame({"a": [1.0]})
        rows.insert(1, ("cuda_nbytes of a DataFrame", microseconds("size(x)", x=frame, **size), 0.5))
    if not probes.active():
        cost = microseconds("probe.start(); probe.stop()", probe=probe)
        rows.append(("a probe around a task, no library loaded", cost, 2.0))
    for title, cost, limit in rows:
        print(f"{title:44s} {cost:8.3f} us" + (f"   (at most {limit:g})" if limit else ""))


def main() -> None:
    """Judge, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--real", action="store_true", help="use the libraries that are installed")
    options = parser.parse_args()
    others = {}
    with corpus(telling=False) as entries:
        others["where stand-ins tell nothing of themselves"] = [
            (e.name, e.answer == GPU, convicts(e.func)) for e in entries
        ]
    code.forget()
    with corpus(real=options.real) as entries:
        answers = {answer: sum(e.answer == answer for e in entries) for answer in ("gpu", "cpu", "depends")}
        print(f"{len(entries)} functions: " + ", ".join(f"{n} {answer}" for answer, n in answers.items()))
        others["read out of pickles"] = in_pickles(entries)
        judge(entries, others)
        func = next(e.func for e in entries if isinstance(e.func, types.FunctionType))
        fresh = never_seen(entries)
    print()
    speed(func, fresh)


if __name__ == "__main__":
    main()
