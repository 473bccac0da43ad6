"""A thread runs a batch and reports what came of it; executors of a cluster keep their slots apart."""

from __future__ import annotations

import os
import threading
import time
from queue import Empty, SimpleQueue

import pytest

import hetsched
from hetsched.core.commands import RunTask, RunTasks
from hetsched.core.events import TasksFinished
from hetsched.core.needs import rank_of
from hetsched.core.types import EACH, Ref, TaskSpec
from hetsched.worker import executors
from hetsched.worker.current import RunningBatch, current_batch
from hetsched.worker.engine import Engine
from hetsched.worker.executors import Executor
from hetsched.worker.running import SLICE_SECONDS, Failure
from hetsched.worker.sizes import Measure

pytestmark = pytest.mark.filterwarnings("ignore:no GPU was found:UserWarning")


def inc(x):
    return x + 1


class Bench:
    """An executor whose reports are collected."""

    def __init__(self, name="cpu", slots=1):
        self.store: dict[int, object] = {}
        self.lock = threading.Lock()
        self.reports: SimpleQueue = SimpleQueue()
        self.stopped: set[int] = set()
        self.next: list[RunningBatch] = []
        self.executor = Executor(
            name, slots, self.store, Measure(), report=self._report, nudged=lambda executor: None, lock=self.lock
        )

    def _report(self, executor, report):
        self.reports.put((report, threading.current_thread()))
        with self.lock:
            executor.outstanding -= 1
            if not self.next:
                return None
            executor.outstanding += 1
            return self.next.pop()

    def batch(self, *items, number=7):
        """Items are (task, spec, needs, drops), all but the first two optional."""
        full = [(i[0], 0, i[1], i[2] if len(i) > 2 else (), i[3] if len(i) > 3 else ()) for i in items]
        return RunningBatch(number, self.executor.name, full, self.stopped)

    def put(self, batch):
        with self.lock:
            self.executor.put(batch)


@pytest.fixture
def bench():
    bench = Bench()
    yield bench
    bench.executor.close()


def test_a_batch_in_order(bench):
    report = bench.executor.run(
        bench.batch(
            (1, TaskSpec("a", int, (3,))),
            (2, TaskSpec("b", inc, EACH), (1,)),
            (3, TaskSpec("c", pow, (Ref(1), Ref(0), 10)), (1, 2)),
            (4, TaskSpec("d", dict, (), {"x": Ref(0), "y": 1}), (2,)),
        )
    )
    assert bench.store == {1: 3, 2: 4, 3: 4**3 % 10, 4: {"x": 4, "y": 1}}
    assert report.batch == 7
    assert [(task, attempt) for task, attempt, *_ in report.done] == [(1, 0), (2, 0), (3, 0), (4, 0)]
    assert all(start <= stop for _, _, start, stop, _, _ in report.done)
    assert [outcome[4] for outcome in report.done[:3]] == [28, 28, 28]
    assert (report.failed, report.left, report.missing) == ([], [], [])


def test_results_are_dropped_after_their_last_reader(bench):
    report = bench.executor.run(
        bench.batch(
            (1, TaskSpec("a", int, (3,))),
            (2, TaskSpec("b", inc, EACH), (1,), (1,)),
            (3, TaskSpec("c", inc, EACH), (2,), (2,)),
        )
    )
    assert bench.store == {3: 5}
    assert len(report.done) == 3


def test_a_failure_keeps_its_inputs_and_leaves_its_readers(bench):
    report = bench.executor.run(
        bench.batch(
            (1, TaskSpec("a", int, (3,))),
            (2, TaskSpec("b", int.__truediv__, (Ref(0), 0)), (1,), ()),
            (3, TaskSpec("c", inc, EACH), (2,), (2,)),
            (4, TaskSpec("d", inc, EACH), (1,), (1,)),
            (5, TaskSpec("e", int, (8,))),
        )
    )
    assert [outcome[0] for outcome in report.done] == [1, 4, 5]
    ((task, attempt, failure, may_retry),) = report.failed
    assert (task, attempt, may_retry) == (2, 0, True)
    assert type(failure) is Failure
    assert type(failure.error) is ZeroDivisionError
    assert (failure.executor, failure.thread) == ("cpu", threading.current_thread().name)
    assert (report.left, report.missing) == ([3], [2])
    assert bench.store == {1: 3, 4: 4, 5: 8}  # 1 may be read again by another attempt


