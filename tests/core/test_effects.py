"""What each annotation of the vocabulary makes the scheduler do, claimed whole: with it, and without it."""

from __future__ import annotations

import pytest

from hetsched.core.annotations import VOCABULARY
from hetsched.core.check import check
from hetsched.core.commands import CancelTasks, FetchKeys, FreeKeys, KeysFailed, KeysReady, RunTasks
from hetsched.core.events import (
    GraphReleased,
    GraphSubmitted,
    KeysReleased,
    ReplicasAdded,
    TasksFailed,
    TasksFinished,
    TasksStranded,
    WorkerJoined,
    WorkerLost,
    WorkerRetiring,
)
from hetsched.core.explain import explain
from hetsched.core.scheduler import Options, Scheduler
from hetsched.core.types import Capacity, TaskSpec


def spec(key, *dependencies, **annotations):
    return TaskSpec(key, len, (), None, dependencies, annotations or None)


class Bench:
    """Workers of one CPU slot, or as said, each wanting ``window`` tasks a slot; says what the scheduler does."""

    def __init__(self, *names, window=1, **options):
        self.scheduler = Scheduler(options=Options(**options))
        self.now = 0.0
        self.window = window
        for name in names:
            assert self.join(name) == []

    def __call__(self, event):
        self.now += 1.0
        commands = self.scheduler.handle(event, self.now)
        check(self.scheduler.state)
        return [shown(command) for command in commands]

    def join(self, name, pool=None, resources=None, **executors):
        return self(WorkerJoined(name, Capacity(executors or {"cpu": 1}, resources or {}, pool, self.window)))

    def submit(self, *tasks, graph=0):
        return self(GraphSubmitted("c", graph, tasks, range(len(tasks))))

    def done(self, worker, *tasks, attempt=0, executor="cpu", nbytes=8, seconds=1.0):
        outcomes = [(task, attempt, 0.0, seconds, nbytes, 0) for task in tasks]
        return self(TasksFinished(worker, executor, outcomes))


def shown(command):
    match command:
        case RunTasks(worker, tasks):
            return "run", worker, [order.task for order in tasks]
        case CancelTasks(worker, tasks):
            return "cancel", worker, list(tasks)
        case FreeKeys(worker, tasks):
            return "free", worker, list(tasks)
        case FetchKeys(worker, holders):
            return "copy", worker, {task: list(names) for task, names in holders}
        case KeysReady(_, _, ready):
            return "ready", {position: list(holders) for position, _, holders in ready}
        case KeysFailed():
            return "failed", list(command.failed), str(command.error)
    raise AssertionError(command)


def workers():
    assert Bench("a", "b").submit(spec("x"), spec("y")) == [("run", "a", [0]), ("run", "b", [1])]
    b = Bench("a", "b")
    assert b.submit(spec("x", workers=["b"]), spec("y", workers=["b"])) == [("run", "b", [0])]
    assert b.done("b", 0) == [("run", "b", [1]), ("ready", {0: ["b"]})]


def allow_other_workers():
    b = Bench("a", "b")
    wish = {"workers": ["b"], "allow_other_workers": True}
    assert b.submit(spec("x", **wish), spec("y", **wish)) == [("run", "b", [0]), ("run", "a", [1])]
    # Nor does one run ahead where its input is made, if that is not where it is wished.
    plain = [("run", "a", [0, 1])]
    assert Bench("a", "b", window=2).submit(spec("x"), spec("y", 0)) == plain
    b = Bench("a", "b", window=2)
    assert b.submit(spec("x"), spec("y", 0, **wish)) == [("run", "a", [0])]
    assert b.done("a", 0) == [("run", "b", [1]), ("ready", {0: ["a"]})]


def pool():
    b = Bench("a")
    b.join("b", pool="P")
    assert b.submit(spec("x", pool="P"), spec("y", pool=["P", "Q"]), spec("z", pool=None)) == [
        ("run", "b", [0]),
        ("run", "a", [2]),
    ]
    assert b.join("c", pool="Q") == [("run", "c", [1])]


def resources():
    """Counts are kept: so many in a row as for slots, and what waits for a resource takes nobody's place."""
    b = Bench()
    b.join("a", cpu=4, resources={"licence": 1})
    b.join("b", cpu=4, resources={"licence": 2})
    assert b.submit(*(spec(f"x{i}", resources={"licence": 1}) for i in range(5)), spec("plain"), spec("plain")) == [
        ("run", "a", [0, 5, 6]),
        ("run", "b", [1, 2]),
    ]
    assert b.done("b", 1) == [("run", "b", [3]), ("ready", {1: ["b"]})]
    assert b.done("a", 0) == [("run", "a", [4]), ("ready", {0: ["a"]})]
    b = Bench()
    b.join("a", cpu=4, resources={"licence": 1})
    assert b.submit(spec("much", resources={"licence": 2})) == []


