"""What each policy does, in cases small enough to be worked out, and that none breaks anything."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetsched.core.commands import CancelTasks, RunTasks
from hetsched.core.events import GraphSubmitted, TasksFinished, WorkerJoined
from hetsched.core.placement import POLICIES, make_policy
from hetsched.core.placement.insertion import Place, plan
from hetsched.core.scheduler import Scheduler
from hetsched.core.types import Capacity, TaskSpec
from hetsched.errors import HetschedError
from hetsched.sims.faults.case import make_case
from hetsched.sims.faults.verdict import what_is_wrong
from hetsched.sims.model import Machine, Submission, Task, Workload
from hetsched.sims.network.spec import NetworkSpec
from hetsched.sims.scenario import Scenario
from hetsched.sims.summary import simulate

MB = 1_000_000
GPU = {"resources": {"GPU": 1.0}, "classes": {"cpu": "gpu"}}


def scheduler_of(policy, **workers) -> Scheduler:
    scheduler = Scheduler(policy)
    for name, slots in workers.items():
        scheduler.handle(WorkerJoined(name, Capacity({"cpu": slots}, {}, None, 1)), 0.0)
    return scheduler


def graph(*specs) -> GraphSubmitted:
    tasks = [TaskSpec(key, len, (), None, deps, notes) for key, deps, notes in specs]
    return GraphSubmitted("c", 0, tasks, range(len(tasks)))


def seconds(n):
    return {"duration": n}


def said(commands):
    runs = {c.worker: [order.task for order in c.tasks] for c in commands if isinstance(c, RunTasks)}
    return runs, {c.worker: list(c.tasks) for c in commands if isinstance(c, CancelTasks)}


def course(workload, machines, policy, network=None, **more):
    scenario = Scenario([Submission(workload)], machines, network or NetworkSpec("instant"), policy, **more)
    summary, simulation = simulate(scenario, is_checked=True, has_values=True)
    return summary, [(r.task, r.worker, r.start, r.stop) for r in simulation.trace.task_runs()]


def test_blevel_starts_the_longest_way_first():
    scheduler = scheduler_of("blevel", a=1)
    event = graph(("x", (), seconds(1)), ("y", (), seconds(1)), ("z", (1,), seconds(9)))
    commands = scheduler.handle(event, 0.0)
    orders = {o.task: o.rank for c in commands for o in c.tasks}
    assert list(orders) == [1]
    scheduler = scheduler_of("blevel", a=1, b=1)
    assert said(scheduler.handle(event, 0.0))[0] == {"a": [1], "b": [0]}


def test_blevel_leaves_priorities_alone():
    scheduler = scheduler_of("blevel", a=1)
    event = graph(("x", (), {"priority": 1, "duration": 1}), ("y", (), seconds(1)), ("z", (1,), seconds(9)))
    assert said(scheduler.handle(event, 0.0))[0] == {"a": [0]}


def test_eft_queues_on_the_faster_of_two_workers():
    scheduler = Scheduler("eft")
    for name, speed in (("slow", 1.0), ("fast", 4.0)):
        scheduler.handle(WorkerJoined(name, Capacity({"cpu": 1}, {"speed": speed}, None, 1)), 0.0)
    event = graph(*((f"x{n}", (), seconds(1)) for n in range(5)))
    assert said(scheduler.handle(event, 0.0))[0] == {"fast": [0, 1, 2, 4], "slow": [3]}


def test_locality_goes_where_the_bytes_are():
    scheduler = scheduler_of("locality", a=1, b=1)
    event = graph(("x", (), None), ("y", (), None), ("z", (0, 1), None), ("u", (0, 1), None))
    assert said(scheduler.handle(event, 0.0))[0] == {"a": [0], "b": [1]}
    scheduler.handle(TasksFinished("a", "cpu", [(0, 0, 0.0, 1.0, 5, 0)]), 1.0)
    commands = scheduler.handle(TasksFinished("b", "cpu", [(1, 0, 0.0, 1.0, 9, 0)]), 1.0)
    assert said(commands)[0] == {"b": [2, 3]}


def test_work_stealing_takes_the_last_of_the_longest_queue():
    scheduler = scheduler_of("work_stealing", a=1)
    event = graph(*((f"x{n}", (), None) for n in range(4)))
    assert said(scheduler.handle(event, 0.0))[0] == {"a": [0, 1, 2, 3]}
    commands = scheduler.handle(WorkerJoined("b", Capacity({"cpu": 1}, {}, None, 1)), 0.0)
    assert said(commands) == ({"b": [3]}, {"a": [3]})


def test_heteroprio_sorts_by_what_devices_gain_and_takes_over():
    tasks = [
        Task("little", (), {"cpu": 4.0, "gpu": 2.0}),
        Task("much", (), {"cpu": 9.0, "gpu": 1.0}),
        Task("more", (), {"cpu": 9.5, "gpu": 1.0}),
    ]
    machines = [Machine("c"), Machine("g", **GPU)]
    summary, runs = course(Workload("w", tasks), machines, "heteroprio", knowledge="exact")
    assert [(task, worker, start) for task, worker, start, _ in runs] == [
        (2, "g", 0.0), (1, "g", 1.0), (0, "c", 0.0),
    ]  # fmt: skip
    # The device would end the first task at 4.0 had it taken it over at 2.0: no gain, so it did not.
    assert summary.makespan == 4.0
    taken = course(Workload("w", [*tasks[1:], Task("much-x", (), {"cpu": 9.0, "gpu": 1.0})]), machines, "heteroprio",
                   knowledge="exact")  # fmt: skip
    assert taken[0].ended == 3.0


def test_heft_plans_into_gaps():
    lasts = {"a": 2, "b": 2, "c": 1}
    inputs = {"a": [], "b": ["a"], "c": []}
    places = plan("abc", inputs.get, [1, 1], lambda t, m: lasts[t] * (1 + 3 * m), lambda _t, _a, _b: 5.0)
    assert places == {"a": Place(0, 0.0, 2.0), "b": Place(0, 2.0, 4.0), "c": Place(1, 0.0, 4.0)}
    busy = plan("ac", inputs.get, [2], lambda t, _: lasts[t], lambda *_: 0.0, [3.0])
    assert busy == {"a": Place(0, 3.0, 5.0), "c": Place(0, 3.0, 4.0)}


def test_dask_like_keeps_root_tasks_back_or_deals_them_out():
    event = graph(*((("load", n), (), None) for n in range(12)))
    queued = scheduler_of("dask_like", a=1, b=1)
    assert said(queued.handle(event, 0.0))[0] == {"a": [0, 2], "b": [1, 3]}
    dealt = scheduler_of("dask_like(saturation=inf)", a=1, b=1)
    assert said(dealt.handle(event, 0.0))[0] == {"a": [0, 1, 2, 3, 4, 5], "b": [6, 7, 8, 9, 10, 11]}


@pytest.mark.parametrize("policy", ["earliest_finish", "rebalancing"])
def test_what_was_never_measured_is_spread(policy):
    tasks = [Task("load", (), 1.0, 20 * MB), *(Task(("fit", n), [0], 4.0) for n in range(12))]
    network = NetworkSpec("simple", 100e6)
    summary, runs = course(Workload("w", tasks), [Machine("a", 2), Machine("b", 2)], policy, network)
    assert summary.makespan == pytest.approx(13.2)
    assert sum(worker == "b" for _, worker, _, _ in runs) == 6


def test_rebalancing_takes_what_waits():
    scheduler = Scheduler("rebalancing")
    scheduler.handle(WorkerJoined("a", Capacity({"cpu": 1}, {}, None, 4)), 0.0)
    event = graph(*((f"x{n}", (), seconds(9)) for n in range(4)))
    assert said(scheduler.handle(event, 0.0)) == ({"a": [0, 1, 2, 3]}, {})
    assert said(scheduler.handle(WorkerJoined("b", Capacity({"cpu": 1}, {}, None, 4)), 1.0)) == ({"b": [3]}, {"a": [3]})


class Lazy:
    """Wants nothing to run."""

    name = "lazy"

    def choose(self, task, workers):
        return None


def test_a_policy_that_never_chooses_does_not_stop_the_world():
    workload = Workload("w", [Task(("x", n), (), 1.0) for n in range(3)])
    summary, _ = course(workload, [Machine("a"), Machine("b")], Lazy())
    assert summary.makespan == 3.0


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("knowledge", ["exact", "learned"])
def test_each_policy_gets_everything_done(policy, knowledge):
    tasks = [Task(("load", n), (), 0.5 + n % 3, 20 * MB) for n in range(24)]
    tasks += [Task(("map", n), [n], {"cpu": 1.0, "gpu": 0.25}, MB) for n in range(24)]
    tasks += [Task(("sum", n), list(range(24 + n * 8, 32 + n * 8)), 0.5, MB) for n in range(3)]
    tasks.append(Task("total", [48, 49, 50], 0.1, 8))
    machines = [Machine("a", 2), Machine("b", 2), Machine("g", 1, **GPU)]
    summary, _ = course(Workload("w", tasks), machines, policy, NetworkSpec("maxmin", 50e6), knowledge=knowledge)
    assert summary.makespan > 0
    again = course(Workload("w", tasks), machines, policy, NetworkSpec("maxmin", 50e6), knowledge=knowledge)
    assert again[0] == summary


def test_names_may_have_arguments_and_be_a_persons_own():
    policy = make_policy("dask_like(saturation=2, stealing=no)")
    assert (policy._saturation, policy._steals) == (2, False)
    assert make_policy("hetsched.core.placement.eft:Eft").name == "eft"
    for wrong, words in {
        "cheapest": "there is no placement policy 'cheapest'; there are blevel",
        "eft(": "lacks a closing parenthesis",
        "eft(x=1)": "cannot be made: ",
        "eft(1)": "has an argument '1'; write name=value",
        "nowhere:At": "there is no placement policy 'nowhere:At': No module named 'nowhere'",
        "heft(rank=some)": "heft ranks by mean, min, max, not by 'some'",
        "builtins:dict": "has no method choose",
    }.items():
        with pytest.raises(HetschedError, match=words.replace("(", r"\(")):
            make_policy(wrong)


@pytest.mark.parametrize("policy", ["dask_like", "heft(strict=yes)", "heteroprio", "rebalancing", "work_stealing"])
def test_policies_that_move_or_hold_tasks_back_survive_faults(policy):
    for seed in range(10):
        case = make_case(seed)
        assert what_is_wrong(replace(case, scenario=replace(case.scenario, policy=policy))) is None, f"seed {seed}"
