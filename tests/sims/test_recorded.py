"""Replay, calibration and the search for bad cases."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from hetsched.core.events import GraphSubmitted, TasksFinished, WorkerJoined
from hetsched.core.types import Capacity, TaskSpec
from hetsched.server.recording import Recorder
from hetsched.sims.adversary import makespan_of, search
from hetsched.sims.commands import sims
from hetsched.sims.workloads import read_native


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


def test_calibration_says_what_a_simulation_should_be_told(run, tmp_path):
    found = json.loads(ask("calibrate", run, "--json", "--write", tmp_path / "w.json"))
    assert (found["overhead"], found["delay"]) == (pytest.approx(0.002), pytest.approx(0.002))
    assert found["kinds"]["load"] == {"tasks": 2, "seconds": pytest.approx(1.0), "nbytes": 8.0}
    assert [t.seconds for t in read_native(tmp_path / "w.json").tasks] == pytest.approx([1.0, 1.0, 0.5])
    assert "overhead = 0.002" in ask("calibrate", run)


def test_the_search_finds_what_it_says_and_the_same_again():
    found, ratio = search("round_robin", "eft", steps=60, seed=3)
    assert ratio == makespan_of(found, "round_robin") / makespan_of(found, "eft") > 1.2
    assert search("round_robin", "eft", steps=60, seed=3) == (found, ratio)
    assert "times as long" in ask("adversary", "round_robin", "eft", "--steps", 5)
