"""Lower bounds of small workloads, by hand."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import permutations

import pytest

from hetsched.core.placement import POLICIES
from hetsched.sims.bounds import area, bounds, combined, critical_path, link_bound
from hetsched.sims.crossing import crossing_bound
from hetsched.sims.model import Machine, Submission, Task, Workload
from hetsched.sims.network.spec import NetworkSpec, Wire
from hetsched.sims.scenario import Scenario
from hetsched.sims.summary import simulate
from hetsched.sims.workloads.tiles import FACTORISATIONS, cholesky, lu, qr

pytest.importorskip("scipy")

MB = 1_000_000
BOTH = {"cpu": 4.0, "gpu": 1.0}


def test_a_chain_takes_what_its_tasks_take_on_the_faster_class():
    chain = Workload("w", [Task(("x", i), [i - 1] * bool(i), BOTH) for i in range(5)])
    slots = {"cpu": 4.0, "gpu": 1.0}
    assert critical_path(chain, slots) == 5.0
    assert combined(chain, slots) == pytest.approx(5.0)


def test_work_is_shared_out_among_the_classes():
    tasks = Workload("w", [Task(("x", i), (), BOTH) for i in range(10)])
    # In time t the four cores do t tasks and the device does t.
    assert area(tasks, {"cpu": 4.0, "gpu": 1.0}) == pytest.approx(5.0)
    assert area(tasks, {"gpu": 1.0}) == 10.0
    assert bounds(tasks, [Machine("a", 4, 1)]).best == pytest.approx(5.0)


def test_both_together_are_more_than_either():
    # Two tasks that everything waits for, and then work for all: neither alone sees both.
    tasks = [Task("a", (), 2.0), Task("b", [0], 2.0), *(Task(("x", i), [1], 1.0) for i in range(8))]
    workload = Workload("w", tasks)
    found = bounds(workload, [Machine("m", 2)])
    assert found.critical_path == 5.0
    assert found.area == 6.0
    assert found.combined >= found.best - 1e-9


def test_bytes_that_must_cross_a_link():
    assert link_bound({"a": 100.0, "b": 10.0}, {"a": 10.0, "b": 5.0}) == 10.0


def two_pools(**network):
    """Machines of two pools, and a network of 10 MB/s from a to b."""
    between = {("a", "b"): Wire(10e6)}
    return [Machine("x", 2, pool="a"), Machine("y", 2, pool="b")], NetworkSpec("maxmin", between=between, **network)


LOADED = [Task(("load", n), (), 1.0, 100 * MB, {"pool": "a"}) for n in range(2)]


@pytest.mark.parametrize(
    ("more", "seconds"),
    [
        # All of both loads.
        ([Task("join", [0, 1], 1.0, 0, {"pool": "b"})], 20.0),
        ([Task("join", [0, 1], 1.0, 0, {"workers": ["y"]})], 20.0),
        # Nothing has to, where the reader may be anywhere, or in the same pool.
        ([Task("join", [0, 1], 1.0, 0)], 0.0),
        ([Task("join", [0, 1], 1.0, 0, {"pool": ["a", "b"]})], 0.0),
        # Once, however many read it there.
        ([Task(("read", n), [0], 1.0, 0, {"pool": "b"}) for n in range(5)], 10.0),
        # What is free to be filters; one of the two, and what it makes is read by both pools.
        ([Task("filter", [0], 1.0, 10 * MB), Task("join", [2], 1.0, 0, {"pool": "b"})], 1.0),
        ([Task("grow", [0], 1.0, 500 * MB), Task("join", [2], 1.0, 0, {"pool": "b"})], 10.0),
        ([Task("sum", [0, 1], 1.0, 90 * MB), *(Task(p, [2], 1.0, 0, {"pool": p}) for p in ("a", "b"))], 9.0),
    ],
)
def test_what_has_to_cross_a_link_takes_its_time(more, seconds):
    machines, network = two_pools()
    workload = Workload("w", LOADED + more)
    assert crossing_bound(workload, machines, network) == pytest.approx(seconds, abs=1e-6)
    assert crossing_bound(workload, machines[:1], network) == 0.0
    assert crossing_bound(workload, machines, replace(network, model="simple")) == 0.0  # nothing is shared there
    wider = replace(network, uplinks={"a": Wire(4e6), "b": Wire(5e6)})
    assert crossing_bound(workload, machines, wider) == pytest.approx(2.5 * seconds, abs=1e-6)


def test_what_only_a_device_elsewhere_can_do_has_to_be_brought_there():
    machines, network = two_pools()
    machines[1] = Machine("y", 2, 1, pool="b")
    workload = Workload("w", [*LOADED, Task("fit", [0], 1.0, 0, {"gpu": True})])
    assert crossing_bound(workload, machines, network) == pytest.approx(10.0)


@pytest.mark.parametrize("seed", range(30))
def test_no_policy_beats_the_network(seed):
    rng = random.Random(seed)
    tasks = []
    for n in range(12):
        reads = rng.sample(range(n), min(n, rng.choice([0, 1, 1, 2])))
        notes = {"pool": rng.choice("abc")} if rng.random() < 0.5 else None
        tasks.append(Task((f"t{n}", n), reads, rng.choice([0.01, 0.1]), rng.choice([1, 20, 90]) * MB, notes))
    machines = [Machine(f"{pool}{n}", 2, pool=pool) for pool in "abc" for n in range(2)]
    between = {pair: Wire(rng.choice([10e6, 40e6])) for pair in permutations("abc", 2)}
    network = NetworkSpec("maxmin", 1e9, between=between, uplinks={"a": Wire(20e6)} if rng.random() < 0.5 else {})
    workload = Workload("w", tasks)
    bound = crossing_bound(workload, machines, network)
    for policy in ("earliest_finish", "random", "work_stealing", "heteroprio"):
        summary, _ = simulate(Scenario([Submission(workload)], machines, network, policy, "exact", seed))
        assert summary.makespan >= bound - 1e-6


@pytest.mark.parametrize(("make", "n", "tasks", "edges"), [(cholesky, 4, 20, 30), (lu, 4, 30, 54), (qr, 3, 14, 21)])
def test_factorisations_have_the_tasks_they_should(make, n, tasks, edges):
    names = ["potrf", "trsm", "syrk", "gemm", "getrf", "trsm_ll", "trsm_ru", "geqrt", "ormqr", "tsqrt", "tsmqr"]
    workload = make(n, dict.fromkeys(names, 1.0))
    assert (len(workload.tasks), sum(len(t.dependencies) for t in workload.tasks)) == (tasks, edges)
    assert set(FACTORISATIONS) == {"cholesky", "lu", "qr"}


def test_faster_machines_make_every_bound_less():
    chain = Workload("w", [Task(("x", i), [i - 1] * bool(i), BOTH) for i in range(4)])
    machines = [Machine("slow", 1, 1), Machine("fast", 1, 1, speed=2.0)]
    assert bounds(chain, machines) == pytest.approx((2.0, 16 / 15, 2.0))


def test_a_task_may_run_where_it_asks_to_though_it_has_no_time_for_that():
    # The first class named stands for those that are not, as it does where tasks run.
    wants = Workload("w", [Task("x", (), {"cpu": 5.0}, 0, {"gpu": True})])
    assert critical_path(wants, {"cpu": 1.0, "gpu": 1.0}) == 5.0
    assert area(wants, {"cpu": 1.0, "gpu": 1.0}) == pytest.approx(2.5)
    assert area(Workload("w", [Task("x", (), {"gpu": 5.0})]), {"cpu": 2.0}) == 2.5


def some_case(seed):
    """A graph, machines that are slow or fast, and a scenario with each of three policies."""
    rng = random.Random(seed)
    tasks = []
    for i in range(rng.randint(1, 25)):
        seconds = rng.choice([1.0, rng.random(), 0.0, {"cpu": 3 * rng.random(), "gpu": rng.random()}])
        reads = sorted(rng.sample(range(i), min(i, rng.randint(0, 3))))
        tasks.append(Task(("x", i), reads, seconds, rng.choice([0, 10, MB]), rng.choice([None, None, {"gpu": True}])))
    machines = [
        Machine(f"w{n}", rng.randint(1, 3), int(n == 0 or rng.random() < 0.5), speed=rng.choice([0.5, 1.0, 2.0]))
        for n in range(rng.randint(1, 4))
    ]
    network = NetworkSpec(rng.choice(["instant", "simple", "maxmin"]), 1e7)
    workload = Workload("w", tasks)
    known, delay = rng.choice(["exact", "learned", "blind", "mean"]), rng.choice([0.0, 0.01])
    return (
        workload,
        machines,
        [
            Scenario([Submission(workload)], machines, network, policy, known, delay=delay)
            for policy in rng.sample(sorted(POLICIES), 3)
        ],
    )


@pytest.mark.parametrize("seed", range(40))
def test_no_policy_beats_the_bounds_and_every_byte_is_counted_once(seed):
    workload, machines, scenarios = some_case(seed)
    least = bounds(workload, machines, exact=seed % 4 == 0).best
    for scenario in scenarios:
        summary, simulation = simulate(scenario)
        assert summary.makespan >= least * (1 - 1e-9) - 1e-6, scenario.policy
        moved = sum(transfer.nbytes for transfer in simulation.trace.transfer_runs())
        up = sum(nbytes for link, nbytes in summary.by_link.items() if link.endswith(" up"))
        assert moved == summary.transferred == up
        ends = {}
        for run in simulation.trace.task_runs():
            assert 0.0 <= run.start <= run.stop
            ends.setdefault(run.task, run.stop)
        for run in simulation.trace.task_runs():
            reads = simulation.jobs[0].workload.tasks[run.task].dependencies
            assert all(ends[read] <= run.start + 2e-9 for read in reads)
