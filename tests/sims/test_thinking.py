"""What thinking costs the simulated scheduler by the changes it makes, and what it is measured to cost."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from importlib import import_module

import pytest
from click.testing import CliRunner

from hetsched.core.events import GraphReleased, GraphSubmitted, TasksFinished, WorkerJoined
from hetsched.sims import measuring
from hetsched.sims.commands import sims
from hetsched.sims.engine import Simulation, shipped
from hetsched.sims.measuring import measure_scheduler
from hetsched.sims.model import Machine, ServerCost, Submission, Task, Workload
from hetsched.sims.scenario import Scenario
from hetsched.sims.thinking import Changes
from hetsched.sims.workloads import SOURCES

CHAIN = [Task("x", (), 1.0, 0), Task("y", [0], 1.0, 0)]


def ask(*arguments):
    return CliRunner().invoke(sims, list(map(str, arguments)))


def test_each_change_of_phase_takes_its_time():
    cost = ServerCost(event=0.125, transition=0.0625)
    simulation = Simulation(Scenario([Submission(Workload("w", CHAIN))], [Machine("a")], server=cost, delay=0.25))
    seen = []
    simulation.server.hook = lambda event, _: seen.append(type(event))
    simulation.run()
    assert seen == [GraphSubmitted, WorkerJoined, TasksFinished, TasksFinished, GraphReleased]
    # x is ready; x and y are assigned; x is done; y is done and x released; y is released.
    assert [round((stop - start - 0.125) / 0.0625) for start, stop, _ in simulation.trace.busy] == [1, 2, 1, 2, 1]
    assert [(r.task, r.start, r.stop) for r in simulation.trace.task_runs()] == [(0, 0.75, 1.75), (1, 1.75, 2.75)]
    assert simulation.server.busy_seconds == 5 * 0.125 + 7 * 0.0625


def scenario():
    machines = [Machine(f"w{n}", 2) for n in range(4)]
    return Scenario([Submission(SOURCES["tree"](n=60))], machines, delay=0.001)


@pytest.mark.parametrize("policy", ["earliest_finish", "work_stealing", "dask_like", "heft"])
def test_counting_changes_nothing(policy):
    what = replace(scenario(), policy=policy)
    plain, counted = shipped(what), shipped(what)
    changes = Changes(counted.state)
    runs = [Simulation(what, mind=mind) for mind in (plain, counted)]
    for run in runs:
        run.run()
    assert runs[0].trace.digest() == runs[1].trace.digest()
    # Ready, assigned, done and released are four; a task that is assigned ahead of its inputs leaves the first out.
    tasks = len(what.submissions[0].workload.tasks)
    assert 3 * tasks <= changes.count <= 5 * tasks


def test_equal_seeds_give_equal_runs_where_changes_cost():
    what = replace(scenario(), server=ServerCost(transition=1e-4), jitter=0.002, seed=5)
    first, second = Simulation(what), Simulation(what)
    first.run()
    second.run()
    assert first.trace.digest() == second.trace.digest()


def test_what_is_measured_adds_up_to_what_it_took(monkeypatch):
    """A clock of which each reading is a millisecond after the last one: each event takes as long."""
    readings = iter(range(1_000_000))
    monkeypatch.setattr(measuring.time, "perf_counter", lambda: next(readings) * 0.001)
    found = measure_scheduler(scenario())
    assert found.seconds == pytest.approx(0.001 * found.events)
    assert (found.cost.event, found.cost.transition) == (pytest.approx(0.001), pytest.approx(0.0, abs=1e-9))


def test_what_is_not_for_the_event_is_shared_out_among_the_changes():
    assert measuring._shared_out([1.0, 3.0, 6.0], [0, 1, 2]) == ServerCost(event=1.0, transition=7 / 3)
    assert measuring._shared_out([2.0, 6.0], [1, 3]) == ServerCost(transition=2.0)
    assert measuring._shared_out([4.0, 1.0], [0, 5]) == ServerCost(event=2.5)
    assert measuring._shared_out([2.0, 4.0], [0, 0]) == ServerCost(event=3.0)
    assert measuring._shared_out([], []) == ServerCost()


def test_calibrate_measures_the_scheduler(monkeypatch):
    monkeypatch.setattr(import_module("hetsched.sims.commands.calibrate"), "usual_load", scenario)
    found = json.loads(ask("calibrate", "--scheduler", "--json").output)["scheduler"]
    together = found["event"] * found["events"] + found["transition"] * found["transitions"]
    assert together == pytest.approx(found["seconds"]) != 0.0
    said = tomllib.loads(ask("calibrate", "--scheduler", "--policy", "eft").output)
    assert list(said) == ["server"]
    ServerCost(**said["server"])
    assert "ask for --scheduler alone" in ask("calibrate").output
    assert "there is no placement policy 'nope'" in ask("calibrate", "--scheduler", "--policy", "nope").output
