"""Replay, calibration and the search for bad cases."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace

import pytest
from click.testing import CliRunner

from hetsched.core.events import GraphSubmitted, ReplicasAdded, TasksFinished, TransfersMeasured, WorkerJoined
from hetsched.core.types import Capacity, TaskSpec
from hetsched.errors import HetschedError
from hetsched.server.recording import Recorder
from hetsched.sims.adversary import makespan_of, search
from hetsched.sims.calibration import calibrate, scenario_of
from hetsched.sims.commands import sims
from hetsched.sims.experiment import read_experiment
from hetsched.sims.summary import simulate
from hetsched.sims.workloads import read_native
from hetsched.sims.workloads.recorded import read_recording_of_run


@pytest.fixture
def run(tmp_path):
    """Two loads, one after the other on a worker of one slot, and their sum."""
    specs = [TaskSpec("load-0", len), TaskSpec("load-1", len), TaskSpec("sum", len, dependencies=[0, 1])]
    outcomes = [(0, 0, 1.002, 2.002, 8, 0), (1, 0, 2.004, 3.004, 8, 0), (2, 0, 3.006, 3.506, 8, 0)]
    with Recorder(tmp_path / "run.hets") as write:
        write(0.5, WorkerJoined("w", Capacity({"cpu": 1}, {}, None, 2, 0.05)))
        write(1.0, GraphSubmitted("c", 0, specs, [2]))
        write(3.51, TasksFinished("w", "cpu", outcomes))
    return tmp_path / "run.hets"


def ask(*arguments):
    result = CliRunner().invoke(sims, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    return result.output


def test_a_replay_takes_what_the_run_took(run):
    found = json.loads(ask("replay", run, "--json", "--policy", "eft"))
    assert found["recorded"] == pytest.approx(2.51)
    assert found["runs"]["earliest_finish"]["makespan"] == pytest.approx(2.51, abs=0.01)
    assert found["runs"]["eft"]["makespan"] == pytest.approx(2.51, abs=0.01)
    assert "recorded" in ask("replay", run)


def test_what_was_on_no_device_is_on_none_in_a_replay(tmp_path):
    specs = [TaskSpec("kernel-0", len, annotations={"executor": "gpu"}), TaskSpec("load-0", len)]
    with Recorder(tmp_path / "run.hets") as write:
        write(0.0, WorkerJoined("w", Capacity({"cpu": 1, "gpu": 1}, {"GPU": 1.0}, None, 2, 0.05)))
        write(0.0, GraphSubmitted("c", 0, specs, [0, 1]))
        write(1.0, TasksFinished("w", "gpu", [(0, 0, 0.0, 1.0, 8, 0)]))
        write(1.0, TasksFinished("w", "cpu", [(1, 0, 0.0, 1.0, 8, 0)]))
    kernel, load = read_recording_of_run(tmp_path / "run.hets").submissions[0].workload.tasks
    assert (kernel.on_device("gpu"), load.on_device("gpu"), load.on_device("cpu")) == (0, 8, 0)


def test_a_link_has_what_all_that_share_it_have_together(tmp_path):
    """Two transfers from a to b that overlap by a half; the first is told of with the second, later."""
    with Recorder(tmp_path / "run.hets") as write:
        for name, pool in (("w1", "a"), ("w2", "b"), ("w3", "b")):
            write(0.0, WorkerJoined(name, Capacity({"cpu": 1}, {}, pool, 2, 0.05)))
        write(0.0, GraphSubmitted("c", 0, [TaskSpec("load-0", len)], [0]))
        write(1.0, ReplicasAdded("w2", [0]))
        write(1.5, TransfersMeasured("w3", [("w1", 2_000_000, 1.0)]))
        write(1.5, ReplicasAdded("w3", [0]))
        write(2.0, TransfersMeasured("w2", [("w1", 1_000_000, 1.0), ("w3", 3_000_000, 0.1), ("w1", 8, 0.1)]))
        write(2.0, ReplicasAdded("w2", [1]))
        write(2.0, ReplicasAdded("w2", [2]))
    run = read_recording_of_run(tmp_path / "run.hets")
    said = calibrate(run)
    assert said["links"] == {"a to b": pytest.approx(2_000_000)}
    assert said["bandwidth"] == pytest.approx(30e6)
    assert scenario_of(run).network.between["a", "b"].bandwidth == pytest.approx(2_000_000)


def test_workers_that_were_there_are_there_when_the_graph_comes(tmp_path):
    """Locality gives a task to any worker, however busy: it must not find but one."""
    specs = [TaskSpec(f"load-{n}", len) for n in range(4)]
    with Recorder(tmp_path / "run.hets") as write:
        for n in range(2):
            write(0.0, WorkerJoined(f"w{n}", Capacity({"cpu": 1}, {}, None, 2, 0.05)))
        write(0.5, GraphSubmitted("c", 0, specs, [0, 1, 2, 3]))
        for n in range(2):
            outcomes = [(2 * n, 0, 0.5, 1.5, 8, 0), (2 * n + 1, 0, 1.5, 2.5, 8, 0)]
            write(2.5, TasksFinished(f"w{n}", "cpu", outcomes))
    scenario = replace(scenario_of(read_recording_of_run(tmp_path / "run.hets")), policy="locality")
    assert simulate(scenario)[0].makespan == pytest.approx(2.0, abs=0.01)


def test_a_graph_of_a_recording_is_a_workload_of_an_experiment(run, tmp_path):
    path = tmp_path / "again.toml"
    path.write_text(f"workload = {{ source = 'recorded', path = '{run}' }}\nmachines = {{ count = 2, cpus = 2 }}")
    (scenario,) = read_experiment(path).variants.values()
    workload = scenario.submissions[0].workload
    assert [(t.seconds, list(t.dependencies)) for t in workload.tasks] == [
        (t.seconds, list(t.dependencies)) for t in read_recording_of_run(run).submissions[0].workload.tasks
    ]
    for words, why in (("graph = 9", "has no graph 9: it has 1, the first is 0"), ("graph = 0.5", "write a whole")):
        path.write_text(path.read_text().replace(" }", f", {words} }}", 1))
        with pytest.raises(HetschedError, match=why):
            read_experiment(path)
        path.write_text(path.read_text().replace(f", {words}", ""))


def test_calibration_says_what_a_simulation_should_be_told(run, tmp_path):
    found = json.loads(ask("calibrate", run, "--json", "--write", tmp_path / "w.json"))
    assert (found["overhead"], found["delay"]) == (pytest.approx(0.002), pytest.approx(0.002))
    assert found["kinds"]["load"] == {"tasks": 2, "seconds": pytest.approx(1.0), "nbytes": 8.0}
    assert [t.seconds for t in read_native(tmp_path / "w.json").tasks] == pytest.approx([1.0, 1.0, 0.5])
    said = tomllib.loads(ask("calibrate", run).partition("# For an experiment:")[2])
    assert said == {"overhead": pytest.approx(0.002), "delay": pytest.approx(0.002)}
    assert list(json.loads(ask("calibrate", run, "--json", "--scheduler")))[-1] == "scheduler"


def test_the_search_finds_what_it_says_and_the_same_again():
    found, ratio = search("round_robin", "eft", steps=60, seed=3)
    assert ratio == makespan_of(found, "round_robin") / makespan_of(found, "eft") > 1.2
    assert search("round_robin", "eft", steps=60, seed=3) == (found, ratio)
    assert "times as long" in ask("adversary", "round_robin", "eft", "--steps", 5)
