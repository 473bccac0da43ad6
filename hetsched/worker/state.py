"""The worker's mind: told what to run and what came of it, it says what to start, fetch, drop and report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, assert_never

from hetsched.core.commands import CancelTasks, FetchKeys, FreeKeys, MoveTasks, RunTasks
from hetsched.core.events import InputsMissing, ReplicasAdded, TasksFailed, TasksFinished, TasksReturned
from hetsched.core.remembered import Remembered
from hetsched.core.types import TaskId, WorkerId

from .abandoned import Abandoned
from .fetching import Fetcher, missed, places_for
from .homes import locate
from .instructions import (
    BatchExecuted,
    Drop,
    Instruction,
    KeysFetched,
    PatienceEnded,
    SlotRegained,
    SlotsChanged,
    SlotYielded,
    Stop,
    TasksReclaimed,
    Tell,
    WorkerInput,
)
from .jobs import ABSENT, CANCELLED, HELD, NOBODY, QUEUED, READY, WAITING, Batch, Job, Kind
from .lanes import GPU, Finder, kind_of
from .letting_go import absent, count_off, leave_inputs, put_down
from .slots import Slots

__all__ = ["WorkerState"]


class WorkerState:
    """A pure function of what it is told, in the shape of the scheduler: inputs in, instructions out."""

    def __init__(
        self, worker: WorkerId, executors: Mapping[str, int], resources: Mapping[str, float], devices: int = 0
    ) -> None:
        self.worker = worker
        self.jobs: dict[TaskId, Job] = {}
        self.slots = Slots(executors, resources, devices)
        self.kinds: Remembered[Kind] = Remembered()
        self.fetcher = Fetcher()
        self.abandoned = Abandoned()
        self.finder = Finder(GPU in executors and resources.get("GPU", 0.0) >= 1.0)

    def handle(self, event: WorkerInput, now: float) -> list[Instruction]:  # noqa: C901 - one case per event
        """Take note of an event; return what is to be done."""
        out: list[Instruction] = []
        match event:
            case BatchExecuted():
                self._batch_executed(event, out)
            case RunTasks():
                self._run_tasks(event, out)
            case FetchKeys():
                self._copy(event)
            case MoveTasks():
                for name, gpu in event.kinds:
                    kind_of(self.kinds, name).gpu = gpu
                found = [(self.jobs.get(task), executor) for task, executor in event.tasks]
                moves = [(job, executor) for job, executor in found if job is not None]
                self._return(self.slots.shift(moves, out), out)
            case CancelTasks() | FreeKeys():
                self._forget(event.tasks, out, done=isinstance(event, FreeKeys))
            case TasksReclaimed():
                batch = self.slots.batches.get(event.batch)
                if batch is not None and event.tasks:
                    batch.asked = False
                    self._return(self.slots.put_back(batch, event.tasks), out)
            case SlotYielded():
                self.slots.give_up(event.batch, out)
            case SlotRegained():
                self.slots.regain(event.batch)
            case SlotsChanged():
                self.slots.resize(event.executor, event.slots)
            case KeysFetched():
                self._keys_fetched(event, out)
            case PatienceEnded():
                self.abandoned.look(self.slots.batches, out)
            case _:
                assert_never(event)
        if self.abandoned.batches:
            self._return(self.abandoned.settle(self.slots.batches, self.slots.lanes, out), out)
        self.slots.fill(self.jobs, out)
        self.fetcher.ask(out)
        return out

    # Orders

    def _run_tasks(self, event: RunTasks, out: list[Instruction]) -> None:  # noqa: C901 - hot
        jobs = self.jobs
        kinds = self.kinds
        lanes = self.slots.lanes
        places: list[TaskId] = []
        for order in event.tasks:
            task: Any = order[0]  # an id as the object it is, which compiled code need not make anew
            job = jobs.get(task)
            if job is None:
                job = jobs[task] = Job(task)
            kind = kinds.get(order[3])
            if kind is None:
                kind = kind_of(kinds, order.prefix)
            job.take(order, kind)
            waiting = 0
            inputs: Any = job.inputs
            for i in inputs:
                dep = jobs.get(i)
                if dep is None:
                    dep = jobs[i] = Job(i)
                    places.append(i)
                if dep.phase is HELD:
                    dep.uses = 0  # its readers were counted before this one: the scheduler says when it goes
                    job.near |= dep.cuda_nbytes > 0
                else:
                    waiting += 1
                    if dep.dependents:
                        dep.dependents.append(job)
                    else:
                        dep.dependents = [job]
            if order[9]:
                self.fetcher.want(order[9], jobs)
            job.waiting = waiting
            job.phase = WAITING if waiting else READY
            if kind.gpu or job.near:
                self.finder.place(job)
            if not waiting:
                lanes[job.executor].ready.add(job)
        # The scheduler takes them to be here, and they were dropped in the meantime.
        lost = [i for i in places if jobs[i].phase is ABSENT and not self.fetcher.expects(i)]
        if lost:
            self._put_down(lost, out)

    def _forget(self, tasks: Iterable[TaskId], out: list[Instruction], done: bool = False) -> None:
        """Have nothing more to do with these, whatever they are at; ``done`` says that they count as run."""
        gone: list[Job] = []
        undone: list[Job] = []
        dropped: list[TaskId] = []
        stopped: list[TaskId] = []
        for task in tasks:
            job = self.jobs.pop(task, None)
            if job is None:
                continue
            gone.append(job)
            if not (done and job.phase is HELD):
                undone.append(job)
            if job.phase is QUEUED:
                stopped.append(task)
            dropped.append(task)  # also what an earlier attempt may have left
            job.phase = CANCELLED
        for job in gone:
            readers = [d for d in job.dependents if d.phase is WAITING]
            if readers:
                # They stay, and may be ordered a new maker, so its place is kept.
                place = self.jobs[job.id] = Job(job.id)
                place.dependents = readers
        leave_inputs(undone, self.jobs, self.fetcher)
        if stopped:
            out.append(Stop(stopped))
        if dropped:
            out.append(Drop(dropped))

    # Execution

    def _return(self, homeless: list[Job], out: list[Instruction]) -> None:
        """Put down jobs for which there is no executor here."""
        if homeless:
            if again := [job.id for job in homeless if job.attempt]:
                out.append(Drop(again))  # what an earlier attempt, or another worker's, may have left here
            out.append(Tell(TasksReturned(self.worker, [(job.id, job.attempt) for job in homeless])))
            absent(homeless, self.jobs, self.fetcher)

    def _batch_executed(self, event: BatchExecuted, out: list[Instruction]) -> None:
        batch = self.slots.end(event)
        drop: list[TaskId] = []
        untold: list[TaskId] = []
        self._done(batch, event, drop, untold)
        locate(event.located, self.jobs)
        self.finder.saw(event.seen, self.jobs, batch.executor)
        failed = []
        for failure in event.failed:
            job = batch.jobs.pop(failure[0])
            if job.phase is CANCELLED:
                continue
            failed.append(failure)
            drop.append(job.id)  # what an earlier attempt may have left
            job.phase = ABSENT
            if not job.dependents:
                del self.jobs[job.id]
        lost = {**missed(batch, event, self.jobs), **dict.fromkeys(untold)}
        self._return(self.slots.put_back(batch, reversed(event.left)), out)
        self._return(self.slots.shift(self.finder.moves(self.jobs), out), out)
        if lost:
            self._lose(list(lost), out)
        if drop:
            out.append(Drop(drop))
        if event.done:
            out.append(Tell(TasksFinished(self.worker, batch.executor, event.done, event.seen, event.watched)))
        if failed:
            out.append(Tell(TasksFailed(self.worker, batch.executor, failed, event.device)))

    def _done(self, batch: Batch, event: BatchExecuted, drop: list[TaskId], untold: list[TaskId]) -> None:
        jobs = self.jobs
        in_batch = batch.jobs
        lanes = self.slots.lanes
        outcomes: Sequence[tuple[Any, Any, float, float, int, Any]] = event.done
        for task, _, start, stop, nbytes, cuda_nbytes in outcomes:
            job = in_batch.pop(task)
            if job.phase is not QUEUED:
                if task not in jobs:  # cancelled while it ran, and not ordered anew
                    drop.append(task)
                continue
            job.phase = HELD
            kind = job.kind
            seconds = kind.seconds
            if seconds < 0.0:
                kind.seconds, kind.nbytes = stop - start, float(nbytes)
            else:
                kind.seconds = seconds + 0.2 * (stop - start - seconds)
                kind.nbytes += 0.2 * (nbytes - kind.nbytes)
            if cuda_nbytes:
                self.finder.on_device(job, batch.executor, cuda_nbytes)
            dependents = job.dependents
            if dependents:
                for d in reversed(dependents):  # by rank, so that the first is on top of the stack
                    d.waiting -= 1
                    if not d.waiting and d.phase is WAITING:
                        d.phase = READY
                        lanes[d.executor].ready.push(d)
                job.dependents = NOBODY
            if job.inputs:
                count_off(job, jobs, drop, untold)

    def _lose(self, lost: list[TaskId], out: list[Instruction]) -> None:
        """Results that were taken to be here are not: their readers cannot run here."""
        places = places_for(lost, self.jobs)
        self.jobs.update(places)
        self._put_down(lost, out)
        for task, place in places.items():
            if self.jobs.get(task) is place and not place.dependents:
                del self.jobs[task]

    # Peers

    def _keys_fetched(self, event: KeysFetched, out: list[Instruction]) -> None:
        came = []
        drop = []
        locate(event.located, self.jobs)
        for task in event.came:
            job = self.jobs.get(task)
            if job is None:
                drop.append(task)
                continue
            if job.phase is not ABSENT:
                continue  # it is being made here after all, and the copy is as good as what will be
            came.append(task)
            job.phase = HELD
            if job.cuda_nbytes:
                self.finder.near(job)
            for d in job.dependents:
                d.waiting -= 1
                if not d.waiting and d.phase is WAITING:
                    d.phase = READY
                    self.slots.lanes[d.executor].ready.push(d)
            job.dependents = NOBODY
        lost = self.fetcher.came(event)
        if drop:
            out.append(Drop(drop))
        if came:
            out.append(Tell(ReplicasAdded(self.worker, came)))
        if lost:
            self._put_down(lost, out)

    def _copy(self, event: FetchKeys) -> None:
        for task, _ in event.holders:
            if task not in self.jobs:
                self.jobs[task] = Job(task)
        self.fetcher.want(event.holders, self.jobs)

    def _put_down(self, lost: list[TaskId], out: list[Instruction]) -> None:
        """Nobody has these inputs: give their readers back to the scheduler."""
        readers = put_down(lost, self.jobs, self.fetcher)
        if readers:
            out.append(Tell(InputsMissing(self.worker, lost, [(job.id, job.attempt) for job in readers])))
