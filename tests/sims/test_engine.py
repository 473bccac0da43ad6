"""Small runs whose whole course can be worked out by hand."""

from __future__ import annotations

from hetsched.sims.model import Machine, ServerCost, Submission, Task, Workload
from hetsched.sims.network.spec import NetworkSpec
from hetsched.sims.scenario import Scenario
from hetsched.sims.summary import simulate

MB = 1_000_000


def scenario(tasks, machines, **more):
    return Scenario([Submission(Workload("w", tasks))], machines, **more)


def runs(simulation):
    return [(r.task, r.worker, r.start, r.stop) for r in simulation.trace.task_runs()]


def test_a_chain_runs_on_one_worker_without_a_pause():
    chain = [Task(("x", i), [i - 1] * bool(i), 1.0, MB) for i in range(3)]
    summary, simulation = simulate(scenario(chain, [Machine("a"), Machine("b")]))
    assert runs(simulation) == [(0, "a", 0.0, 1.0), (1, "a", 1.0, 2.0), (2, "a", 2.0, 3.0)]
    assert (summary.makespan, summary.transfers, summary.ended) == (3.0, 0, 3.0)


def test_inputs_cross_the_network_before_a_task_starts():
    tasks = [Task("a-load", (), 1.0, 10 * MB), Task("b-load", (), 1.0, 10 * MB), Task("sum", [0, 1], 1.0)]
    network = NetworkSpec("simple", bandwidth=10e6, latency=0.5)
    summary, simulation = simulate(scenario(tasks, [Machine("a"), Machine("b")], network=network))
    assert runs(simulation) == [(0, "a", 0.0, 1.0), (1, "b", 0.0, 1.0), (2, "a", 2.5, 3.5)]
    assert [tuple(t) for t in simulation.trace.transfer_runs()] == [("b", "a", 1, 1, 10 * MB, 1.0, 1.5, 2.5)]
    assert summary.by_link == {"a down": 10 * MB, "b up": 10 * MB}
    assert summary.utilisation == {"cpu": 3.0 / 7.0}


def test_messages_and_thinking_take_time():
    tasks = [Task("x", (), 1.0, 0)]
    summary, simulation = simulate(scenario(tasks, [Machine("a")], delay=0.25, server=ServerCost(0.125, 0.0625)))
    # The worker's offer arrives at 0.25; thinking of it and of the order that comes of it takes 0.1875; the order
    # travels for 0.25. The outcome arrives at 1.9375, and is thought of for 0.1875.
    assert [(r.start, r.stop) for r in simulation.trace.task_runs()] == [(0.6875, 1.6875)]
    assert summary.ended == 2.125