@pytest.mark.parametrize(
    ("error", "may_retry"),
    [(OSError, True), (KeyboardInterrupt, False), (SystemExit, False), (hetsched.errors.TaskCancelled, False)],
)
def test_which_errors_may_be_retried(bench, error, may_retry):
    def fails():
        raise error

    report = bench.executor.run(bench.batch((1, TaskSpec("a", fails)), (2, TaskSpec("b", int))))
    assert [failed[3] for failed in report.failed] == [may_retry]
    assert [outcome[0] for outcome in report.done] == [2]


def test_stopped_tasks_do_not_run(bench):
    bench.stopped.add(2)
    report = bench.executor.run(bench.batch((1, TaskSpec("a", int)), (2, TaskSpec("b", inc, EACH), (1,), (1,))))
    assert report.left == [2]
    assert bench.store == {1: 0}


def test_the_result_of_a_task_that_was_stopped_meanwhile_is_not_kept(bench):
    report = bench.executor.run(bench.batch((1, TaskSpec("a", bench.stopped.add, (1,)))))
    assert [outcome[0] for outcome in report.done] == [1]
    assert bench.store == {}


def test_a_missing_input(bench):
    report = bench.executor.run(bench.batch((1, TaskSpec("a", inc, EACH), (9,)), (2, TaskSpec("b", int))))
    assert (report.left, report.missing) == ([1], [9])
    assert bench.store == {2: 0}


def test_a_batch_that_lasts_hands_the_rest_back(bench):
    spec = TaskSpec("long", time.sleep, (2 * SLICE_SECONDS,))
    report = bench.executor.run(bench.batch((1, spec), (2, spec), (3, spec)))
    assert [outcome[0] for outcome in report.done] == [1]
    assert report.left == [2, 3]


def test_tasks_taken_back_from_the_end(bench):
    taken = []
    batch = bench.batch(
        (1, TaskSpec("a", lambda: taken.extend(batch.take_back(1)))), (2, TaskSpec("b", int)), (3, TaskSpec("c", int))
    )
    report = bench.executor.run(batch)
    assert taken == [3]
    assert [outcome[0] for outcome in report.done] == [1, 2]
    assert batch.take_back(5) == []


def test_the_running_task_is_known(bench):
    seen = []

    def note():
        seen.append((current_batch().number, current_batch().task))

    assert current_batch() is None
    bench.executor.run(bench.batch((1, TaskSpec("a", note)), (2, TaskSpec("b", note))))
    assert seen == [(7, 1), (7, 2)]
    assert current_batch() is None


def test_threads_start_when_none_is_idle(bench):
    together = threading.Barrier(4)
    for number in range(3):
        bench.put(bench.batch((number, TaskSpec("wait", together.wait, (20,))), number=number))
    assert bench.executor.threads == bench.executor.outstanding == 3
    together.wait(20)
    reports = [bench.reports.get(timeout=20) for _ in range(3)]
    assert {report.batch for report, _ in reports} == {0, 1, 2}
    assert len({thread for _, thread in reports}) == 3
    assert all(thread.daemon and thread.name.startswith("hetsched-cpu-") for _, thread in reports)
    gone = [thread for _, thread in reports]
    bench.executor.close()
    for thread in gone:
        thread.join(20)
    assert bench.executor.threads == 0


@pytest.mark.parametrize(
    ("said", "raises"), [("can't create new thread at interpreter shutdown", False), ("can't start new thread", True)]
)
def test_at_the_end_of_the_program_no_thread_is_started_and_nothing_is_said(bench, monkeypatch, said, raises):
    def start(thread):
        raise RuntimeError(said)

    monkeypatch.setattr(threading.Thread, "start", start)
    if raises:
        with pytest.raises(RuntimeError, match=said):
            bench.put(bench.batch((1, TaskSpec("x", inc, (1,)))))
    else:
        bench.put(bench.batch((1, TaskSpec("x", inc, (1,)))))
    assert bench.reports.empty()


