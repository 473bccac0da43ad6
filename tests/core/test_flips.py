"""What a scheduler orders when it finds out about GPU tasks, claimed whole."""

from __future__ import annotations

import gc

import pytest
from core.test_scheduler import Bench, t

from hetsched.core.commands import CancelTasks, KeysFailed, KeysReady, MoveTasks
from hetsched.core.events import (
    GraphExtended,
    GraphReleased,
    GraphSubmitted,
    LessonsForgotten,
    TasksFailed,
    TasksFinished,
    TasksReturned,
    WorkerJoined,
    WorkerLost,
)
from hetsched.core.evidence import CODE, INPUT, RAN, Evidence
from hetsched.core.explain import explain
from hetsched.core.kinds import MOST_KINDS
from hetsched.core.makers import Maker
from hetsched.core.prefixes import TaskPrefix
from hetsched.core.types import Capacity, TaskSpec
from hetsched.core.verdicts import cases_of, lessons, rows, verdict_on
from hetsched.errors import ProtocolError

GPU_1 = {"resources": {"GPU": 1.0}, "cpu": 1, "gpu": 1}
CODED = Maker("c" * 32, "m.f", (Evidence(CODE, 0.9, "cupy.sum"),))
PLAIN = Maker("d" * 32, "m.g")
ON_GPU = {"executor": "gpu", "resources": (("GPU", 1.0),)}


def spec(key, *dependencies, **annotations):
    return TaskSpec(key, None, (), None, dependencies, annotations or None)  # type: ignore[arg-type]


def done(worker, *tasks, cuda=0, executor="cpu", seen=(), watched=False, attempt=0):
    outcomes = tuple((task, attempt, 0.0, 1.0, 8, cuda) for task in tasks)
    return TasksFinished(worker, executor, outcomes, seen, watched)


def submit(bench, tasks, wanted, makers=(), made_by=(), graph=0):
    return bench(GraphSubmitted("c", graph, tasks, wanted, makers=makers, made_by=made_by))


# Evidence that comes with the graph


def test_code_that_uses_a_device_goes_to_the_gpu_lane_at_once_and_all_workers_are_told_once() -> None:
    b = Bench()
    b.join("a", window=1, **GPU_1)
    b.join("b", window=1)
    first = submit(b, [spec("x-1"), spec("y-1")], [0, 1], [CODED, PLAIN], [0, 1])
    assert first == [
        MoveTasks("a", (), (("x", True),)),
        MoveTasks("b", (), (("x", True),)),
        b.order("a", t(0, **ON_GPU)),
        b.order("b", t(1)),
    ]
    assert submit(b, [spec("x-2")], [0], [CODED], [0], graph=1) == []  # the lane is taken; nothing new is told
    assert b(done("a", 0, executor="gpu")) == [b.order("a", t(2, **ON_GPU)), KeysReady("c", 0, ((0, 0, ("a",)),))]


def test_a_person_s_word_stands_above_all_evidence() -> None:
    b = Bench()
    b.join("a", window=0, cpu=1, gpu=1, io=1, resources={"GPU": 1.0})
    b.specs.update(enumerate([spec("x-1", gpu=False), spec("x-2", executor="io"), spec("x-3")]))
    assert submit(b, list(b.specs.values()), [0, 1, 2], [CODED], [0, 0, 0]) == [
        MoveTasks("a", (), (("x", True),)),
        b.order("a", t(0, prefix="x!"), t(1, executor="io"), t(2, **ON_GPU)),
    ]


def test_functions_that_share_a_prefix_are_told_apart() -> None:
    b = Bench()
    b.join("a", window=0, **GPU_1)
    tasks = [spec("lambda-1"), spec("lambda-2"), spec("lambda-3")]
    orders = submit(b, tasks, [0, 1, 2], [PLAIN, CODED], [0, 1, 0])
    kind = "lambda#" + "c" * 12
    assert orders == [
        MoveTasks("a", (), ((kind, True),)),
        b.order("a", t(0), t(1, prefix=kind, **ON_GPU), t(2)),
    ]
    assert b.scheduler.state.tasks[1].prefix.name == "lambda"