def priority():
    b = Bench("a")
    assert b.submit(spec("x"), spec("y"), spec("z", priority=3)) == [("run", "a", [2])]
    assert b.done("a", 2) == [("run", "a", [0]), ("ready", {2: ["a"]})]


def retries():
    b = Bench("a")
    assert b.submit(spec("x"), spec("y", retries=1)) == [("run", "a", [0])]
    assert b(TasksFailed("a", "cpu", [(0, 0, "bad", True)])) == [("run", "a", [1]), ("failed", [0], "bad")]
    assert b(TasksFailed("a", "cpu", [(1, 0, "bad", True)])) == [("run", "a", [1])]
    assert b(TasksFailed("a", "cpu", [(1, 1, "bad", True)])) == [("failed", [1], "bad")]


def executor():
    b = Bench("a")
    b.join("b", io=1)
    assert b.submit(spec("x", executor="io"), spec("y")) == [("run", "b", [0]), ("run", "a", [1])]


def gpu():
    b = Bench("a")
    b.join("g", cpu=1, gpu=1, resources={"GPU": 1.0})
    commands = b.scheduler.handle(GraphSubmitted("c", 0, [spec("x", gpu=True), spec("y", gpu=False)], [0, 1]), 9.0)
    assert [(c.worker, [(o.task, o.executor, o.resources) for o in c.tasks]) for c in commands] == [
        ("g", [(0, "gpu", (("GPU", 1.0),))]),
        ("a", [(1, "cpu", ())]),
    ]


def nbytes():
    """Results that are to come count as held, as long as nothing was measured of their kind."""

    def given(**hint):
        b = Bench()
        b.join("a", cpu=2)
        b.join("b", cpu=2)
        return b, b.submit(spec("large-0", workers=["a", "b"], **hint), spec("y"))

    assert given()[1] == [("run", "a", [0, 1])]
    b, said = given(nbytes=10**9)
    assert said == [("run", "a", [0]), ("run", "b", [1])]
    assert b.done("a", 0) == [("ready", {0: ["a"]})]
    assert b.done("b", 1, nbytes=24) == [("ready", {1: ["b"]})]
    # It turned out to make 8 bytes.
    assert b.submit(spec("large-1", workers=["a", "b"], nbytes=10**9), spec("z"), graph=1) == [("run", "a", [2, 3])]


def duration():
    """Work that will take long counts as such, as long as nothing was measured of its kind."""

    def given(graph, **hint):
        kinds = {"slow": hint, "y": {}, "z": {}}
        return b.submit(*(spec(key, workers=["a", "b"], **more) for key, more in kinds.items()), graph=graph)

    b = Bench("a", "b", window=2)
    assert given(0) == [("run", "a", [0, 2]), ("run", "b", [1])]
    b = Bench("a", "b", window=2)
    assert given(0, duration=9) == [("run", "a", [0]), ("run", "b", [1, 2])]
    b.done("a", 0, seconds=0.01)
    b.done("b", 1, 2, seconds=0.01)
    assert given(1, duration=9) == [("run", "a", [3, 5]), ("run", "b", [4])]


def replicate():
    b = Bench("a", "b", "d")
    assert b.submit(spec("x", replicate=2), spec("y", 0)) == [("run", "a", [0])]
    assert b.done("a", 0, nbytes=80) == [("copy", "b", {0: ["a"]}), ("run", "a", [1]), ("ready", {0: ["a"]})]
    assert b(ReplicasAdded("b", [0])) == []
    # Where a copy is lost another is made, and so is one for a holder that is to leave.
    assert b(WorkerLost("b", "gone")) == [("copy", "d", {0: ["a"]}), ("ready", {0: ["a"]})]
    assert b(ReplicasAdded("d", [0])) == []
    assert b.join("e") == []
    assert ("copy", "e", {0: ["a", "d"]}) in b(WorkerRetiring("d"))
    assert b(ReplicasAdded("e", [0])) == []
    assert b(KeysReleased("c", 0, [0])) == []
    assert b.done("a", 1) == [("free", "a", [0]), ("free", "d", [0]), ("free", "e", [0]), ("ready", {1: ["a"]})]