def test_a_thread_goes_on_with_the_batch_its_report_gives(bench):
    bench.next.append(bench.batch((2, TaskSpec("b", int)), number=2))
    bench.put(bench.batch((1, TaskSpec("a", int)), number=1))
    (first, thread), (second, same) = bench.reports.get(timeout=20), bench.reports.get(timeout=20)
    assert (first.batch, second.batch) == (1, 2)
    assert thread is same


# In the cluster


def run(func, *args, executor="process", **options):
    return hetsched.get({"t": (func, *args)}, "t", annotations={"t": {"executor": executor, **options}})


def test_process_tasks_run_in_another_process():
    dsk = {("pid", i): (os.getpid,) for i in range(4)}
    pids = hetsched.get(dsk, list(dsk), annotations={"pid": {"executor": "process"}})
    assert os.getpid() not in pids
    assert run(os.getpid, executor="cpu") == os.getpid()
    assert {row.executor for row in hetsched.last_report()} == {"cpu"}


def test_results_pass_between_process_tasks_and_others():
    lock = threading.Lock()
    dsk = {"a": (list, range(5)), "b": (sum, "a"), "c": (lambda x, lock: (x, lock), "b", lock)}
    assert hetsched.get(dsk, "c", annotations={"b": {"executor": "process"}}) == (10, lock)


def test_what_cannot_be_sent_to_a_process_is_an_error_of_that_task():
    with pytest.raises(TypeError, match="pickle"):
        run(str, threading.Lock())
    assert run(str, 5) == "5"


def test_a_process_task_is_retried_when_its_process_dies(tmp_path):
    def dies_once(path):
        if not path.exists():
            path.touch()
            os._exit(3)
        return "alive"

    assert run(dies_once, tmp_path / "f", retries=1) == "alive"


def test_fused_tasks_run_in_a_process_as_one():
    import dask.array as da
    import numpy as np

    x = da.from_array(np.arange(3), chunks=3)
    with hetsched.annotate(executor="process"):
        y = x.map_blocks(lambda b: b + os.getpid(), dtype=int, meta=np.empty(0, int))[::-1]
    got = y.compute(scheduler=hetsched.get) - np.arange(3)[::-1]
    assert len(set(got.tolist())) == 1
    assert got[0] != os.getpid()


class LateQueue(SimpleQueue):
    """Whoever waits with a timeout gives up just when something comes."""

    def __init__(self, came):
        super().__init__()
        self.came = came

    def get(self, block=True, timeout=None):
        if timeout is not None and self.came:
            self.put(self.came.pop())
            raise Empty
        return super().get(block, timeout)