def test_an_argument_on_a_device_is_one_task_s_and_not_its_kind_s() -> None:
    b = Bench()
    b.join("a", window=0, **GPU_1)
    near = PLAIN._replace(evidence=(Evidence(INPUT, 0.9, "an argument is on a device"),))
    assert submit(b, [spec("x-1"), spec("x-2")], [0, 1], [PLAIN, near], [0, 1]) == [b.order("a", t(0), t(1, **ON_GPU))]


def test_a_graph_in_parts_goes_on_counting_its_makers() -> None:
    b = Bench()
    b.join("a", window=0, **GPU_1)
    b(GraphSubmitted("c", 0, [spec("x-1")], [0], total=3, makers=[PLAIN], made_by=[0]))
    b.specs.update({1: spec("x-2"), 2: spec("y-1")})
    part = GraphExtended("c", 0, [b.specs[1], b.specs[2]], [1, 2], [CODED], [0, 1])
    assert b(part) == [MoveTasks("a", (), (("y", True),)), b.order("a", t(1), t(2, **ON_GPU))]


@pytest.mark.parametrize("made_by", [[0], [0, 2], [0, -1], [0, 0, 0]])
def test_makers_that_do_not_fit_their_tasks_are_refused(made_by) -> None:
    b = Bench()
    b.join("a")
    with pytest.raises(ProtocolError, match="maker"):
        submit(b, [spec("x-1"), spec("x-2")], [0], [PLAIN], made_by)


# Evidence out of runs


def test_a_result_on_a_device_moves_the_others_of_its_kind_and_what_reads_it() -> None:
    b = Bench()
    b.join("a", window=0, **GPU_1)
    b.join("b", window=0)
    tasks = [spec("p-1", workers="a"), spec("p-2", workers="a"), spec("q-1", 0, workers="a"), spec("q-2", workers="a")]
    b.submit(tasks, [1, 2, 3])
    assert b(done("a", 0, cuda=8)) == [
        MoveTasks("a", ((1, "gpu"),), (("p", True),)),
        MoveTasks("b", (), (("p", True),)),
    ]
    executors = {ts.key: ts.executor for ts in b.scheduler.state.tasks.values()}
    assert executors == {"p-1": "cpu", "p-2": "gpu", "q-1": "gpu", "q-2": "cpu"}
    assert [cause for _, _, cause in b.scheduler.state.tasks[1].story][-1] == (
        "on executor 'gpu': thought a GPU task: result: its result is on a device"
    )


def test_workers_without_a_gpu_lane_give_back_what_they_have_not_begun() -> None:
    b = Bench()
    b.join("a", window=2, **GPU_1)
    b.join("b", window=2)
    b.submit([spec("p-1", workers="a"), spec("p-2", workers="b", allow_other_workers=True)], [0, 1])
    assert [ts.processing_on.id for ts in b.scheduler.state.tasks.values()] == ["a", "b"]
    assert b(done("a", 0, cuda=8))[:2] == [
        MoveTasks("a", (), (("p", True),)),
        MoveTasks("b", ((1, "gpu"),), (("p", True),)),
    ]
    assert b(TasksReturned("b", ((1, 0),))) == [b.order("a", t(1, attempt=1, **ON_GPU))]


def test_a_probe_s_word_counts_as_a_result_on_a_device_does() -> None:
    b = Bench()
    b.join("a", window=1, **GPU_1)
    b.submit([spec("p-1"), spec("p-2")], [0, 1])
    seen = ((0, Evidence(RAN, 0.9, "it took memory of a device")),)
    assert b(done("a", 0, seen=seen, watched=True)) == [
        MoveTasks("a", (), (("p", True),)),
        b.order("a", t(1, **ON_GPU)),
        KeysReady("c", 0, ((0, 0, ("a",)),)),
    ]


def test_ten_results_on_the_host_take_the_mark_away() -> None:
    b = Bench()
    b.join("a", window=1, **GPU_1)
    b.submit([spec(f"p-{n}") for n in range(13)], list(range(13)))
    b(done("a", 0, cuda=8))
    for n in range(1, 10):
        assert b(done("a", n, executor="gpu"))[0] == b.order("a", t(n + 1, **ON_GPU))
    assert b(done("a", 10, executor="gpu")) == [
        MoveTasks("a", (), (("p", False),)),
        b.order("a", t(11)),
        KeysReady("c", 0, ((10, 10, ("a",)),)),
    ]


