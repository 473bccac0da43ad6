"""What a person is told of a task, word for word."""

from __future__ import annotations

import pytest

from hetsched.core.events import GraphSubmitted, TasksFinished, WorkerJoined
from hetsched.core.explain import MOST_FOUND, evidence_of, explain, find
from hetsched.core.scheduler import Scheduler
from hetsched.core.types import Capacity, TaskSpec


def spec(key, *dependencies, **annotations):
    return TaskSpec(key, len, (), None, dependencies, annotations or None)


@pytest.fixture
def scheduler():
    """Four workers, three of them in pools, one with two GPUs."""
    scheduler = Scheduler()
    for name, pool, gpus in (("w0", None, 0), ("w1", "A", 1), ("w2", "A", 2), ("w3", "C", 0)):
        executors = {"cpu": 1, "gpu": gpus} if gpus else {"cpu": 1}
        scheduler.handle(WorkerJoined(name, Capacity(executors, {"GPU": gpus} if gpus else {}, pool, 1)), 0.0)
    return scheduler


def text(scheduler, task):
    return explain(scheduler.state, scheduler.state.tasks[task])["text"].splitlines()


def test_each_restriction_and_all_together(scheduler) -> None:
    needy = spec(("fit", 0), pool="B", resources={"GPU": 2}, provenance="model.py:7, in train")
    scheduler.handle(GraphSubmitted("c", 0, [needy], [0]), 1.5)
    assert text(scheduler, 0) == [
        "('fit', 0): READY, and no worker can run it on the executor 'gpu'",
        "  who could run it: executor 'gpu': 2 of 4 workers; pool 'B': 0 of 4; resources GPU=2: 1 of 4; together: none",
        "  the cluster has executors cpu, gpu; of resources at most GPU=2 on a worker; pools A, C",
        "  executor 'gpu': resources GPU=2 (annotation)",
        "  built at model.py:7, in train",
        "  1.500000 READY (submitted)",
    ]
    found = explain(scheduler.state, scheduler.state.tasks[0])
    assert found["restrictions"] == {"executor 'gpu'": [2, 4], "pool 'B'": [0, 4], "resources GPU=2": [1, 4]}
    assert (found["workers"], found["evidence"]) == ([], [["annotation", "resources GPU=2"]])


def test_inputs_and_where_they_are(scheduler) -> None:
    tasks = [spec("x", workers=["w0"]), spec("y", workers=["w3"], executor="cpu"), spec("sum", 0, 1)]
    scheduler.handle(GraphSubmitted("c", 0, tasks, [2]), 1.0)
    scheduler.handle(TasksFinished("w0", "cpu", [(0, 0, 0.0, 1.0, 80, 0)]), 2.0)
    assert text(scheduler, 2) == [
        "sum: WAITING for 1 of its inputs",
        "  who could run it: executor 'cpu': 4 of 4 workers; together: 4",
        "  executor 'cpu': nothing says otherwise (default)",
        "  waits for y (ASSIGNED)",
        "  input x: 80 bytes on w0",
    ]
    assert text(scheduler, 1) == [
        "y: ASSIGNED to w3 for the executor 'cpu'",
        "  who could run it: executor 'cpu': 4 of 4 workers; workers w3: 1 of 4; together: 1",
        "  executor 'cpu': executor='cpu' (annotation)",
        "  1.000000 READY (submitted)",
        "  1.000000 ASSIGNED (w3)",
    ]
    assert text(scheduler, 0)[0] == "x: MEMORY, 80 bytes on w0"
    assert explain(scheduler.state, scheduler.state.tasks[2])["inputs"] == [
        {"key": "x", "phase": "MEMORY", "on": ["w0"], "nbytes": 80},
        {"key": "y", "phase": "ASSIGNED", "on": [], "nbytes": 0},
    ]


def test_without_workers() -> None:
    scheduler = Scheduler()
    scheduler.handle(GraphSubmitted("c", 0, [spec("x", gpu=True)], [0]), 1.0)
    assert text(scheduler, 0) == [
        "x: READY, and no worker can run it on the executor 'gpu'",
        "  who could run it: there are no workers (it needs executor 'gpu', resources GPU=1)",
        "  executor 'gpu': gpu=True (annotation)",
        "  1.000000 READY (submitted)",
    ]


@pytest.mark.parametrize(
    ("annotations", "evidence"),
    [
        ({}, [("default", "nothing says otherwise")]),
        ({"pool": "A", "resources": {"licence": 1}}, [("default", "nothing says otherwise")]),
        ({"executor": "io"}, [("annotation", "executor='io'")]),
        (
            {"executor": "gpu", "gpu": True, "resources": {"GPU": 0.5}},
            [("annotation", "executor='gpu'"), ("annotation", "gpu=True"), ("annotation", "resources GPU=0.5")],
        ),
    ],
)
def test_why_a_task_is_on_its_executor(scheduler, annotations, evidence) -> None:
    scheduler.handle(GraphSubmitted("c", 0, [spec("x", **annotations)], [0]), 1.0)
    assert evidence_of(scheduler.state.tasks[0]) == evidence


def test_tasks_are_found_by_key_and_by_what_it_looks_like(scheduler) -> None:
    scheduler.handle(GraphSubmitted("mine", 0, [spec(("x", 0)), spec("x"), spec(3)], [0]), 1.0)
    scheduler.handle(GraphSubmitted("yours", 0, [spec(("x", 0)), spec("3")], [0]), 2.0)

    def found(key, client=None):
        return [ts.id for ts in find(scheduler.state, key, client)]

    assert found(("x", 0)) == found("('x', 0)") == [3, 0]
    assert found(("x", 0), "mine") == [0, 3]
    assert (found("x"), found(3), found("3"), found("y"), found(("x", 1))) == ([1], [2], [4, 2], [], [])
    scheduler.handle(GraphSubmitted("mine", 1, [spec("many") for _ in range(30)], [0]), 1.0)
    assert found("many") == list(range(34, 34 - MOST_FOUND, -1))
