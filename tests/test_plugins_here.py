"""Plugins, jobs and explanations in this process."""

from __future__ import annotations

import logging
import threading

import pytest
from plugged import Shelf

import hetsched
from hetsched.errors import HetschedError, NoWorkerError


@pytest.fixture
def register():
    registered = []

    def register(plugin):
        registered.append(hetsched.register_plugin(plugin))
        return registered[-1]

    yield register
    for plugin in registered:
        hetsched.unregister_plugin(plugin)


def two(**annotations):
    """A graph of a task and of one with annotations that reads it."""
    return {"x": (int, "3"), "y": (hetsched.task(float, **annotations), "x")}


def test_a_plugin_that_allows_nobody_has_a_computation_fail_at_once(register):
    graph = two(shelf=None)
    assert hetsched.get(graph, "y") == 3.0
    shelf = register(Shelf)
    with pytest.raises(NoWorkerError) as caught:
        hetsched.get(graph, "y")
    assert "plugin 'Shelf': 0 of 1; together: none" in str(caught.value)
    assert hetsched.get(two(shelf="2"), "x") == 3
    hetsched.unregister_plugin(shelf)
    assert hetsched.get(graph, "y") == 3.0


def test_it_hears_of_tasks_and_its_errors_are_counted(register, caplog):
    class Listening(hetsched.Plugin):
        def __init__(self):
            self.heard = []

        def task_moved(self, task, phase, why, now):
            self.heard.append((task.key, phase))
            if phase == "MEMORY":
                raise ValueError("too many")

    listening = register(Listening())
    with caplog.at_level(logging.ERROR, "hetsched.plugins"):
        assert hetsched.get(two(), "y") == 3.0
    report = hetsched.last_report()
    assert report.plugins["Listening"]["last"] == "task_moved: ValueError: too many"
    assert {key for key, _ in listening.heard} == {"x", "y"}
    assert ("y", "MEMORY") in listening.heard
    assert "the plugin 'Listening' raised ValueError in task_moved" in caplog.text


def test_what_is_no_plugin_is_refused():
    with pytest.raises(TypeError, match="3 is no hetsched"):
        hetsched.register_plugin(3)
    with pytest.raises(TypeError, match="is no hetsched"):
        hetsched.register_plugin(int)
    with pytest.raises(HetschedError, match="the plugin 'nonsense' is not named like"):
        hetsched.register_plugin("nonsense")


def test_a_plugin_is_taken_by_its_name(register):
    assert type(register("plugged:Shelf")) is Shelf


def test_the_report_sums_up_by_job():
    with hetsched.annotate(job="etl"):
        graph = {f"x{n}": (hetsched.task(float, job="etl" if n % 2 else "other"), n) for n in range(6)}
        graph["z"] = (int, 3)
        hetsched.get({**graph}, ["z"])
        assert {job: row[0] for job, row in hetsched.last_report().by_job().items()} == {"etl": 1}
    hetsched.get(graph, ["x0", "x1", "x3", "z"])
    sums = hetsched.last_report().by_job()
    assert {job: row[0] for job, row in sums.items()} == {"etl": 2, "other": 1}
    assert sums["etl"][1] > 0
    assert sums["etl"][2] == 2 * sums["other"][2]


def test_explain_while_it_runs_and_after():
    told = []

    def look(n):
        asking = threading.Thread(target=lambda: told.append([hetsched.explain(key) for key in ("busy", "after")]))
        asking.start()
        asking.join(10)
        return n

    graph = {"busy": (look, 1), "after": (hetsched.task(float, executor="io"), "busy")}
    assert hetsched.get(graph, "after") == 1.0
    ((busy, after),) = told
    assert busy["text"].splitlines()[0] == "busy: ASSIGNED to embedded for the executor 'cpu'"
    ahead = "ahead of 1 of its inputs"
    assert after["text"].splitlines()[0] == f"after: ASSIGNED to embedded for the executor 'io', {ahead}"
    assert "  executor 'io': executor='io' (annotation)" in after["text"].splitlines()
    found = hetsched.explain("after")
    assert (found["phase"], found["executor"]) == ("RELEASED", "io")
    assert found["text"].startswith("after: it ran on the executor 'io' of embedded, from ")
    with pytest.raises(KeyError, match="there is no task 'never' under way in this process, nor in the last report"):
        hetsched.explain("never")


def test_a_task_may_explain_itself():
    assert hetsched.get({"me": (lambda: hetsched.explain("me")["phase"],)}, "me") == "ASSIGNED"
