"""Workloads out of dask collections: the graph that hetsched would run, with durations that are pretended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from hetsched.core.types import Key, prefix_of
from hetsched.errors import HetschedError
from hetsched.sims.model import Task, Workload

__all__ = ["from_dask"]

Said: TypeAlias = "float | Mapping[str, Any] | Callable[[Key], Any] | None"


def from_dask(*collections: Any, durations: Said = None, sizes: Said = None, name: str = "dask") -> Workload:
    """The graph of dask collections as hetsched would run it: optimised, fused, with annotations.

    ``durations`` are seconds: one number, or a number (or one for each class of hardware, ``{"cpu": 4.0, "gpu": 0.5}``)
    by kind of task, or what a function says of a key. ``sizes`` are bytes of results, likewise. What is said of neither
    is as its annotations ``duration`` and ``nbytes`` say, else 0.1 s and no bytes.

    Raises HetschedError where there is nothing to compute.
    """
    from hetsched.graph.captured import capture

    built = capture(*collections)
    if built is None:
        raise HetschedError("there is no dask collection among what was given, or nothing in it to compute")
    tasks = []
    for spec in built.tasks:
        notes = spec.annotations or {}
        seconds = _said(durations, spec.key, notes.get("duration", 0.1))
        nbytes = _said(sizes, spec.key, notes.get("nbytes", 0))
        tasks.append(Task(spec.key, list(spec.dependencies), seconds, round(nbytes), spec.annotations))
    return Workload(name, tasks, sorted(set(built.places.values())))


def _said(said: Said, key: Key, otherwise: Any) -> Any:
    if said is None:
        return otherwise
    if callable(said):
        return said(key)
    if isinstance(said, Mapping):
        return said.get(prefix_of(key), otherwise)
    return said
