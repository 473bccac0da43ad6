"""Plugins narrow where tasks run and hear what becomes of them; whatever they do, scheduling goes on."""

from __future__ import annotations

import random

import pytest
from world import World, random_graph

from hetsched.core.check import check
from hetsched.core.commands import KeysFailed, RunTasks
from hetsched.core.events import (
    AskedAgain,
    CapacityChanged,
    GraphReleased,
    GraphSubmitted,
    TasksFinished,
    WorkerJoined,
    WorkerLost,
)
from hetsched.core.explain import explain
from hetsched.core.plugins import Plugin, Plugins, TaskView, WorkerView
from hetsched.core.scheduler import Options, Scheduler
from hetsched.core.types import Capacity, TaskSpec
from hetsched.server.stranded import Stranded


def spec(key, *dependencies, **annotations):
    return TaskSpec(key, len, (), None, dependencies, annotations or None)


class Bench:
    def __init__(self, *plugins, names=("a", "b"), window=2, **options):
        self.said = []
        found = Plugins(lambda sentence, error: self.said.append((sentence, str(error))))
        for plugin in plugins:
            found.add(plugin)
        self.plugins = found
        self.scheduler = Scheduler(options=Options(**options), plugins=found)
        self.state = self.scheduler.state
        self.now = 0.0
        for name in names:
            self(WorkerJoined(name, Capacity({"cpu": 1}, {}, None, window)))

    def __call__(self, event):
        self.now += 1.0
        commands = self.scheduler.handle(event, self.now)
        check(self.state)
        return commands

    def submit(self, *tasks, graph=0):
        return placed(self(GraphSubmitted("c", graph, tasks, range(len(tasks)))))

    def done(self, worker, *tasks):
        return placed(self(TasksFinished(worker, "cpu", [(task, 0, 0.0, 1.0, 8, 0) for task in tasks])))


def placed(commands):
    return {c.worker: [order.task for order in c.tasks] for c in commands if isinstance(c, RunTasks)}


class On(Plugin):
    """Tasks with ``on`` run on the workers of those names, as long as it lasts."""

    def __init__(self):
        self.asked = []
        self.nobody = False

    def valid_workers(self, task, workers):
        self.asked.append((task.key, [worker.name for worker in workers]))
        if "on" not in task.annotations:
            return None
        return () if self.nobody else task.annotations["on"].split()


def test_a_plugin_narrows_by_annotations_that_nobody_else_knows() -> None:
    b = Bench(plugin := On(), names=("a", "b", "d"))
    assert b.submit(spec("x", on="b d"), spec("y", on="d nowhere"), spec("z")) == {"a": [2], "b": [0], "d": [1]}
    assert plugin.asked == [(key, ["a", "b", "d"]) for key in "xyz"]
    assert b.said == []
    assert b.plugins.report() == {"On": {"errors": 0, "last": ""}}


def test_it_sees_the_whole_task_and_can_change_nothing() -> None:
    seen = []

    class Looking(Plugin):
        def valid_workers(self, task, workers):
            seen.append((task, workers))
            with pytest.raises(TypeError):
                task.annotations["on"] = "a"
            with pytest.raises(AttributeError):
                task.key = "other"
            with pytest.raises(TypeError):
                workers[0].executors["cpu"] = 9

    b = Bench(Looking(), names=())
    b(WorkerJoined("w", Capacity({"cpu": 2, "gpu": 1}, {"GPU": 1.0}, "P", 2, 0.0, "3.12")))
    b.submit(spec(("sum-0f1e2d3c4b5a69788796a5b4c3d2e1f0", 3), priority=2, flavour={"of": ["mine"]}))
    assert seen == [
        (
            TaskView(
                ("sum-0f1e2d3c4b5a69788796a5b4c3d2e1f0", 3), "sum", {"priority": 2, "flavour": {"of": ["mine"]}}, 0, "c"
            ),
            (WorkerView("w", "P", {"cpu": 2, "gpu": 1}, {"GPU": 1.0}, "3.12"),),
        )
    ]
    assert b.said == []


def test_what_annotations_demand_holds_as_well_and_so_does_every_plugin() -> None:
    class NotTheLast(Plugin):
        def valid_workers(self, task, workers):
            return list(workers)[:-1]

    b = Bench(On(), NotTheLast(), names=("a", "b", "d"))
    assert b.submit(spec("x", on="b d"), spec("y", on="a", workers=["b"]), spec("z", on="d")) == {"b": [0]}
    assert explain(b.state, b.state.tasks[1])["restrictions"] == {
        "executor 'cpu'": [3, 3], "workers b": [1, 3], "plugin 'On'": [1, 3], "plugin 'NotTheLast'": [2, 3]
    }  # fmt: skip