# Errors of a device


def test_a_task_that_fails_on_a_cpu_for_want_of_a_device_is_tried_once_on_a_gpu_lane() -> None:
    b = Bench()
    b.join("a", window=1, **GPU_1)
    b.submit([spec("p-1"), spec("q-1", 0)], [1])
    word = "CUDARuntimeError: cudaErrorInvalidContext"
    answer = b(TasksFailed("a", "cpu", ((0, 0, "error", True),), ((0, word),)))
    assert answer[0] == MoveTasks("a", (), (("p", True),))
    assert answer[-1].tasks[0][:5] == (0, 0, b.specs[0], "p", "gpu")
    last = b(TasksFailed("a", "gpu", ((0, 1, "error", True),), ((0, word),)))
    assert [type(command) for command in last] == [CancelTasks, KeysFailed]


@pytest.mark.parametrize(
    "word", ["CUDARuntimeError: cudaErrorNoDevice: no CUDA-capable device", "RuntimeError: No CUDA GPUs are available"]
)
def test_where_there_is_no_device_a_task_is_tried_again_only_on_another_worker(word) -> None:
    b = Bench()
    b.join("a", window=1, **GPU_1)
    b.submit([spec("p-1")], [0])
    last = b(TasksFailed("a", "cpu", ((0, 0, "error", True),), ((0, word),)))
    assert [type(command) for command in last] == [KeysFailed]
    b = Bench()
    b.join("a", window=1)
    b.join("b", window=1, **GPU_1)
    b.submit([spec("p-1", workers=["a", "b"])], [0])
    b(TasksFailed("a", "cpu", ((0, 0, "error", True),), ((0, word),)))
    assert b.scheduler.state.tasks[0].processing_on.id == "b"


def test_functions_too_many_to_be_told_apart_are_so_by_their_code() -> None:
    b = Bench()
    b.join("a", window=0, **GPU_1)
    plain = [Maker(f"a{n:011}", "m.f") for n in range(MOST_KINDS + 5)]
    coded = [CODED._replace(digest=f"c{n:011}") for n in range(MOST_KINDS + 5)]
    makers = plain + coded
    submit(b, [spec(f"lambda-{n}") for n in range(len(makers))], [0], makers, list(range(len(makers))))
    states = b.scheduler.state.tasks.values()
    assert [ts.needs.executor for ts in states] == ["cpu"] * len(plain) + ["gpu"] * len(coded)
    assert len({ts.prefix for ts in states}) == 1 + MOST_KINDS + 2


def test_where_there_is_no_gpu_lane_the_error_is_the_person_s() -> None:
    b = Bench()
    b.join("a", window=1)
    b.submit([spec("p-1")], [0])
    (failed,) = b(TasksFailed("a", "cpu", ((0, 0, "error", True),), ((0, "no device"),)))
    assert isinstance(failed, KeysFailed)


# Workers


def test_where_no_worker_has_a_lane_it_runs_on_the_cpu_and_says_so_until_one_comes() -> None:
    b = Bench()
    b.join("a", window=1)
    assert submit(b, [spec("x-1"), spec("x-2")], [0, 1], [CODED], [0, 0]) == [
        MoveTasks("a", (), (("x", True),)),
        b.order("a", t(0)),
    ]
    found = explain(b.scheduler.state, b.scheduler.state.tasks[1])
    assert found["gpu"]["verdict"] == "gpu"
    assert found["gpu"]["because"] == (
        "code: cupy.sum; no worker that it may run on has a GPU lane, so it runs on the CPU"
    )
    assert "GPU task? gpu: code: cupy.sum; no worker" in found["text"]
    joined = b(WorkerJoined("g", Capacity({"cpu": 1, "gpu": 1}, {"GPU": 1.0}, None, 1)))
    assert joined == [MoveTasks("a", ((0, "gpu"),), ()), b.order("g", t(1, **ON_GPU))]
    assert b(TasksReturned("a", ((0, 0),))) == []  # it waits for the lane
    assert b(WorkerLost("g", "gone")) == [b.order("a", t(0, attempt=1))]


