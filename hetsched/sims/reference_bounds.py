"""Reference cases of tiled factorisations on cores and devices: lower bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .bounds import area, combined, critical_path
from .verdict import Verdict
from .workloads.tiles import FACTORISATIONS

__all__ = ["compare_bounds"]

_TOLERANCE = 1e-3


def compare_bounds(cases: Sequence[Mapping[str, Any]]) -> Iterator[Verdict]:
    """Compare the three bounds of each case; the difference is the largest of them."""
    for case in cases:
        times = {kernel: dict(zip(("cpu", "gpu"), both, strict=True)) for kernel, both in case["times_ms"].items()}
        workload = FACTORISATIONS[case["dag"]](case["N"], times)
        slots = {"cpu": float(case["cpus"]), "gpu": float(case["gpus"])}
        found = {
            "cp": critical_path(workload, slots),
            "area": area(workload, slots),
            "lp": combined(workload, slots),
        }
        worst = max(abs(value / case[name] - 1.0) for name, value in found.items() if name in case)
        name = f"{case['dag']} {case['N']} {case['platform']}"
        yield Verdict(name, found["lp"], case["lp"], worst, worst <= _TOLERANCE)