def test_what_may_run_ahead_is_asked_about_too() -> None:
    assert Bench(names="ab").submit(spec("x"), spec("y", 0)) == {"a": [0, 1]}
    b = Bench(On(), names="ab")
    assert b.submit(spec("x"), spec("y", 0, on="b"), spec("z", 0, on="a")) == {"a": [0, 2]}
    assert b.done("a", 0) == {"b": [1]}


def test_a_task_that_a_plugin_gives_to_nobody_waits_and_it_is_said_why() -> None:
    b = Bench(plugin := On())
    plugin.nobody = True
    assert b.submit(spec("x-1", on="b")) == {}
    why = "executor 'cpu': 2 of 2 workers; plugin 'On': 0 of 2; together: none"
    text = explain(b.state, b.state.tasks[0])["text"]
    assert text.splitlines()[:2] == ["x-1: READY, and no worker can run it on the executor 'cpu'",
                                     f"  who could run it: {why}"]  # fmt: skip
    stranded = Stranded(after=0)
    ((plight,), overdue) = stranded.look(b.state, 9.0)
    assert (plight.sentence.startswith(f"a task waits for a worker that could run it ('x'): {why}; "), overdue) == (
        True, []
    )  # fmt: skip
    # A worker that comes does not help, nor is it said again for that.
    assert b(WorkerJoined("d", Capacity({"cpu": 1}, {}, None, 2))) == []
    assert stranded.look(b.state, 9.0) == ([], [])
    assert placed(b(AskedAgain())) == {}
    plugin.nobody = False
    assert placed(b(AskedAgain())) == {"b": [0]}


def test_it_is_asked_again_when_there_are_other_workers() -> None:
    b = Bench(On(), names="a")
    assert b.submit(spec("x", on="d")) == {}
    assert placed(b(WorkerJoined("d", Capacity({"cpu": 0}, {}, None, 2)))) == {}
    assert placed(b(CapacityChanged("d", Capacity({"cpu": 1}, {}, None, 2)))) == {"d": [0]}
    assert placed(b(WorkerLost("d", "gone"))) == {}
    assert placed(b(WorkerJoined("d", Capacity({"cpu": 1}, {}, None, 2)))) == {"d": [0]}


def test_a_plugin_comes_and_goes_while_tasks_wait() -> None:
    b = Bench(names="ab")
    assert b.state.steering is None
    b.plugins.add(plugin := On())
    assert b.submit(spec("x", on="nobody")) == {}
    b.plugins.remove(plugin)
    assert placed(b(AskedAgain())) == {"a": [0]}


def test_where_nobody_waits_it_fails_at_once() -> None:
    b = Bench(On(), names=("w",), window=0, wait_for_workers=False)
    (failed,) = b(GraphSubmitted("c", 0, [spec("x", on="w"), spec("y", 0, on="v")], [1]))
    assert isinstance(failed, KeysFailed)
    assert (failed.root, str(failed.error)) == (
        1, "no worker can run the task 'y': executor 'cpu': 1 of 1 worker; plugin 'On': 0 of 1; together: none"
    )  # fmt: skip
    assert b.submit(spec("x", on="w"), spec("y", 0), graph=1) == {"w": [0, 1]}


def raising(error):
    def valid_workers(self, task, workers):
        raise error

    return valid_workers


def breaking(self, task, workers):
    yield workers[0].name
    raise ValueError("half way")


BAD = [
    (raising(ValueError("bad")), "ValueError", "bad"),
    (raising(SystemExit(3)), "SystemExit", "3"),
    (breaking, "ValueError", "half way"),
    (lambda *_: "w1", "TypeError", "valid_workers gives workers or their names in a list, or None, not 'w1'"),
    (lambda *_: 7, "TypeError", "'int' object is not iterable"),
    (lambda *_: [["w1"]], "TypeError", "unhashable type: 'list'"),
    (lambda *_: [3], "TypeError", "valid_workers gives workers or their names, not 3"),
]


@pytest.mark.parametrize(("valid_workers", "kind", "text"), BAD)
def test_what_a_plugin_does_wrong_is_counted_and_passed_over(valid_workers, kind, text) -> None:
    bad = type("Bad", (Plugin,), {"valid_workers": valid_workers})()
    b = Bench(bad, On(), names="ab")
    assert b.submit(spec("x", on="b")) == {"b": [0]}
    assert b.plugins.report() == {
        "Bad": {"errors": 1, "last": f"valid_workers: {kind}: {text}"},
        "On": {"errors": 0, "last": ""},
    }
    assert b.said == [(f"the plugin 'Bad' raised {kind} in valid_workers", text)]