def test_a_nudge_that_meets_a_thread_about_to_end_is_answered():
    """Nobody else may look after the scheduler, so a nudge that is put down for a thread must reach it."""
    nudges: SimpleQueue = SimpleQueue()
    executor = Executor(
        "cpu:3", 3, {}, Measure(), report=lambda executor, report: None, nudged=nudges.put, lock=threading.Lock()
    )
    executor.queue = LateQueue([True])
    executor.threads = 1
    thread = threading.Thread(target=executor._serve, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    assert (nudges.qsize(), executor.threads, executor.queue.empty()) == (2, 0, True)


@pytest.mark.parametrize(("lanes", "devices", "owned"), [(4, 2, [0, 1, 0, 1]), (2, 2, [0, 1]), (2, 0, [None, None])])
def test_gpu_lanes_take_turns_with_the_devices(lanes, devices, owned) -> None:
    engine = Engine("w", {"gpu": lanes}, {"GPU": 2.0}, Measure(), lambda event: None, lambda: None, devices)
    assert [lane.device for lane in engine._lanes["gpu"]] == owned
    engine.close()


def test_tasks_of_several_devices_run_on_the_threads_of_their_devices(monkeypatch) -> None:
    """Each device has its task, as long as both have to be there for either to go on."""
    bound = threading.local()
    monkeypatch.setattr(executors, "bind_device", lambda number: setattr(bound, "number", number))
    meet, ended, told = threading.Barrier(2, timeout=20), threading.Semaphore(0), []

    def where():
        meet.wait()
        return bound.number, threading.get_ident()

    def send(message):
        told.append(message)
        ended.release(len(message.outcomes))

    engine = Engine("w", {"gpu": 2}, {"GPU": 2.0}, Measure(), send, lambda: None, 2)
    gpu = {"executor": "gpu", "resources": (("GPU", 1.0),)}
    for first in (0, 2, 4):
        engine.order(RunTasks("w", [order(n, TaskSpec(n, where), **gpu) for n in (first, first + 1)]))
        assert ended.acquire(timeout=20)
        assert ended.acquire(timeout=20)
    assert {type(message) for message in told} == {TasksFinished}
    threads = set(engine.store.values())
    assert sorted(number for number, _ in threads) == [0, 1]  # always the same thread
    engine.close()


class Waits:
    """What a task waits for, in a lane's thread: an end that a test brings about."""

    def __init__(self):
        self.ended, self.calls = threading.Event(), []
        self.finished, self.on_finish = self.ended.is_set, self.calls.append

    def wait(self):
        assert self.ended.wait(20)

    def end(self):
        self.ended.set()
        for call in self.calls:
            call()


class Gated:
    """GPU lanes whose tasks stay until their gates open: 0 waits then for ``inside``, in its lane's thread."""

    def __init__(self, lanes, devices, tasks):
        self.begun, self.told, self.inside = threading.Semaphore(0), threading.Semaphore(0), Waits()
        self.gates = [threading.Event() for _ in range(tasks)]
        told, resources = lambda _: self.told.release(), {"GPU": float(lanes)}
        self.engine = Engine("w", {"gpu": lanes}, resources, Measure(), told, lambda: None, devices)
        self.run(0, begins=0)

    def task(self, n):
        thread, batch = threading.get_ident(), current_batch()
        if n:
            self.begun.release()
        assert self.gates[n].wait(20)
        if not n:
            batch.owner.wait(batch, self.inside)
        return thread

    def run(self, *tasks, level=0, begins=None):
        """Order tasks, and wait until so many have begun: by default all."""
        specs = [(n, rank_of(level, 0.0, n), TaskSpec(n, self.task, (n,))) for n in tasks]
        gpu = {"executor": "gpu", "resources": (("GPU", 1.0),)}
        self.engine.order(RunTasks("w", [order(n, spec, **gpu)._replace(rank=rank) for n, rank, spec in specs]))
        for _ in tasks if begins is None else range(begins):
            assert self.begun.acquire(timeout=20)

    def end(self, *tasks):
        """Open gates one after another; each time some task ends for it."""
        for n in tasks:
            self.gates[n].set()
            assert self.told.acquire(timeout=20)


def test_a_thread_whose_task_waits_leaves_others_to_the_free_thread_of_its_device(monkeypatch) -> None:
    monkeypatch.setattr(executors, "bind_device", lambda number: None)
    g = Gated(4, 2, 6)
    g.run(1, 2, 3)
    g.gates[0].set()
    g.run(4, level=1)  # asked for by 0, in whose thread it runs, as the others are taken
    g.run(5, begins=0)  # not asked for by 0
    g.end(2, 4, 1, 3, 5)
    g.inside.end()
    assert g.told.acquire(timeout=20)
    store = g.engine.store
    assert store[4] == store[0] != store[5] == store[2]
    g.engine.close()


@pytest.mark.parametrize("devices", [0, 1])
def test_a_task_that_waits_goes_on_though_others_run_on_the_one_device(monkeypatch, devices) -> None:
    monkeypatch.setattr(executors, "bind_device", lambda number: None)
    g = Gated(2, devices, 4)
    g.run(1)
    g.gates[0].set()
    g.run(2, level=1)  # in the thread of 0, which has asked for it
    g.run(3, begins=0)
    g.end(1)
    g.end(2)  # the thread of 0 is free first, and the other one too
    assert g.begun.acquire(timeout=20)
    g.inside.end()
    assert g.told.acquire(timeout=20)  # 0 has ended, and 3 has not
    g.end(3)
    store = g.engine.store
    assert store[2] == store[0] != store[3] == store[1]
    g.engine.close()


def order(task, spec, executor, resources):
    return RunTask(task, task, spec, "f", executor, (), 0, 0, resources, ())
