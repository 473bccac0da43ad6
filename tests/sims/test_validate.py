"""The reference cases, where they are beside the checkout; small ones whose course can be worked out by hand."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from hetsched.errors import HetschedError
from hetsched.sims.planning import Problem, heft, improve
from hetsched.sims.validate import run_fixed, validate

REFERENCE = Path(__file__).parents[3] / "shared" / "reference"
if not REFERENCE.is_dir():
    REFERENCE = Path("/work/shared/reference")

needs_reference = pytest.mark.skipif(not REFERENCE.is_dir(), reason="no reference cases beside the checkout")


@needs_reference
@pytest.mark.parametrize("name", ["pools_reference.json", "hetero_bounds.json", "saga_reference.json"])
def test_every_case_of_a_reference_file_is_right(name):
    assert [v for v in validate(REFERENCE / name) if not v.is_right] == []


@needs_reference
def test_every_fixed_placement_is_right():
    verdicts = list(validate(REFERENCE / "estee_reference.json"))
    assert [v for v in verdicts if not v.is_right] == []
    assert len(verdicts) >= 100


def task(number, seconds, outputs=(), inputs=(), cpus=1):
    return {"id": number, "duration": seconds, "cpus": cpus, "outputs": list(outputs), "inputs": list(inputs)}


def case(placement, priority, **more):
    usual = {"cluster": "c", "bandwidth": 10.0, "netmodel": "simple", "placement": placement, "priority": priority}
    return usual | more


def test_what_was_made_is_fetched_before_it_can_be_used():
    tasks = [task(0, 1.0, [20.0]), task(1, 4.0, [0.0]), task(2, 1.0, inputs=[[0, 0], [1, 0]])]
    assert run_fixed(case([0, 0, 1], [3, 2, 1]), tasks, {"c": [2, 1]}) == [1.0, 4.0, 5.0]


@pytest.mark.parametrize(("strict", "ends"), [(False, [2.0, 4.0, 2.0]), (True, [2.0, 4.0, 6.0])])
def test_a_task_that_does_not_fit_is_passed_over_or_holds_up_the_others(strict, ends):
    tasks = [task(0, 2.0), task(1, 2.0, cpus=2), task(2, 2.0)]
    assert run_fixed(case([0, 0, 0], [3, 2, 1], strict_priority=strict), tasks, {"c": [2]}) == ends


def test_downloads_wait_for_each_other_and_those_without_bytes_do_not():
    tasks = [task(0, 1.0, [10.0, 10.0, 0.0]), *(task(n, 1.0, inputs=[[0, n - 1]]) for n in (1, 2, 3))]
    limits = {"max_downloads": 1, "max_downloads_per_source": 1}
    ends = run_fixed(case([0, 1, 1, 1], [4, 1, 2, 3], **limits), tasks, {"c": [1, 3]})
    assert ends == [1.0, 4.0, 3.0, 2.0]


def small_file(**more):
    """A file with one case, of one task of a second on one worker."""
    right = case([0], [1], graph="x", task_end=[1.0], makespan=1.0) | more
    return json.dumps({"cases": [right], "graphs": {"x": {"tasks": [task(0, 1.0)]}}, "clusters": {"c": [1]}})


@pytest.mark.parametrize(
    ("more", "is_right"),
    [({}, True), ({"task_end": [1.001]}, False), ({"makespan": 2.0}, False), ({"makespan": 1.0 + 9e-7}, True)],
)
def test_ends_and_makespan_both_have_to_be_right(tmp_path, more, is_right):
    path = tmp_path / "cases.json"
    path.write_text(small_file(**more))
    (verdict,) = validate(path)
    assert verdict.is_right == is_right
    if not is_right:
        what = "task 0 ends at 1.000000, not 1.001000" if "task_end" in more else "all ends at 1.000000, not 2.000000"
        assert verdict.case == f"x simple ({what})"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("{", "is no JSON"),
        ("[]", "has no reference cases"),
        (json.dumps({"cases": [{"graph": "x"}]}), "cases of a kind that is not known"),
        (json.dumps({"cases": [{"graph": "x"}, {"placement": []}]}), "not known: .*; case 0 lacks 'placement'"),
        (json.dumps({"cases": [{"placement": [0]}], "graphs": {}}), "case 0, or its graph, lacks 'graph'"),
        (json.dumps({"cases": [{"placement": [], "graph": "x"}], "graphs": {}}), "there is no graph 'x'"),
        (small_file(cluster=None), "case 0, or its graph, lacks None"),
        (small_file(placement=[0, 0]), "case 0 is not right: it has 2 of 'placement' for the 1 tasks of 'x'"),
        (small_file(placement=[2]), "places a task on a worker that is not there: there are 1, the first is 0"),
        (small_file(task_end=[]), "it has 0 of 'task_end' for the 1 tasks"),
        (json.dumps({"cases": [{"lp": 1.0}]}), "lacks 'times_ms'"),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path, said, why):
    path = tmp_path / "cases.json"
    path.write_text(said)
    with pytest.raises(HetschedError, match=why):
        list(validate(path))


@pytest.mark.parametrize("seed", range(20))
def test_plans_stay_plans_where_tasks_take_no_time(seed):
    """Numbers say nothing of the order, and makers of no duration begin as their readers do."""
    rng = random.Random(seed)
    numbers = rng.sample(range(8), 8)
    inputs = [[] for _ in numbers]
    for i, reader in enumerate(numbers):
        inputs[reader] = [(maker, rng.choice([0.0, 1.0])) for maker in numbers[:i] if rng.random() < 0.3]
    costs = [rng.choice([0.0, 0.0, 0.0, 1.0]) for _ in numbers]
    problem = Problem(costs, inputs, [1.0, 1.0, 1.0], [[1.0] * 3 for _ in range(3)])
    plan = improve(problem, heft(problem), 200)
    for reader, read in enumerate(inputs):
        for maker, size in read:
            crossing = 0.0 if plan.nodes[maker] == plan.nodes[reader] else size
            assert plan.starts[reader] >= plan.ends[maker] + crossing - 1e-9
