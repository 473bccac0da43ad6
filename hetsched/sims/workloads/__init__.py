"""Where workloads come from: generators, files, recorded runs, dask graphs. One source a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hetsched.sims.model import Workload

from .tiles import FACTORISATIONS

__all__ = ["SOURCES"]

SOURCES: Mapping[str, Callable[..., Workload]] = {**FACTORISATIONS}
"""What makes a workload, by the name that an experiment calls it by; the other words of its table are arguments."""