def test_a_lane_that_a_task_may_not_use_is_none() -> None:
    b = Bench()
    b.join("a", window=2)
    b.join("g", window=1, pool="P", **GPU_1)
    orders = submit(b, [spec("x-1", workers="a")], [0], [CODED], [0])
    assert orders[-1] == b.order("a", t(0))


# What is told


def test_rows_and_lessons() -> None:
    b = Bench()
    b.join("a", window=0, **GPU_1)
    submit(b, [spec("x-1"), spec("y-1")], [0, 1], [CODED, PLAIN], [0, 1])
    b(done("a", 0, executor="gpu"))
    b(done("a", 1))
    (row,) = rows(cases_of(b.scheduler.state))
    assert (row.prefix, row.verdict, row.right, row.wrong, row.first) == ("x", "gpu", 1, 0, 0)
    assert row.evidence == ((CODE, 0.9, "cupy.sum", 1),)
    (lesson,) = lessons(cases_of(b.scheduler.state))
    assert (lesson.function, lesson.verdict, lesson.evidence) == (CODED.digest, "gpu", CODED.evidence)
    assert lessons(cases_of(b.scheduler.state)) == []  # once


def test_prefixes_outlive_graphs_and_keep_nothing_of_them() -> None:
    """The check after each event says so too: of graphs that are taken in, and released, and refused."""
    b = Bench()
    b.join("a", cpu=1)
    submit(b, [spec("x-1"), spec("y-1"), spec("x-2")], [0], [PLAIN, CODED], [0, 0, 1])
    (graph,) = b.scheduler.state.graphs.values()
    kinds = graph.kinds
    assert sum(map(len, kinds)) == 3
    with pytest.raises(ProtocolError, match="which is not before it"):
        submit(b, [spec("x-1"), spec("y-1", 5)], [0], [PLAIN], [0, 0], graph=1)
    del graph
    b(GraphReleased("c", 0))
    assert not [one for one in gc.get_referrers(kinds) if isinstance(one, TaskPrefix)]


# Forgetting


def test_what_a_person_has_forgotten_is_not_thought_any_more() -> None:
    b = Bench()
    b.join("a", window=1, **GPU_1)
    b.join("b", window=1)
    b.submit([spec("m.put-1", workers="a"), *(spec(f"m.put-{n}", workers="a") for n in range(2, 5))], [0, 1, 2, 3])
    b(done("a", 0, cuda=8))
    assert b(LessonsForgotten(["take", "m.p"])) == []
    assert b(LessonsForgotten(["other", "put"])) == [
        MoveTasks("a", ((1, "cpu"),), (("m.put", False),)),
        MoveTasks("b", (), (("m.put", False),)),
    ]
    state = b.scheduler.state
    assert rows(cases_of(state)) == []
    assert verdict_on(state, state.tasks[2]) == {
        "verdict": "unknown", "because": "nothing was seen of a device", "evidence": [],
    }  # fmt: skip
    assert state.tasks[2].executor == "cpu"
    assert state.tasks[2].story[-1][2] == (
        "on executor 'cpu': thought no GPU task: what was learned of it was forgotten"
    )
    # It is learned anew, and what ran before is not counted again.
    b(done("a", 1, cuda=8))
    (row,) = rows(cases_of(state))
    assert (row.verdict, row.wrong, row.first, row.right) == ("gpu", 1, 1, 0)


def test_what_the_code_says_is_not_forgotten() -> None:
    b = Bench()
    b.join("a", window=0, **GPU_1)
    remembered = CODED._replace(evidence=(*CODED.evidence, Evidence(RAN, 0.9, "it took memory of a device")))
    submit(b, [spec("x-1"), spec("y-1")], [0, 1], [remembered, PLAIN], [0, 1])
    b(done("a", 1, cuda=8))
    assert b(LessonsForgotten(["*"])) == [MoveTasks("a", (), (("y", False),))]
    (row,) = rows(cases_of(b.scheduler.state))
    assert (row.prefix, row.verdict, row.evidence) == ("x", "gpu", ((CODE, 0.9, "cupy.sum", 1),))
