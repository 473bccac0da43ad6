"""GPU tasks that nobody marked, found by what their code and their runs show, rightly or not."""

from __future__ import annotations

import pytest

from hetsched.core.evidence import CODE, RAN
from hetsched.errors import HetschedError
from hetsched.sims.detection import Detection, makers_of, sign_of
from hetsched.sims.model import Machine, Submission, Task, Workload
from hetsched.sims.scenario import Scenario
from hetsched.sims.summary import simulate

ON_BOTH = {"cpu": 10.0, "gpu": 1.0}


def runs(detection, tasks=None, **machine):
    """Where each of some tasks ran, when, and for how long; four of a device's in a row unless others are given."""
    tasks = tasks or [Task(("fit", n), [n - 1] * bool(n), ON_BOTH, 10) for n in range(4)]
    machines = [Machine("a", **{"cpus": 1, "gpus": 1, "ahead": 0.0, **machine})]
    scenario = Scenario([Submission(Workload("w", tasks))], machines, detection=detection)
    _, simulation = simulate(scenario, is_checked=True)
    return [(r.executor, r.start, r.stop) for r in simulation.trace.task_runs()]


def test_what_is_a_device_s():
    said = [5.0, {"cpu": 5.0}, {"cpu": 5.0, "gpu": 5.0}, {"cpu": 5.0, "gpu": 4.0}, {"gpu": 1.0}, {"cpu": 1, "gpu": 2}]
    assert [Task("x", (), seconds).is_gpu_task for seconds in said] == [False, False, False, True, True, False]


def test_a_chance_is_a_chance():
    with pytest.raises(HetschedError, match=r"runs = 1\.5; a chance is from 0 to 1"):
        Detection(runs=1.5)


def test_nothing_is_found_where_nothing_is_looked_for():
    assert runs(Detection()) == [("cpu", 10.0 * n, 10.0 * n + 10.0) for n in range(4)]


def test_what_the_code_shows_is_known_before_the_first_run():
    assert runs(Detection(code=1.0)) == [("gpu", 1.0 * n, n + 1.0) for n in range(4)]


def test_what_a_run_shows_is_known_after_it():
    assert runs(Detection(runs=1.0), window=1) == [("cpu", 0.0, 10.0), *[("gpu", 10.0 + n, 11.0 + n) for n in range(3)]]


def test_a_false_alarm_leads_to_a_device_and_is_cleared_there():
    tasks = [Task(("load", n), [n - 1] * bool(n), 1.0, 10) for n in range(100)]
    lanes = [executor for executor, *_ in runs(Detection(false_code=1.0, runs=1.0), tasks, window=1)]
    cleared = lanes.index("cpu")
    assert lanes == ["gpu"] * cleared + ["cpu"] * (100 - cleared)
    assert 10 <= cleared <= 50


def test_a_person_s_word_stands_above_what_is_found():
    tasks = [Task(("fit", n), (), ON_BOTH, 10, {"gpu": False}) for n in range(2)]
    assert {executor for executor, *_ in runs(Detection(code=1.0, runs=1.0), tasks)} == {"cpu"}


def test_chances_hold_over_many_kinds():
    tasks = [Task((f"fit{chr(97 + n % 26)}{chr(97 + n // 26)}", 0), (), ON_BOTH) for n in range(500)]
    tasks += [Task((f"load{chr(97 + n % 26)}{chr(97 + n // 26)}", 0), (), 1.0) for n in range(500)]
    detection = Detection(0.8, 0.1, 0.6, 0.2)
    makers, made_by = makers_of(detection, tasks, 7)
    assert made_by == list(range(1000))
    assert len({maker.digest for maker in makers}) == 1000
    shown = [[e.kind for e in maker.evidence] == [CODE] for maker in makers]
    assert 370 <= sum(shown[:500]) <= 430
    assert 30 <= sum(shown[500:]) <= 70
    signs = [sign_of(detection, task, n, 0, 7) for n, task in enumerate(tasks)]
    assert {sign.kind for sign in signs if sign is not None} == {RAN}
    assert 260 <= sum(sign is not None for sign in signs[:500]) <= 340
    assert 70 <= sum(sign is not None for sign in signs[500:]) <= 130
    assert makers_of(detection, tasks, 7) == (makers, made_by) != makers_of(detection, tasks, 8)


def test_kinds_are_one_by_their_prefix():
    tasks = [Task(("fit", 0), (), ON_BOTH), Task(("load", 0)), Task(("fit", 1), (), 1.0)]
    makers, made_by = makers_of(Detection(code=1.0), tasks, 0)
    assert [(maker.name, len(maker.evidence)) for maker in makers] == [("fit", 1), ("load", 0)]
    assert made_by == [0, 1, 0]
