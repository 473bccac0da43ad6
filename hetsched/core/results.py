"""Take note of tasks that have run: the busiest path of the scheduler, a few microseconds a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from .costs import learn
from .events import TasksFinished
from .needs import Needs
from .prefixes import TaskPrefix
from .shares import claim
from .state import Phase, State, TaskState, WorkerState

__all__ = ["Collected", "Done", "collect"]

_WAITING: Final = Phase.WAITING
_MEMORY: Final = Phase.MEMORY


class Done:
    """What ran of one job: how many tasks, for how many seconds and with how many bytes of results together."""

    __slots__ = ("first", "nbytes", "runs", "seconds")

    def __init__(self, first: float) -> None:
        self.first = first
        """The seconds that the first of them took."""
        self.runs = 0
        self.seconds = 0.0
        self.nbytes = 0


class Collected:
    """What follows: results nobody needs any more, tasks whose inputs are complete, results a client wants.

    ``finished`` are all that are there now, ``on_device`` those whose result is on a device. ``untrue`` are tasks said
    to have run without inputs: whatever they were made of, they have to be made again. ``jobs`` says what ran of each
    job, and ``copied`` are those of which there are to be copies.
    """

    __slots__ = ("copied", "finished", "jobs", "on_device", "ready", "released", "untrue", "wanted")

    def __init__(self) -> None:
        self.finished: list[TaskState] = []
        self.on_device: list[TaskState] = []
        self.released: list[TaskState] = []
        self.ready: list[TaskState] = []
        self.wanted: list[TaskState] = []
        self.untrue: list[TaskState] = []
        self.copied: list[TaskState] = []
        self.jobs: dict[str, Done] = {}

    def of_job(self, job: object, seconds: float) -> Done | None:
        """The sums of a job, if it is one."""
        if not isinstance(job, str):
            return None
        done = self.jobs.get(job)
        if done is None:
            done = self.jobs[job] = Done(seconds)
        return done


def collect(state: State, worker: WorkerState, event: TasksFinished, now: float) -> Collected:  # noqa: C901 - hot
    """Move what a worker finished to MEMORY, learn from it, and say what follows.

    An outcome of a task that was cancelled or given to another since is passed over: it crossed the order on its way.
    """
    got = Collected()
    tasks = state.tasks
    finished = got.finished
    prefix: TaskPrefix | None = None
    needs: Needs | None = None
    notes: Any = None
    done: Done | None = None
    copies = False
    count = total = nbytes_held = of_needs = 0
    seconds = 0.0
    outcomes: Sequence[tuple[Any, int, float, float, int, int]] = event.outcomes  # ids as the objects they are
    for task, attempt, start, stop, nbytes, cuda_nbytes in outcomes:
        ts = tasks.get(task)
        if ts is None or ts.processing_on is not worker or ts.attempt != attempt:
            continue
        if ts.waiting_on:
            got.untrue.append(ts)
            continue
        finished.append(ts)
        ts.processing_on = None
        ts.who_has = worker.alone
        ts.nbytes = nbytes
        ts.cuda_nbytes = cuda_nbytes
        if cuda_nbytes:
            got.on_device.append(ts)
        if ts.needs is not needs:
            _done_with(worker, needs, of_needs)
            needs = ts.needs
            of_needs = 0
        of_needs += 1
        worker.occupancy -= ts.estimate
        if ts.spec.annotations is not notes:  # tasks annotated alike share one dict
            notes = ts.spec.annotations
            done = got.of_job(notes.get("job"), stop - start) if notes else None
            copies = notes is not None and "replicate" in notes
        if done is not None:
            done.runs += 1
            done.seconds += stop - start
            done.nbytes += nbytes
        if copies:
            got.copied.append(ts)
        nbytes_held += nbytes
        if ts.prefix is not prefix:
            if prefix is not None:
                _learn(state, prefix, event.executor, count, seconds, total)
            prefix = ts.prefix
            count = total = 0
            seconds = 0.0
        count += 1
        seconds += stop - start
        total += nbytes
        _follow(ts, got)
    if prefix is not None:
        _learn(state, prefix, event.executor, count, seconds, total)
    _done_with(worker, needs, of_needs)
    _hold(worker, finished, nbytes_held)
    got.wanted = [ts for ts in finished if ts.wanted]
    state.move(finished, _MEMORY, worker.id, now)
    return got


def _follow(ts: TaskState, got: Collected) -> None:
    for d in ts.dependents:
        d.waiting_on -= 1
        if not d.waiting_on and d.phase is _WAITING:
            got.ready.append(d)
    for d in ts.dependencies:
        d.users -= 1
        if not d.users:
            got.released.append(d)


def _learn(state: State, prefix: TaskPrefix, executor: str, count: int, seconds: float, nbytes: int) -> None:
    """Learn, and if these are the first of their kind, expect it of those that were assigned before, too."""
    first = executor not in prefix.on
    learn(prefix, executor, count, seconds, nbytes)
    if not first:
        return
    lasts, size = seconds / count, nbytes // count
    for worker in state.workers.values():
        for ts in list(worker.guessed.get(prefix, ())):
            if ts.executor == executor and ts.processing_on is worker:
                worker.forget_guess(ts)
                worker.occupancy += lasts - ts.estimate
                worker.coming += size - ts.expected
                ts.estimate, ts.expected = lasts, size


def _hold(worker: WorkerState, finished: list[TaskState], nbytes: int) -> None:
    if worker.coming:
        _came(worker, finished)
    if worker.fetching or worker.guessed:
        for ts in finished:
            worker.drop_plans_for(ts)
    worker.nbytes += nbytes
    worker.held += len(finished)
    if not any(worker.assigned.values()):
        worker.occupancy = 0.0


def _done_with(worker: WorkerState, needs: Needs | None, count: int) -> None:
    if needs is None:
        return
    worker.assigned[needs.executor] -= count
    if needs.resources:
        claim(worker, needs, -count)


def _came(worker: WorkerState, finished: list[TaskState]) -> None:
    for ts in finished:
        worker.coming -= ts.expected
        ts.expected = 0
