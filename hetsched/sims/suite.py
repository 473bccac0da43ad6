"""The scenarios that policies are compared on unless a person names others: a workload of each kind on 8x4 cores."""

from __future__ import annotations

from .model import Machine, Submission
from .network.spec import NetworkSpec
from .scenario import Scenario
from .workloads.arrays import ARRAYS
from .workloads.elementary import ELEMENTARY
from .workloads.mixed import MIXED

__all__ = ["suite"]


def suite() -> list[tuple[str, Scenario]]:
    """A name and a scenario for each, durations to be learned, 128 MB/s, shared fairly."""
    machines = [Machine(f"w{n}", 4) for n in range(8)]
    network = NetworkSpec("maxmin", 128e6)
    makers = {**ELEMENTARY, **ARRAYS, "search": MIXED["search"]}
    return [
        (name, Scenario([Submission(make())], machines, network, delay=0.001, overhead=0.0002))
        for name, make in makers.items()
    ]