def test_a_plugin_that_always_raises_does_not_fill_the_log() -> None:
    class Bad(Plugin):
        def task_moved(self, task, phase, why, now):
            raise ValueError(phase)

    b = Bench(Bad(), window=0, names="a")
    b.submit(*(spec(f"x-{n}") for n in range(1234)))
    assert [sentence.partition("which makes ")[2] for sentence, _ in b.said] == [
        "", "2 errors of it", "3 errors of it", "10 errors of it", "100 errors of it", "1000 errors of it",
    ]  # fmt: skip
    assert b.plugins.report()["Bad"]["errors"] == 1234


def test_it_hears_of_every_move_when_the_mind_is_whole() -> None:
    heard = []

    class Listening(Plugin):
        def task_moved(self, task, phase, why, now):
            check(b.state)
            heard.append((task.key, phase, why, now))

    b = Bench(Listening(), names="a", window=1)
    b.submit(spec("x"), spec("y", 0))
    assert heard == [("x", "READY", "submitted", 2.0), ("x", "ASSIGNED", "a", 2.0)]
    b.done("a", 0)
    assert heard[2:] == [
        ("x", "MEMORY", "a", 3.0), ("y", "READY", "inputs are there", 3.0), ("y", "ASSIGNED", "a", 3.0),
    ]  # fmt: skip
    b(GraphReleased("c", 0))
    assert heard[5:] == [(key, "RELEASED", "its client is done with its graph", 4.0) for key in "xy"]


def test_it_hears_of_workers() -> None:
    heard = []

    class Listening(Plugin):
        def worker_joined(self, worker):
            heard.append(("joined", worker.name, dict(worker.executors)))

        def worker_left(self, worker):
            heard.append(("left", worker.name))

    b = Bench(Listening(), names="ab")
    b.plugins.add(Listening())  # comes late, and hears of those who are there
    b(CapacityChanged("a", Capacity({"cpu": 5})))
    b(WorkerLost("b", "gone"))
    b(WorkerLost("b", "gone"))
    cpu, more = {"cpu": 1}, {"cpu": 5}
    assert heard == [
        ("joined", "a", cpu), ("joined", "b", cpu), ("joined", "a", cpu), ("joined", "b", cpu),
        ("joined", "a", more), ("joined", "a", more), ("left", "b"), ("left", "b"),
    ]  # fmt: skip


def test_without_plugins_and_with_those_that_do_nothing_nobody_is_asked() -> None:
    b = Bench(names="a")
    assert b.state.steering is None
    b = Bench(Plugin(), Plugin(), names="a")
    assert (b.plugins.narrows, list(b.plugins.report())) == (False, ["Plugin", "Plugin-2"])
    assert b.submit(spec("x")) == {"a": [0]}


class Moody(Plugin):
    """Allows what a seed says, now this and now that, and raises at times."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.there = set()
        self.moves = 0
        self.right = True

    def valid_workers(self, task, workers):
        self.right = self.right and {worker.name for worker in workers} == self.there
        chance = self.rng.random()
        if chance < 0.1:
            raise ValueError("moody")
        return None if chance < 0.5 else [w for w in workers if self.rng.random() < 0.6]

    def task_moved(self, task, phase, why, now):
        self.moves += 1

    def worker_joined(self, worker):
        self.there.add(worker.name)

    def worker_left(self, worker):
        self.there.remove(worker.name)


def with_copies(rng, tasks, wanted):
    for task in tasks:
        if rng.random() < 0.3:
            task.annotations = {**(task.annotations or {}), "replicate": rng.choice([1, 2, 3, "all"])}
    return tasks, wanted


@pytest.mark.parametrize("seed", range(60))
def test_every_seed_ends_with_the_right_results_whatever_a_plugin_says(seed: int) -> None:
    rng = random.Random(seed)
    world = World(seed, rng.choice(["earliest_finish", "random", "round_robin"]), flaky=0.3)
    moody = Moody(seed)
    world.scheduler.plugins.add(moody)
    window = rng.choice([0, 1, 2, 5])
    for _ in range(3):
        world.add_worker(window, rng.randint(1, 3))
    numbers = [world.submit(*with_copies(rng, *random_graph(rng))) for _ in range(2)]
    for _ in range(3):
        for _ in range(rng.randint(1, 60)):
            world.step()
        act = rng.choice(["lose", "retire", "ask"])
        if act == "ask":
            world.handle(AskedAgain())
            continue
        name = rng.choice(list(world.workers))
        (world.lose_worker if act == "lose" else world.retire_worker)(name)
        world.add_worker(window, rng.randint(1, 3))
    for _ in range(1000):
        world.run()
        if all(len(world.results[n]) == len(world.graphs[n][1]) for n in numbers):
            break
        world.handle(AskedAgain())
    for number in numbers:
        world.assert_right(number)
    assert moody.moves
    assert moody.right
    world.release_all()
    world.assert_empty()
