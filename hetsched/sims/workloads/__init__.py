"""Where workloads come from: generators, files, recorded runs, dask graphs. One source a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hetsched.sims.model import Workload

from .arrays import ARRAYS
from .dask_graphs import from_dask
from .elementary import ELEMENTARY
from .mixed import MIXED
from .native import read_native, write_native
from .recorded import read_recorded
from .reference import read_reference
from .tiles import FACTORISATIONS
from .wfformat import read_wfformat

__all__ = ["FILES", "SOURCES", "from_dask", "read_native", "write_native"]

FILES: Mapping[str, Callable[..., Workload]] = {
    "file": read_native,
    "recorded": read_recorded,
    "reference": read_reference,
    "wfformat": read_wfformat,
}
"""What reads a workload from a file, its first argument ``path``."""

SOURCES: Mapping[str, Callable[..., Workload]] = {**ARRAYS, **ELEMENTARY, **FACTORISATIONS, **MIXED, **FILES}
"""What makes a workload, by the name that an experiment calls it by; the other words of its table are arguments."""
