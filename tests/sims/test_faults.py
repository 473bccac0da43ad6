"""Seeded cases in which things go wrong: all holds that must, and where it does not, a small case says so."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from hetsched.core.commands import FreeKeys
from hetsched.core.scheduler import Options, Scheduler
from hetsched.sims.commands import sims
from hetsched.sims.faults.case import make_case
from hetsched.sims.faults.shrink import shrink, tell
from hetsched.sims.faults.verdict import run_case, what_is_wrong
from hetsched.sims.model import ServerCost

SEEDS = 2000
PARTS = 20


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_seed_ends_with_the_right_results(part):
    wrong = {seed: what_is_wrong(make_case(seed)) for seed in range(part, SEEDS, PARTS)}
    assert {seed: why for seed, why in wrong.items() if why is not None} == {}


def test_cases_are_not_harmless():
    """Losses, silences, repeated runs, transfers, errors and cancelled graphs all occur, and often."""
    moments: dict[str, int] = {}
    again = transfers = failures = 0
    for seed in range(60):
        simulation = run_case(make_case(seed))
        for moment in simulation.trace.moments:
            what = moment.what.split(":")[0]
            moments[what] = moments.get(what, 0) + 1
        again += sum(run.attempt > 0 for run in simulation.trace.task_runs())
        transfers += simulation.trace.transfers
        failures += sum(len(job.failures) for job in simulation.jobs)
    faults = ("crash", "cut", "delay", "disconnect", "fill", "freeze", "partition", "slow")
    assert all(moments.get(what, 0) >= 10 for what in (*faults, "cancelled", "leaves", "lost")), moments
    assert again > 50
    assert transfers > 60
    assert failures > 20


@pytest.mark.parametrize(
    ("seed", "cost"),
    [
        # A copy comes where its task has just been ordered, since all holders are lost, and the order is put down.
        (64, ServerCost(0.001, transition=0.0007)),
        # A worker is frozen and out of reach at once, and what was said to it meanwhile must not be overtaken.
        (1406, ServerCost(0.001)),
    ],
)
def test_what_once_went_wrong_does_not_again(seed, cost):
    case = make_case(seed)
    assert what_is_wrong(replace(case, scenario=replace(case.scenario, server=cost))) is None


class Forgetful:
    """A scheduler whose orders to forget results get lost."""

    def __init__(self, case):
        scenario = case.scenario
        self._mind = Scheduler(scenario.policy, Options(True, scenario.allowed_losses, scenario.seed))
        self.state = self._mind.state

    @property
    def due(self):
        return self._mind.due

    def handle(self, event, now):
        return [c for c in self._mind.handle(event, now) if not isinstance(c, FreeKeys)]


def test_a_fault_is_found_and_its_case_made_small():
    def wrong(case):
        return "still holds" in (what_is_wrong(case, Forgetful(case)) or "")

    case = next(case for case in map(make_case, range(100)) if wrong(case))
    small = shrink(case, wrong)
    (submission,) = small.scenario.submissions
    assert len(submission.workload.tasks) <= 2
    assert small.scenario.faults == []
    assert what_is_wrong(small) is None
    assert f"seed {case.seed}" in tell(small)


def test_the_command_runs_seeds_and_says_so():
    found = CliRunner().invoke(sims, ["faults", "--seeds", "5", "--from", "3"])
    assert (found.exit_code, found.output) == (0, "5 seeds from 3: none failed\n")
    found = CliRunner().invoke(sims, ["faults", "--seeds", "2", "--json"])
    assert json.loads(found.output) == {"seeds": 2, "from": 0, "failed": {}}
