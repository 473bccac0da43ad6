"""What a task demands of a worker, read once from its annotations and shared by all tasks that demand the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from .annotations import executor_of
from .types import ANY_POOL, Capacity, TaskId, WorkerId

__all__ = ["ALL", "DEEPER", "PYTHON", "Needs", "Only", "level_of", "rank_of"]

PYTHON: Final = "by value of python"
"""The annotation that names the Python version a task's function needs; made by hetsched, and no name of a person's."""

ALL: Final = 1 << 30
"""As many copies of a result as there are workers."""

Only: TypeAlias = "tuple[tuple[str, tuple[WorkerId, ...]], ...]"
"""Of each plugin that was asked and had an opinion, its name and the workers it allows."""

_ID_BITS: Final = 44
_URGENCY: Final = 1 << 32

DEEPER: Final = 1 << 31
"""Two levels that differ by more than this differ in urgency, whatever the priorities."""


def rank_of(urgency: int, priority: float, task: TaskId) -> int:
    """Put a task into one line with all others: smaller runs first.

    More urgent graphs go before less urgent ones, then higher priorities before lower (told apart to 1/1000), then
    earlier tasks before later ones.
    """
    level = urgency * _URGENCY + round(priority * 1000)
    return (-level << _ID_BITS) + task


def level_of(rank: int) -> int:
    """The part of a rank that urgency and priority make; smaller goes first."""
    return rank >> _ID_BITS


class Needs:
    """Where a task may run, how urgent it is and how often it may fail.

    ``executor`` is the lane it takes a slot of, ``pools`` the pool names it accepts (None: any), ``workers`` the worker
    names (None: any), which bind only if not ``others``. ``resources`` are sorted ``(name, amount)``. ``python`` is the
    one version, "3.12", that can load a function sent by value (None: any). ``copies`` says how many workers shall hold
    the result (0: where it is made). ``only`` is what plugins made of the needs of a task, ``whole``, now. ``free``
    says that no person has said whether it is for the GPU, so that detection may; ``bound`` that one has said that it
    is for the CPU. ``base`` is, of demands that detection made, what they were made of.
    """

    __slots__ = (
        "_said", "base", "bound", "copies", "executor", "free", "only", "others", "pools", "priority", "python",
        "resources", "retries", "twin", "whole", "workers",
    )  # fmt: skip

    def __init__(self, annotations: Mapping[str, Any], lanes: Mapping[str, str] | None = None) -> None:
        self._said = (annotations, lanes)
        self.only: Only = ()
        self.whole: Needs | None = None
        self.base: Needs | None = None
        self.twin: Needs | None = None
        executor = executor_of(annotations)
        self.executor: str = lanes.get(executor, executor) if lanes else executor
        pool = annotations.get("pool")
        self.pools: tuple[str, ...] | None = (pool,) if isinstance(pool, str) else tuple(pool) if pool else None
        workers = annotations.get("workers")
        self.workers: tuple[WorkerId, ...] | None = tuple(workers) if workers else None
        self.others: bool = bool(annotations.get("allow_other_workers", False))
        resources = dict(annotations.get("resources") or {})
        words = annotations.get("executor"), annotations.get("gpu"), resources.get("GPU") or None
        self.free: bool = words == (None, None, None)
        self.bound: bool = not self.free and self.executor.startswith("cpu")
        if executor == "gpu":
            # A slot of a GPU lane is a share of a device, so both ways of asking for one are counted together.
            resources.setdefault("GPU", 1.0)
        self.resources: tuple[tuple[str, float], ...] = tuple(sorted(resources.items()))
        self.priority: float = annotations.get("priority", 0)
        self.retries: int = annotations.get("retries", 0)
        python = annotations.get(PYTHON)
        self.python: str | None = python if isinstance(python, str) else None
        copies = annotations.get("replicate", 0)
        self.copies: int = ALL if copies == "all" else copies

    def narrowed(self, only: Only) -> Needs:
        """The same, but on workers that plugins allow as well."""
        annotations, lanes = self._said
        other = Needs(annotations, lanes)
        other.executor, other.resources = self.executor, self.resources
        other.only = only
        other.whole = self
        return other

    def key(self) -> tuple[object, ...]:
        """What two equal needs have in common."""
        where = (self.executor + "!" * self.bound, self.pools, self.workers, self.others, self.resources)
        return (*where, self.priority, self.retries, self.python, self.copies)

    def on_gpu(self) -> Needs:
        """What a task that demands this demands when it is found to be a GPU task."""
        twin = self.twin
        if twin is None:
            annotations, lanes = self._said
            twin = self.twin = Needs({**annotations, "gpu": True}, lanes)
            twin.base = self
        return twin

    def may_meet(self, worker: WorkerId, capacity: Capacity) -> bool:
        """As :meth:`met_by`, also of a worker that has the executor, though no slots now.

        It has paused, or cancelled tasks that cannot be stopped are on all of them.
        """
        if self.executor not in capacity.executors:
            return False
        return all(ok for _, ok in self.trial(worker, capacity)[1:])

    def met_by(self, worker: WorkerId, capacity: Capacity) -> bool:
        """Tell whether this worker could run the task, were it idle."""
        if capacity.executors.get(self.executor, 0) <= 0:
            return False
        if self.pools is None and self.workers is None and self.python is None and not self.resources and not self.only:
            return True
        return all(ok for _, ok in self.trial(worker, capacity))

    def trial(self, worker: WorkerId, capacity: Capacity) -> list[tuple[str, bool]]:
        """List each demand in words with whether this worker meets it."""
        found = [(f"executor {self.executor!r}", capacity.executors.get(self.executor, 0) > 0)]
        if self.pools is not None:
            word = f"pool {' or '.join(map(repr, self.pools))}"
            found.append((word, capacity.pool == ANY_POOL or capacity.pool in self.pools))
        if self.workers is not None and not self.others:
            found.append((f"workers {', '.join(self.workers)}", worker in self.workers))
        for name, amount in self.resources:
            found.append((f"resources {name}={amount:g}", capacity.resources.get(name, 0.0) >= amount))
        if self.python is not None and capacity.python is not None:
            found.append((f"Python {self.python}", capacity.python == self.python))
        found.extend((f"plugin {name!r}", worker in allowed) for name, allowed in self.only)
        return found

    def may_hold(self, worker: WorkerId, capacity: Capacity) -> bool:
        """Tell whether a copy of the result may be kept there: within the pools and workers that were named."""
        if self.pools is not None and capacity.pool != ANY_POOL and capacity.pool not in self.pools:
            return False
        return self.workers is None or self.others or worker in self.workers

    def why_never(self, workers: Mapping[WorkerId, Capacity]) -> str | None:
        """Say why waiting for a worker would not help: a function by value, and no worker of its Python; else None."""
        if self.python is None or not workers:
            return None
        others = sorted({capacity.python for capacity in workers.values() if capacity.python is not None})
        if not others or self.python in others:
            return None
        return (
            f"its function was sent by value (a lambda, or defined in __main__) from Python {self.python}, and the "
            f"workers run Python {', '.join(others)}; put the function into a module that the workers can import, or "
            f"start a worker on Python {self.python}"
        )

    def met(self, workers: Mapping[WorkerId, Capacity]) -> dict[str, int]:
        """Count for each demand, in words, the workers that meet it; for "together" those that meet all."""
        found: dict[str, int] = {word: 0 for word, _ in self.trial("", Capacity({}, python=self.python))}
        together = 0
        for name, capacity in workers.items():
            every = True
            for word, ok in self.trial(name, capacity):
                found[word] += ok
                every = every and ok
            if self.python is not None and capacity.python is None:
                found[f"Python {self.python}"] += 1
            together += every
        found["together"] = together
        return found

    def why_nobody(self, workers: Mapping[WorkerId, Capacity]) -> str:
        """Say for each demand how many of the workers meet it, and how many meet all, now and later."""
        found = self.met(workers)
        together = found.pop("together")
        if not workers:
            return f"there are no workers (it needs {', '.join(found)})"
        said = ""
        for word, count in found.items():
            said += f"{word}: {count} of {len(workers)}{'; ' if said else _of(workers)}"
        said += f"together: {together or 'none'}"
        later = sum(self.may_meet(name, c) and not self.met_by(name, c) for name, c in workers.items())
        if later:
            said += f"; {later} more when slots there are free (paused now, or busy with what was cancelled)"
        return said


def _of(workers: Mapping[WorkerId, Capacity]) -> str:
    return " worker; " if len(workers) == 1 else " workers; "
