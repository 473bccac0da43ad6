"""What a simulated scheduler finds out about GPU tasks that nobody has marked, and how often it errs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hetsched.core.evidence import CODE, RAN, Evidence
from hetsched.core.makers import Maker
from hetsched.core.types import TaskId, prefix_of
from hetsched.errors import HetschedError

from .model import Task
from .noise import uniform

__all__ = ["Detection", "makers_of", "sign_of"]

_IN_CODE: Final = Evidence(CODE, 0.9, "its code, in the simulation")
_IN_RUN: Final = Evidence(RAN, 0.9, "its run, in the simulation")


@dataclass(frozen=True, slots=True)
class Detection:
    """How well GPU tasks show: chances from 0 to 1, 0 where nothing is looked for.

    A GPU task is one that a device truly does sooner. ``code`` is the chance that the code of a kind of GPU tasks shows
    it before any has run, ``false_code`` that the code of another kind seems to. ``runs`` is the chance that a run of a
    GPU task is seen to use a device, ``false_runs`` that a run of another is.
    """

    code: float = 0.0
    false_code: float = 0.0
    runs: float = 0.0
    false_runs: float = 0.0

    def __post_init__(self) -> None:
        for name in ("code", "false_code", "runs", "false_runs"):
            chance = getattr(self, name)
            if not 0 <= chance <= 1:
                raise HetschedError(f"detection has {name} = {chance!r}; a chance is from 0 to 1")

    @property
    def looks(self) -> bool:
        """Whether anything is found out at all."""
        return self.watches or self.code > 0 or self.false_code > 0

    @property
    def watches(self) -> bool:
        """Whether runs are watched at all."""
        return self.runs > 0 or self.false_runs > 0


def makers_of(detection: Detection, tasks: Sequence[Task], seed: int) -> tuple[list[Maker], list[int]]:
    """The functions of tasks, one for each kind, with what their code shows; and for each task which is its own.

    A kind of which some tasks are a device's is a kind of GPU tasks. Both lists are empty where code is not looked at.
    """
    if not detection.code and not detection.false_code:
        return [], []
    numbers: dict[str, int] = {}
    made_by = [numbers.setdefault(prefix_of(task.key), len(numbers)) for task in tasks]
    of_device = {number for task, number in zip(tasks, made_by, strict=True) if task.is_gpu_task}
    makers = []
    for name, number in numbers.items():
        chance = detection.code if number in of_device else detection.false_code
        shows = uniform(seed, number, *name.encode(), 4) < chance
        makers.append(Maker(f"simulated {name}", name, (_IN_CODE,) if shows else ()))
    return makers, made_by


def sign_of(detection: Detection, task: Task, number: TaskId, attempt: int, seed: int) -> Evidence | None:
    """What a run of a task shows of a device, None for nothing."""
    chance = detection.runs if task.is_gpu_task else detection.false_runs
    return _IN_RUN if chance and uniform(seed, number, attempt, 5) < chance else None
