"""A client: submits graphs, waits for their results, lets them go."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

from hetsched.core.commands import KeysFailed, KeysReady
from hetsched.core.events import GraphCancelled, GraphReleased, GraphSubmitted, ResultsMissing
from hetsched.core.types import TaskId, WorkerId
from hetsched.errors import HetschedError

from .detection import makers_of
from .knowledge import kinds_of, specs_of
from .model import Submission, Workload
from .world import World

__all__ = ["CLIENT", "Job", "SimulatedClient"]

CLIENT = "client"

_AGAIN = 0.1
"""Seconds after which a holder that does not answer is tried again."""


class Job:
    """A submitted workload and what has come of it."""

    def __init__(self, number: int, submission: Submission, workload: Workload, base: TaskId) -> None:
        self.number = number
        self.submission = submission
        self.workload = workload
        """In the order in which it was submitted."""
        self.base = base
        """The number of its first task."""
        self.waits_for: dict[int, None] = dict.fromkeys(workload.goals())
        self.results: dict[int, int] = {}
        """The values of results, by position."""
        self.failures: dict[int, KeysFailed] = {}
        self.was_cancelled = False
        self.ended: float | None = None
        """When all that was wanted was there, or was known not to come (seconds)."""


class SimulatedClient:
    """Has each workload submitted at its time, fetches what is ready, and releases the graph once all has come."""

    def __init__(self, world: World) -> None:
        self.jobs: list[Job] = []
        self._world = world
        for submission in world.scenario.submissions:
            world.clock.at(submission.at, self._submit, submission)

    def _submit(self, submission: Submission, _: Any) -> None:
        world = self._world
        workload = submission.workload if submission.ordered else submission.workload.in_order()
        _check(workload)
        job = Job(len(self.jobs), submission, workload, len(world.tasks))
        self.jobs.append(job)
        world.tasks.extend(workload.tasks)
        knowledge = world.scenario.knowledge
        world.kinds.extend(kinds_of(workload.tasks, knowledge))
        specs = specs_of(workload.tasks, knowledge)
        world.trace.note(world.clock.now, "submitted", workload.name)
        makers, made_by = makers_of(world.scenario.detection, workload.tasks, world.scenario.seed)
        world.server.asked(
            GraphSubmitted(
                CLIENT, job.number, specs, list(job.waits_for), submission.urgency, makers=makers, made_by=made_by
            )
        )
        if submission.cancelled is not None:
            world.clock.at(submission.cancelled, self._cancel, job)
        self._end_if_done(job)

    def _cancel(self, job: Job, _: Any) -> None:
        if job.ended is None:
            job.was_cancelled = True
            job.waits_for.clear()
            job.ended = self._world.clock.now
            self._world.trace.note(job.ended, "cancelled", job.workload.name)
            self._world.server.asked(GraphCancelled(CLIENT, job.number))
            self._note_whether_over()

    def hear(self, command: KeysReady | KeysFailed) -> None:
        """The scheduler tells of results."""
        job = self.jobs[command.graph]
        if isinstance(command, KeysFailed):
            for position in command.failed:
                job.waits_for.pop(position, None)
                job.failures[position] = command
        elif self._world.has_values:
            self._world.clock.at(self._world.clock.now + self._world.scenario.delay, self._fetch, job, command.ready)
            return
        else:
            for position, _, _ in command.ready:
                job.waits_for.pop(position, None)
        self._end_if_done(job)

    def _fetch(self, job: Job, ready: Sequence[tuple[int, TaskId, tuple[WorkerId, ...]]]) -> None:
        """Get values from those who are said to hold them; from one that is silent later, unless it is lost by then."""
        world = self._world
        missing: list[int] = []
        later: list[tuple[int, TaskId, tuple[WorkerId, ...]]] = []
        for position, task, holders in ready:
            if position not in job.waits_for:
                continue
            workers = [world.workers[name] for name in holders if name in world.workers]
            answering = [w for w in workers if w.alive and not w.frozen and not w.unreachable]
            found = next((w for w in answering if task in w.store), None)
            if found is not None:
                job.results[position] = found.values[task]
                del job.waits_for[position]
            elif any(w.alive and w not in answering for w in workers):
                later.append((position, task, holders))
            else:
                missing.append(position)
        if missing:
            world.server.asked(ResultsMissing(CLIENT, job.number, missing))
        if later:
            world.clock.at(world.clock.now + _AGAIN, self._fetch, job, later)
        self._end_if_done(job)

    def _end_if_done(self, job: Job) -> None:
        if not job.waits_for and job.ended is None:
            world = self._world
            job.ended = world.clock.now
            world.trace.note(job.ended, "ended", job.workload.name)
            world.server.asked(GraphReleased(CLIENT, job.number))
            self._note_whether_over()

    def _note_whether_over(self) -> None:
        if len(self.jobs) == len(self._world.scenario.submissions):
            self._world.trace.is_over = all(job.ended is not None for job in self.jobs)


def _check(workload: Workload) -> None:
    """Raise HetschedError for a task whose time or size is no number of at least 0: time would go backwards."""
    for task in workload.tasks:
        seconds = task.seconds
        times = (seconds,) if isinstance(seconds, int | float) else seconds.values()
        for number in (*times, task.nbytes):
            if not 0 <= number < inf:
                raise HetschedError(
                    f"{task!r} of {workload.name!r} takes or makes {number!r}; seconds and bytes are at least 0"
                )