def job():
    """It is summed up by; where nothing runs otherwise than without it, that is what it does."""
    b = Bench("a")
    b.submit(spec("x", job="etl"), spec("y", 0, job="etl"), spec("z"), spec("w", job="other"))
    b.done("a", 0, nbytes=100, seconds=0.5)
    done = {"runs": 1, "seconds": 0.5, "nbytes": 100, "lasted": 0.5}
    none = {"runs": 0, "seconds": 0.0, "nbytes": 0, "lasted": 0.0}
    etl = {"tasks": 2, "waiting": 0, "assigned": 1, "done": 1, "failed": 0}
    other = {"tasks": 1, "waiting": 1, "assigned": 0, "done": 0, "failed": 0}
    jobs = b.scheduler.jobs
    assert jobs.report(b.scheduler.state) == {"etl": etl | done, "other": other | none}
    b(TasksFailed("a", "cpu", [(1, 0, "bad", True)]))
    assert jobs.report(b.scheduler.state)["etl"] == {**etl, **done, "assigned": 0, "failed": 1}
    b(GraphReleased("c", 0))
    assert jobs.report(b.scheduler.state) == {"etl": dict.fromkeys(etl, 0) | done}


def provenance():
    """What cannot be run is told of with the line that built it."""
    b = Bench("a")
    b.submit(spec("x", resources={"TPU": 1}, provenance="model.py:7, in train"))
    assert "  built at model.py:7, in train" in explain(b.scheduler.state, b.scheduler.state.tasks[0])["text"]
    ((_, _, said),) = b(TasksStranded([0], 5))
    assert said == (
        "no worker can run the task 'x' (built at model.py:7, in train), and none came within 5 s: executor 'cpu': "
        "1 of 1 worker; resources TPU=1: 0 of 1; together: none"
    )
    b = Bench("a", allowed_losses=0)
    b.submit(spec("x", provenance="model.py:7, in train"))
    ((_, _, said),) = b(WorkerLost("a", "gone"))
    assert said.startswith("1 workers were lost while they may have been running the task 'x' (built at model.py:7, in")


EFFECTS = {
    effect.__name__: effect
    for effect in (
        workers, allow_other_workers, pool, resources, priority, retries, executor, gpu, nbytes, duration, replicate,
        job, provenance,
    )
}  # fmt: skip


def test_every_name_has_an_effect() -> None:
    assert EFFECTS.keys() == VOCABULARY.keys()


@pytest.mark.parametrize("name", EFFECTS)
def test_effect_of(name: str) -> None:
    EFFECTS[name]()


def test_copies_for_all_also_for_those_who_come_later() -> None:
    b = Bench("a", "b")
    assert b.submit(spec("x", replicate="all")) == [("run", "a", [0])]
    assert b.done("a", 0) == [("copy", "b", {0: ["a"]}), ("ready", {0: ["a"]})]
    assert b.join("d") == [("copy", "b", {0: ["a"]}), ("copy", "d", {0: ["a"]})]
    assert b(ReplicasAdded("b", [0])) == []
    assert b(ReplicasAdded("d", [0])) == []
    assert b.join("e") == [("copy", "e", {0: ["a", "b", "d"]})]
    assert b(GraphReleased("c", 0)) == [("free", name, [0]) for name in ("a", "b", "d")]
    assert b(ReplicasAdded("e", [0])) == [("free", "e", [0])]


def test_copies_stay_within_the_pool_that_is_named() -> None:
    b = Bench()
    for name, pool_name in (("a", "P"), ("b", None), ("d", "P"), ("e", "Q")):
        b.join(name, pool=pool_name)
    assert b.submit(spec("x", pool="P", replicate="all")) == [("run", "a", [0])]
    assert b.done("a", 0) == [("copy", "d", {0: ["a"]}), ("ready", {0: ["a"]})]


def test_copies_go_to_those_with_the_least_to_hold() -> None:
    b = Bench(window=9)
    b.join("a", resources={"r": 9})
    b.join("b")
    b.join("d")
    b.submit(spec("x", workers=["b"]), *(spec(key, resources={"r": 1}, replicate=2) for key in ("y", "z")))
    assert b.done("b", 0, nbytes=100) == [("ready", {0: ["b"]})]
    assert b.done("a", 1, 2, nbytes=60) == [("copy", "d", {1: ["a"], 2: ["a"]}), ("ready", {1: ["a"], 2: ["a"]})]


def test_sums_of_jobs_are_bounded() -> None:
    from hetsched.core.jobs import MOST_JOBS

    b = Bench("a", window=0)
    tasks = [spec(f"x{i}", job=f"job-{i:04}") for i in range(MOST_JOBS + 10)]
    b.submit(*tasks)
    for task in range(len(tasks)):
        b.scheduler.handle(TasksFinished("a", "cpu", [(task, 0, 0.0, 1.0, 8, 0)]), 10.0 + task)
    b(GraphReleased("c", 0))
    report = b.scheduler.jobs.report(b.scheduler.state)
    assert list(report) == [f"job-{i:04}" for i in range(10, MOST_JOBS + 10)]
