"""What the scheduler is told of tasks: durations and sizes as hints, or what it measures, or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetsched.core.annotations import executor_of
from hetsched.core.types import TaskSpec, prefix_of

from .model import Knowledge, Task

__all__ = ["kinds_of", "specs_of"]

_NONE: Mapping[str, Any] = {}


def specs_of(tasks: Sequence[Task], knowledge: Knowledge) -> list[TaskSpec]:
    """The tasks as a client would submit them.

    Unless the scheduler is to learn, each is a kind of its own, so that what was measured of others tells nothing of
    it: what is known of it is what its annotations ``duration`` and ``nbytes`` say. Where its seconds differ by class
    of hardware, ``durations`` says each.
    """
    if knowledge == "learned":
        return [TaskSpec(t.key, _no_function, (), None, t.dependencies, t.annotations) for t in tasks]
    hints = _hints(tasks, knowledge)
    shared: dict[Any, Mapping[str, Any]] = {}
    specs = []
    for n, (t, hint) in enumerate(zip(tasks, hints, strict=True)):
        annotations = t.annotations
        if hint is not None:
            same = (id(annotations), hint[1], tuple(hint[0].items()))
            found = shared.get(same)
            if found is None:
                found = shared[same] = _with_hints(annotations or _NONE, *hint)
            annotations = found
        # Neither a number nor anything else that a prefix leaves out is at its end.
        specs.append(TaskSpec(f"{prefix_of(t.key)}-{n}~", _no_function, (), None, t.dependencies, annotations))
    return specs


def kinds_of(tasks: Sequence[Task], knowledge: Knowledge) -> list[str]:
    """The kind of each task, where :func:`specs_of` hides it; else nothing."""
    return [] if knowledge == "learned" else [prefix_of(t.key) for t in tasks]


def _no_function(*_: Any) -> None:
    raise AssertionError("a simulated task was called")


def _classes(task: Task) -> dict[str, float]:
    seconds = task.seconds
    return {"": float(seconds)} if isinstance(seconds, int | float) else dict(seconds)


def _hints(tasks: Sequence[Task], knowledge: Knowledge) -> list[tuple[dict[str, float], int] | None]:
    match knowledge:
        case "exact":
            return [(_classes(t), t.nbytes) for t in tasks]
        case "user":
            return [None if t.hints is None else ({"": t.hints[0]}, t.hints[1]) for t in tasks]
        case "mean":
            return _means(tasks)
        case _:
            return [None] * len(tasks)


def _means(tasks: Sequence[Task]) -> list[tuple[dict[str, float], int] | None]:
    sums: dict[str, tuple[int, dict[str, float], int]] = {}
    for t in tasks:
        kind = prefix_of(t.key)
        count, seconds, nbytes = sums.get(kind, (0, {}, 0))
        for name, value in _classes(t).items():
            seconds[name] = seconds.get(name, 0.0) + value
        sums[kind] = (count + 1, seconds, nbytes + t.nbytes)
    means = {
        kind: ({name: value / count for name, value in seconds.items()}, round(nbytes / count))
        for kind, (count, seconds, nbytes) in sums.items()
    }
    return [means[prefix_of(t.key)] for t in tasks]


def _with_hints(annotations: Mapping[str, Any], seconds: dict[str, float], nbytes: int) -> Mapping[str, Any]:
    kind = "gpu" if executor_of(annotations) == "gpu" else "cpu"
    first = next(iter(seconds.values()), 0.0)
    hints: dict[str, Any] = {"duration": seconds.get(kind, first), "nbytes": nbytes}
    if len(seconds) > 1:
        hints["durations"] = seconds
    return {**annotations, **hints}
