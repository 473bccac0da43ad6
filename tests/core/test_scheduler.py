"""The scheduler's answer to each event, claimed whole."""

from __future__ import annotations

import pytest

from hetsched.core.check import check
from hetsched.core.commands import CancelTasks, FreeKeys, KeysFailed, KeysReady, RunTask, RunTasks
from hetsched.core.events import (
    CapacityChanged,
    ClientLeft,
    GraphCancelled,
    GraphExtended,
    GraphReleased,
    GraphSubmitted,
    InputsMissing,
    KeysReleased,
    ReplicasAdded,
    TasksFailed,
    TasksFinished,
    WorkerJoined,
    WorkerLost,
)
from hetsched.core.needs import PYTHON, rank_of
from hetsched.core.scheduler import Options, Scheduler
from hetsched.core.types import Capacity, TaskSpec, prefix_of
from hetsched.errors import AnnotationError, NoWorkerError, ProtocolError


def noop(*inputs):
    return inputs


def spec(key, *dependencies, **annotations):
    return TaskSpec(key, noop, (), None, dependencies, annotations or None)


def tupled(value):
    """The same with every list in it a tuple, so that only what is said counts."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(tupled, value))
    return tuple(map(tupled, value)) if isinstance(value, (list, tuple)) else value


class Said(list):
    """What was answered, equal to a list of the same types with the same fields.

    Of two named tuples ``==`` compares the fields alone: ``Stop((1,)) == Drop((1,))``.
    """

    def __eq__(self, other):
        return named(self) == named(other)

    __hash__ = None


def named(value):
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value).__name__, *map(named, value)
    return tuple(map(named, value)) if isinstance(value, (list, tuple)) else value


class Bench:
    """A scheduler that is checked after each event and answers in tuples."""

    def __init__(self, *, policy="earliest_finish", **options):
        self.scheduler = Scheduler(policy, Options(**options))
        self.now = 0.0
        self.specs = {}

    def __call__(self, event):
        self.now += 1.0
        try:
            commands = self.scheduler.handle(event, self.now)
        finally:
            check(self.scheduler.state)
        if isinstance(event, GraphSubmitted):
            # Ids are dealt in order, and a graph that is refused takes none.
            start = self.scheduler.state.next_id - len(event.tasks)
            self.specs.update(enumerate(event.tasks, start))
        return Said(map(tupled, commands))

    def join(self, name, *, window=0, pool=None, resources=None, **executors):
        return self(WorkerJoined(name, Capacity(executors or {"cpu": 1}, resources or {}, pool, window)))

    def submit(self, tasks, wanted, graph=0, client="c", **more):
        return self(GraphSubmitted(client, graph, tasks, wanted, **more))

    def order(self, worker, *tasks):
        """The RunTasks that gives these, as made by :func:`t`, to a worker."""
        orders = []
        for task, inputs, fields in tasks:
            s = self.specs[task]
            orders.append(RunTask(task, task, s, prefix_of(s.key), "cpu", inputs)._replace(**fields))
        return RunTasks(worker, tuple(orders))


def t(task, *inputs, **fields):
    """An expected order: its id, the ids it reads, and what differs from a plain task."""
    return task, inputs, fields


def done(worker, *tasks, attempt=0, executor="cpu", seconds=1.0, nbytes=8):
    return TasksFinished(worker, executor, [(task, attempt, 0.0, seconds, nbytes, 0) for task in tasks])


def failed(worker, task, error="bad", *, attempt=0, may_retry=True):
    return TasksFailed(worker, "cpu", [(task, attempt, error, may_retry)])


DIAMOND = [spec("load"), spec("inc-1", 0), spec("inc-2", 0), spec("sum", 1, 2)]


# One worker that wants all there is


def test_a_graph_goes_whole_to_the_only_worker() -> None:
    b = Bench()
    assert b.join("a") == []
    assert b.submit(DIAMOND, [3]) == [b.order("a", t(0, uses=2), t(1, 0, uses=1), t(2, 0, uses=1), t(3, 1, 2))]
    # What the worker forgets by itself, it is not told to forget.
    assert b(done("a", 0, 1, 2)) == []
    assert b(done("a", 3)) == [KeysReady("c", 0, ((0 + 3, 3, ("a",)),))]
    assert b(GraphReleased("c", 0)) == [FreeKeys("a", (3,))]
    assert (b.scheduler.state.tasks, b.scheduler.state.graphs) == ({}, {})


def test_a_result_that_is_wanted_and_read_is_kept() -> None:
    b = Bench()
    b.join("a")
    assert b.submit([spec("x"), spec("y", 0)], [0, 1]) == [b.order("a", t(0), t(1, 0))]
    assert b(done("a", 0)) == [KeysReady("c", 0, ((0, 0, ("a",)),))]
    assert b(done("a", 1)) == [KeysReady("c", 0, ((1, 1, ("a",)),))]


def test_what_is_ready_at_once_is_told_at_once() -> None:
    b = Bench()
    b.join("a")
    b.submit([spec("x"), spec("y"), spec("z")], [0, 1, 2])
    b.submit([spec("x")], [0], graph=1)
    told = [KeysReady("c", 0, ((2, 2, ("a",)), (0, 0, ("a",)))), KeysReady("c", 1, ((0, 3, ("a",)),))]
    assert b(done("a", 2, 3, 0)) == told


def test_equal_keys_of_two_graphs_are_two_tasks() -> None:
    b = Bench()
    b.join("a")
    assert b.submit([spec("x")], [0]) == [b.order("a", t(0))]
    assert b.submit([spec("x")], [0], graph=1) == [b.order("a", t(1))]
    assert b(done("a", 1)) == [KeysReady("c", 1, ((0, 1, ("a",)),))]


def test_an_empty_graph_asks_for_nothing() -> None:
    b = Bench()
    b.join("a")
    assert b.submit([], []) == []
    assert b(GraphReleased("c", 0)) == []


def test_a_graph_waits_for_the_first_worker() -> None:
    b = Bench()
    assert b.submit(DIAMOND, [3]) == []
    assert b.join("a") == [b.order("a", t(0, uses=2), t(1, 0, uses=1), t(2, 0, uses=1), t(3, 1, 2))]


# What a worker is given ahead of time


def test_a_chain_runs_ahead_as_far_as_the_window_goes() -> None:
    b = Bench()
    b.join("a", window=3)
    chain = [spec("x"), *(spec(f"x{i}", i - 1) for i in range(1, 6))]
    assert b.submit(chain, [5]) == [b.order("a", t(0, uses=1), t(1, 0, uses=1), t(2, 1))]
    assert b(done("a", 0)) == []  # more is given when inputs come, and those of 3 have not
    assert b(done("a", 1)) == []
    assert b(done("a", 2)) == [b.order("a", t(3, 2, uses=1), t(4, 3, uses=1), t(5, 4))]
    # 2 was ordered before its reader, so its worker waits to be told.
    assert b(done("a", 3)) == [FreeKeys("a", (2,))]
    assert b(done("a", 4, 5)) == [KeysReady("c", 0, ((5, 5, ("a",)),))]


def test_the_window_is_per_slot_of_an_executor() -> None:
    b = Bench()
    b.join("a", window=1, cpu=2, io=1)
    tasks = [spec(f"x{i}") for i in range(3)] + [spec(f"y{i}", executor="io") for i in range(2)]
    assert b.submit(tasks, range(5)) == [b.order("a", t(0), t(1), t(3, executor="io"))]
    assert b(done("a", 3, executor="io")) == [
        b.order("a", t(4, executor="io")),
        KeysReady("c", 0, ((3, 3, ("a",)),)),
    ]
    assert b(done("a", 0, 1)) == [b.order("a", t(2)), KeysReady("c", 0, ((0, 0, ("a",)), (1, 1, ("a",))))]


def test_a_task_does_not_run_ahead_of_inputs_made_elsewhere() -> None:
    b = Bench(policy="round_robin")
    b.join("a", window=1)
    b.join("b", window=1)
    assert b.submit([spec("x"), spec("y"), spec("z", 0, 1)], [2]) == [b.order("a", t(0)), b.order("b", t(1))]
    assert b(done("a", 0)) == []
    assert b(done("b", 1)) == [b.order("b", t(2, 0, 1, holders=((0, ("a",)),)))]
    assert b(ReplicasAdded("b", [0])) == []
    assert b(done("b", 2)) == [FreeKeys("a", (0,)), FreeKeys("b", (0, 1)), KeysReady("c", 0, ((2, 2, ("b",)),))]


def test_a_late_worker_gets_its_share() -> None:
    b = Bench()
    b.join("a", window=2)
    assert b.submit([spec(f"x{i}") for i in range(5)], range(5)) == [b.order("a", t(0), t(1))]
    assert b.join("b", window=2) == [b.order("b", t(2), t(3))]
    assert b.join("d", window=2) == [b.order("d", t(4))]


def test_a_worker_that_can_do_more_is_given_more() -> None:
    b = Bench()
    b.join("a", window=1)
    b.submit([spec("x0"), spec("x1"), spec("y", gpu=True)], [0, 1, 2])
    more = Capacity({"cpu": 2, "gpu": 1}, {"GPU": 1.0}, None, 1)
    gpu = t(2, executor="gpu", resources=(("GPU", 1.0),))
    assert b(CapacityChanged("a", more)) == [b.order("a", t(1), gpu)]


# Which goes first


def test_the_higher_priority_goes_first_and_then_the_earlier() -> None:
    b = Bench()
    b.join("a", window=1)
    tasks = [spec("x0"), spec("x1"), spec("low", priority=-1), spec("high", priority=2.5)]
    assert b.submit(tasks, range(4)) == [b.order("a", t(3, rank=rank_of(0, 2.5, 3)))]
    assert b(done("a", 3)) == [b.order("a", t(0)), KeysReady("c", 0, ((3, 3, ("a",)),))]
    assert b(done("a", 0)) == [b.order("a", t(1)), KeysReady("c", 0, ((0, 0, ("a",)),))]
    last = t(2, rank=rank_of(0, -1, 2))
    assert b(done("a", 1)) == [b.order("a", last), KeysReady("c", 0, ((1, 1, ("a",)),))]


def test_the_more_urgent_graph_goes_before_any_priority() -> None:
    b = Bench()
    b.join("a", window=1)
    b.submit([spec("x")], [0])
    assert b.submit([spec("y", priority=1_000_000)], [0], graph=1) == []
    assert b.submit([spec("z")], [0], graph=2, urgency=1) == []
    urgent = t(2, rank=rank_of(1, 0, 2))
    assert b(done("a", 0)) == [b.order("a", urgent), KeysReady("c", 0, ((0, 0, ("a",)),))]


# What a task demands


@pytest.mark.parametrize(
    ("annotations", "executor", "resources"),
    [
        ({}, "cpu", ()),
        ({"executor": "io"}, "io", ()),
        ({"executor": "process"}, "process", ()),
        ({"gpu": True}, "gpu", (("GPU", 1.0),)),
        ({"executor": "gpu"}, "gpu", (("GPU", 1.0),)),
        ({"resources": {"GPU": 2}}, "gpu", (("GPU", 2.0),)),
        ({"resources": {"mem": 3, "disk": 0.5}}, "cpu", (("disk", 0.5), ("mem", 3.0))),
        ({"gpu": False, "something": "unknown"}, "cpu", ()),
    ],
)
def test_annotations_say_where_and_with_what(annotations, executor, resources) -> None:
    b = Bench()
    b.join("a", cpu=1, io=1, gpu=1, process=1, resources={"GPU": 2.0, "mem": 4.0, "disk": 1.0})
    kind = "x!" if annotations.get("gpu") is False else "x"
    expected = t(0, executor=executor, resources=resources, prefix=kind)
    assert b.submit([spec("x", **annotations)], [0]) == [b.order("a", expected)]


def test_a_graph_may_rename_executors_for_itself() -> None:
    b = Bench()
    b.join("a", **{"cpu": 4, "cpu:1": 1})
    tasks = [spec("x"), spec("y", 0)]
    lane = {"executor": "cpu:1"}
    answer = b.submit(tasks, [1], lanes={"cpu": "cpu:1"})
    assert answer == [b.order("a", t(0, uses=1, **lane), t(1, 0, **lane))]
    assert b.submit(tasks, [1], graph=1) == [b.order("a", t(2, uses=1), t(3, 2))]


def test_workers_and_pools_are_kept_to() -> None:
    b = Bench()
    b.join("a", pool="left")
    b.join("b", pool="right")
    b.join("d", pool="*")
    tasks = [
        spec("x", pool="right", workers=["a", "b"]),
        spec("y", pool=["left", "right"], workers="d"),
        spec("z", workers="nobody", allow_other_workers=True),
        spec("w", workers="d", allow_other_workers=True),
    ]
    assert b.submit(tasks, range(4)) == [b.order("b", t(0)), b.order("d", t(1), t(3)), b.order("a", t(2))]


def test_a_task_nobody_can_run_waits_for_one_who_can() -> None:
    b = Bench()
    b.join("a", window=1)
    assert b.submit([spec("x"), spec("y", 0, pool="p"), spec("z")], [1, 2]) == [b.order("a", t(0))]
    assert b(done("a", 0)) == [b.order("a", t(2))]
    assert b.join("b", pool="q") == []
    assert b.join("d", pool="p") == [b.order("d", t(1, 0, holders=((0, ("a",)),)))]


def test_without_patience_a_task_nobody_can_run_fails_its_graph_at_once() -> None:
    b = Bench(wait_for_workers=False)
    b.join("a", pool="p", resources={"mem": 1.0})
    b.join("b", cpu=1, gpu=1, resources={"GPU": 1.0})
    tasks = [spec("x"), spec("y", pool=["p", "q"], workers=["a"], resources={"mem": 2}, executor="io")]
    (answer,) = b.submit(tasks, [0, 1])
    assert answer._replace(error=None) == KeysFailed("c", 0, (0, 1), 1, None, None, "")
    assert type(answer.error) is NoWorkerError
    assert str(answer.error) == (
        "no worker can run the task 'y': executor 'io': 0 of 2 workers; pool 'p' or 'q': 1 of 2; "
        "workers a: 1 of 2; resources mem=2: 0 of 2; together: none"
    )
    assert not b.scheduler.state.graphs
    # The name is free again, and the ids too.
    assert b.submit([spec("x", gpu=True)], [0]) == [b.order("b", t(0, executor="gpu", resources=(("GPU", 1.0),)))]


def test_without_patience_and_without_workers_it_says_so() -> None:
    b = Bench(wait_for_workers=False)
    (answer,) = b.submit([spec(("x", 1), gpu=True)], [0])
    assert str(answer.error) == (
        "no worker can run the task ('x', 1): there are no workers (it needs executor 'gpu', resources GPU=1)"
    )


# Errors in tasks


def test_a_failure_reaches_all_that_need_it_and_nothing_else() -> None:
    b = Bench()
    b.join("a")
    tasks = [spec("x"), spec("y", 0), spec("z", 1), spec("other"), spec("mixed", 2, 3), spec("fine", 3)]
    assert b.submit(tasks, [1, 4, 5]) == [
        b.order("a", t(0, uses=1), t(1, 0), t(2, 1, uses=1), t(3, uses=2), t(4, 2, 3), t(5, 3))
    ]
    assert b(failed("a", 0, "boom")) == [
        CancelTasks("a", (1, 2, 4)),
        KeysFailed("c", 0, (1, 4), 0, "boom", "a", "2.000000 ASSIGNED (a); 3.000000 WAITING (it raised)"),
    ]
    assert b(done("a", 3, 5)) == [FreeKeys("a", (3,)), KeysReady("c", 0, ((5, 5, ("a",)),))]
    assert b(GraphReleased("c", 0)) == [FreeKeys("a", (5,))]


def test_what_only_a_failed_task_needed_is_given_up() -> None:
    b = Bench(policy="round_robin")
    b.join("a", window=1)
    b.join("b", window=1)
    tasks = [spec("x"), spec("y"), spec("sum", 0, 1), spec("later"), spec("last", 2, 3)]
    assert b.submit(tasks, [4]) == [b.order("a", t(0)), b.order("b", t(1))]
    assert b(done("b", 1)) == [b.order("b", t(3))]
    assert b(failed("a", 0, "boom")) == [
        CancelTasks("b", (3,)),
        FreeKeys("b", (1,)),
        KeysFailed("c", 0, (4,), 0, "boom", "a", "3.000000 READY (submitted); 3.000000 ASSIGNED (a); "
                   "5.000000 WAITING (it raised)"),
    ]  # fmt: skip


def test_two_failures_in_one_message_are_two_answers() -> None:
    b = Bench()
    b.join("a")
    b.submit([spec("x"), spec("y"), spec("z", 0), spec("w", 1)], [2, 3])
    story = "2.000000 ASSIGNED (a); 3.000000 WAITING (it raised)"
    assert b(TasksFailed("a", "cpu", [(0, 0, "one", True), (1, 0, "two", False)])) == [
        CancelTasks("a", (2, 3)),
        KeysFailed("c", 0, (2,), 0, "one", "a", story),
        KeysFailed("c", 0, (3,), 1, "two", "a", story),
    ]


def test_a_task_is_retried_where_others_count_on_it() -> None:
    b = Bench()
    b.join("a")
    assert b.submit([spec("x", retries=2), spec("y", 0)], [1]) == [b.order("a", t(0, uses=1), t(1, 0))]
    assert b(failed("a", 0)) == [b.order("a", t(0, uses=1, attempt=1))]
    assert b(failed("a", 0, attempt=0)) == []  # said of an attempt that is over
    assert b(failed("a", 0, attempt=1)) == [b.order("a", t(0, uses=1, attempt=2))]
    (cancel, told) = b(failed("a", 0, attempt=2))
    assert named(cancel) == named(CancelTasks("a", (1,)))
    assert told == KeysFailed(
        "c", 0, (1,), 0, "bad", "a",
        "2.000000 ASSIGNED (a); "
        "3.000000 READY (retried after an error); 3.000000 ASSIGNED (a); "
        "5.000000 READY (retried after an error); 5.000000 ASSIGNED (a); 6.000000 WAITING (it raised)",
    )  # fmt: skip


def test_a_retry_that_nobody_waits_for_may_go_to_another_worker() -> None:
    b = Bench(policy="round_robin")
    b.join("a", window=1)
    b.join("b", window=1)
    assert b.submit([spec("x", retries=1)], [0]) == [b.order("a", t(0))]
    assert b(failed("a", 0)) == [b.order("b", t(0, attempt=1))]
    assert b(done("a", 0)) == []  # from a worker that was not given this attempt
    assert b(done("b", 0, attempt=1)) == [KeysReady("c", 0, ((0, 0, ("b",)),))]


def test_an_error_that_must_not_be_retried_is_final() -> None:
    b = Bench()
    b.join("a")
    b.submit([spec("x", retries=5)], [0])
    assert b(failed("a", 0, "stopped", may_retry=False)) == [
        KeysFailed("c", 0, (0,), 0, "stopped", "a", "2.000000 ASSIGNED (a); 3.000000 WAITING (it raised)")
    ]


def test_the_inputs_of_a_retry_are_freed_by_order() -> None:
    b = Bench()
    b.join("a")
    assert b.submit([spec("x"), spec("y", 0, retries=1)], [1]) == [b.order("a", t(0, uses=1), t(1, 0))]
    assert b(done("a", 0)) == []
    assert b(failed("a", 1)) == [b.order("a", t(1, 0, attempt=1))]
    assert b(done("a", 1, attempt=1)) == [FreeKeys("a", (0,)), KeysReady("c", 0, ((1, 1, ("a",)),))]


# Giving up


@pytest.mark.parametrize("event", [GraphCancelled("c", 0), GraphReleased("c", 0), ClientLeft("c")])
def test_a_graph_that_is_given_up_leaves_nothing(event) -> None:
    b = Bench(policy="round_robin")
    b.join("a", window=1)
    b.join("b", window=1)
    tasks = [spec("x"), spec("y"), spec("z", 0), spec("w", 1), spec("v", 2, 3)]
    b.submit(tasks, [0, 4])
    b(done("a", 0))
    assert b(event) == [CancelTasks("b", (1,)), CancelTasks("a", (2,)), FreeKeys("a", (0,))]
    assert (b.scheduler.state.tasks, b.scheduler.state.graphs) == ({}, {})
    assert b(event) == []
    # What comes late is passed over.
    assert b(done("b", 1)) == []
    assert b(failed("a", 2)) == []


def test_a_client_takes_only_its_own_graphs_along() -> None:
    b = Bench()
    b.join("a")
    b.submit([spec("x")], [0])
    b.submit([spec("x")], [0], client="d")
    b.submit([spec("x")], [0], graph=7)
    assert b(ClientLeft("c")) == [CancelTasks("a", (0, 2))]
    assert b(done("a", 1)) == [KeysReady("d", 0, ((0, 1, ("a",)),))]
    assert b(ClientLeft("nobody")) == []


def test_room_left_by_a_cancelled_graph_goes_to_the_next() -> None:
    b = Bench()
    b.join("a", window=1)
    b.submit([spec("x")], [0])
    assert b.submit([spec("y")], [0], graph=1) == []
    assert b(GraphCancelled("c", 0)) == [CancelTasks("a", (0,)), b.order("a", t(1))]


def test_a_result_the_worker_was_to_forget_by_itself_is_freed_with_its_graph() -> None:
    b = Bench()
    b.join("a")
    b.submit([spec("x"), spec("y", 0)], [1])
    b(done("a", 0))
    assert b(GraphCancelled("c", 0)) == [CancelTasks("a", (1,)), FreeKeys("a", (0,))]


# Copies


def test_copies_are_noted_used_and_freed() -> None:
    b = Bench(policy="round_robin")
    b.join("a", window=1)
    b.join("b", window=1)
    b.submit([spec("x"), spec("y", 0), spec("z", 0)], [1, 2])
    assert b(done("a", 0)) == [b.order("b", t(1, 0, holders=((0, ("a",)),))), b.order("a", t(2, 0))]
    assert b(ReplicasAdded("b", [0])) == []
    assert b(ReplicasAdded("b", [0])) == []
    assert b(ReplicasAdded("nobody", [0])) == []
    assert b(done("b", 1)) == [KeysReady("c", 0, ((1, 1, ("b",)),))]
    assert b(done("a", 2)) == [FreeKeys("a", (0,)), FreeKeys("b", (0,)), KeysReady("c", 0, ((2, 2, ("a",)),))]
    # A copy of what is gone, or never was, is not to be kept.
    assert b(ReplicasAdded("b", [0, 77])) == [FreeKeys("b", (0, 77))]


def test_a_result_with_a_copy_is_not_lost_with_its_maker() -> None:
    b = Bench(policy="round_robin")
    b.join("a", window=1)
    b.join("b", window=1)
    b.submit([spec("x"), spec("y"), spec("z", 0, 1)], [0, 2])
    assert b(done("a", 0)) == [KeysReady("c", 0, ((0, 0, ("a",)),))]
    assert b(done("b", 1)) == [b.order("b", t(2, 0, 1, holders=((0, ("a",)),)))]
    assert b(ReplicasAdded("b", [0])) == []
    # Whoever wants it is told who has it now.
    assert b(WorkerLost("a", "gone")) == [KeysReady("c", 0, ((0, 0, ("b",)),))]
    assert b(done("b", 2)) == [FreeKeys("b", (1,)), KeysReady("c", 0, ((2, 2, ("b",)),))]
    assert b(GraphReleased("c", 0)) == [FreeKeys("b", (0, 2))]


# What a peer may not say


def snapshot(scheduler):
    """All that is kept of tasks, graphs, workers, pools, prefixes and queues."""
    state = scheduler.state
    ids = lambda states: [s.id for s in states]  # noqa: E731
    return {
        "tasks": {
            task: (
                ts.phase, ids(ts.dependencies), ids(ts.dependents), ts.waiting_on, ts.unplaced, ts.users,
                ids(ts.who_has), ts.processing_on and ts.processing_on.id, ts.wanted, ts.nbytes, ts.retries_left,
                ts.losses, ts.attempt, ts.rank, ts.tell_story(),
            )
            for task, ts in state.tasks.items()
        },
        "graphs": {name: (g.base, ids(g.tasks), list(g.wanted)) for name, g in state.graphs.items()},
        "workers": {
            name: (w.capacity, dict(w.assigned), w.held, w.nbytes, w.occupancy) for name, w in state.workers.items()
        },
        "pools": {name: list(pool.members) for name, pool in state.pools.items()},
        "queued": sorted(entry for heap in state.ready.values() for entry in heap),
        "next": state.next_id,
    }  # fmt: skip


BAD = {
    "a worker's name that is taken": (WorkerJoined("a", Capacity({"cpu": 9})), "there is a worker 'a' already"),
    "a worker unknown": (CapacityChanged("b", Capacity({"cpu": 9})), "there is no worker 'b'"),
    "a graph's number that is taken": (
        GraphSubmitted("c", 0, [spec("new")], [0]),
        "client 'c' has a graph 0 already",
    ),
    "a task that reads itself": (
        GraphSubmitted("c", 1, [spec("new"), spec("own", 1)], [0]),
        "task 'own' at 1 depends on 1, which is not before it",
    ),
    "a task that reads a later one": (
        GraphSubmitted("c", 1, [spec("new", 1), spec("late")], [0]),
        "task 'new' at 0 depends on 1, which is not before it",
    ),
    "a negative position": (
        GraphSubmitted("c", 1, [spec("new"), spec("odd", -1)], [0]),
        "task 'odd' at 1 depends on -1, which is not before it",
    ),
    "a result that is not there": (
        GraphSubmitted("c", 1, [spec("new")], [0, 1]),
        "position 1 is wanted and the graph has 1 tasks",
    ),
    "a result before the first": (
        GraphSubmitted("c", 1, [spec("new")], [-1]),
        "position -1 is wanted and the graph has 1 tasks",
    ),
}


@pytest.mark.parametrize(("event", "text"), BAD.values(), ids=BAD.keys())
def test_a_protocol_error_changes_nothing(event, text) -> None:
    b = Bench()
    b.join("a", window=2, pool="p")
    b.submit([*DIAMOND, spec("more"), spec("stuck", pool="q")], [3, 4])
    b(done("a", 0))
    before = snapshot(b.scheduler)
    with pytest.raises(ProtocolError) as caught:
        b(event)
    assert str(caught.value) == text
    assert snapshot(b.scheduler) == before
    # and it goes on as if nothing had been said
    assert b(done("a", 1, 2)) == [FreeKeys("a", (0,)), b.order("a", t(3, 1, 2), t(4))]


def test_a_bad_annotation_changes_nothing() -> None:
    b = Bench()
    b.join("a")
    before = snapshot(b.scheduler)
    with pytest.raises(AnnotationError):
        b.submit([spec("x"), spec("y", 0, retries=-1)], [1])
    assert snapshot(b.scheduler) == before


def test_messages_of_workers_that_are_gone_are_passed_over() -> None:
    b = Bench()
    b.join("a")
    b.submit([spec("x"), spec("y", 0)], [1])
    before = snapshot(b.scheduler)
    for event in [
        done("b", 0),
        failed("b", 0),
        InputsMissing("b", [0], [(1, 0)]),
        ReplicasAdded("b", [0]),
        WorkerLost("b", "never was"),
    ]:
        assert b(event) == []
    assert snapshot(b.scheduler) == before


# Graphs that are refused


def test_what_reads_a_refused_graph_is_refused_too_and_so_is_what_comes_of_it_later() -> None:
    s = Scheduler()
    s.handle(WorkerJoined("a", Capacity({"cpu": 1}, python="3.12")), 0)
    lost = [TaskSpec("f", len, annotations={PYTHON: "3.1"}), TaskSpec("g", len)]
    (refused,) = s.handle(GraphSubmitted("c", 1, lost[:1], [0], total=2), 1)
    assert (refused.graph, refused.failed, refused.root) == (1, [0], 0)
    assert "Python 3.1, and the workers run Python 3.12" in str(refused.error)
    assert s.handle(GraphExtended("c", 1, lost[1:], [1]), 2) == [refused._replace(failed=[1])]
    reader = GraphSubmitted("c", 2, [TaskSpec("h", len, dependencies=[-1])], [0], externals=[(1, 0)])
    assert s.handle(reader, 3) == [refused._replace(graph=2, failed=[0], root=-1)]
    assert s.handle(KeysReleased("c", 1, [0, 1]), 4) == []
    with pytest.raises(ProtocolError, match="this client does not hold it"):
        s.handle(reader._replace(graph=3), 5)
    assert s.handle(ClientLeft("c"), 6) == []
    check(s.state)


def test_letting_go_of_all_that_has_come_does_not_end_a_graph_of_which_more_is_to_come() -> None:
    s = Scheduler()
    s.handle(GraphSubmitted("c", 1, [TaskSpec("x", len)], [0], total=2), 0)
    assert s.handle(KeysReleased("c", 1, [0]), 1) == []
    s.handle(GraphExtended("c", 1, [TaskSpec("y", len, dependencies=[0])], [1]), 2)
    (graph,) = s.state.graphs.values()
    assert [ts.phase.name for ts in graph.tasks] == ["READY", "WAITING"]
