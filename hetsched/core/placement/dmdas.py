"""Queues sorted by priority, tasks going where they and the bytes they need are expected to be done first."""

from __future__ import annotations

from collections.abc import Sequence

from hetsched.core.state import TaskState, WorkerState

from .eft import Eft
from .expected import stand_ins, typical_seconds
from .levels import longest_first, upward

__all__ = ["Dmdas"]


class Dmdas(Eft):
    """Deque model, data aware, sorted: after the policy of that name of StarPU.

    A task that becomes ready goes to the worker with the least expected end, transfers included; each worker runs its
    queue by priority, which here is the b-level with the shortest of a task's times. C. Augonnet, S. Thibault, R.
    Namyst and P.-A. Wacrenier, "StarPU: a unified platform for task scheduling on heterogeneous multicore
    architectures", Concurrency and Computation 23 (2011); StarPU's handbook names the variants.
    """

    name = "dmdas"

    def order(self, tasks: Sequence[TaskState], workers: Sequence[WorkerState]) -> list[TaskState]:
        """The longest way first, each task as on the hardware that is fastest for it."""
        kinds = stand_ins(workers)

        def least(ts: TaskState) -> float:
            return min((seconds_on_kind(ts, kind) for kind in kinds), default=typical_seconds(ts, ()))

        return longest_first(tasks, upward(tasks, least))


def seconds_on_kind(ts: TaskState, kind: tuple[WorkerState, int]) -> float:
    """The seconds of a task on the workers of a kind."""
    return typical_seconds(ts, (kind,))
