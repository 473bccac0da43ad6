"""The bus between a worker's devices and its host."""

from __future__ import annotations

import pytest

from hetsched.sims.faults.plan import Fault
from hetsched.sims.model import Machine, Submission, Task, Workload
from hetsched.sims.network.spec import NetworkSpec
from hetsched.sims.scenario import Scenario
from hetsched.sims.summary import simulate

MB = 1_000_000
ON_GPU = {"gpu": True}
ON_CPU = {"gpu": False}


def run(tasks, *machines, **network):
    scenario = Scenario([Submission(Workload("w", tasks))], machines, NetworkSpec(**network))
    summary, simulation = simulate(scenario, is_checked=True)
    return summary, [(r.task, r.worker, r.executor, r.start, r.stop) for r in simulation.trace.task_runs()]


@pytest.mark.parametrize(("pcie", "seconds"), [(0.0, 0.0), (10 * MB, 2.0)])
@pytest.mark.parametrize(
    ("first", "then", "crosses"),
    [(ON_CPU, ON_GPU, True), (ON_GPU, ON_CPU, True), (ON_GPU, ON_GPU, False), (ON_CPU, ON_CPU, False)],
)
def test_a_task_brings_over_what_is_on_the_other_side(pcie, seconds, first, then, crosses):
    tasks = [Task("make", (), 1.0, 20 * MB, first), Task("read", [0], 1.0, 0, then)]
    _, runs = run(tasks, Machine("a", gpus=1, pcie=pcie))
    assert [(start, stop) for *_, start, stop in runs] == [(0.0, 1.0), (1.0, 2.0 + seconds * crosses)]


def test_what_leaves_a_device_for_another_worker_crosses_its_bus():
    tasks = [Task("make", (), 1.0, 20 * MB, {"gpu": True}), Task("read", [0], 1.0, 0, {"pool": "b", "gpu": False})]
    machines = [Machine("a", gpus=1, pcie=5 * MB), Machine("b", pool="b")]
    for model in ("simple", "maxmin"):
        summary, runs = run(tasks, *machines, model=model, bandwidth=10 * MB)
        assert runs[1] == (1, "b", "cpu", 5.0, 6.0)
        assert summary.by_link == {"a pcie": 20 * MB, "a up": 20 * MB, "b down": 20 * MB}


def test_transfers_share_a_bus_fairly():
    tasks = [Task(("make", n), (), 1.0, 20 * MB, {"gpu": True}) for n in range(2)]
    tasks += [Task(("read", n), [n], 1.0, 0, {"pool": name, "gpu": False}) for n, name in enumerate("bd")]
    machines = [Machine("a", gpus=2, pcie=10 * MB, pool="a"), Machine("b", pool="b"), Machine("d", pool="d")]
    summary, runs = run(tasks, *machines, model="maxmin", bandwidth=40 * MB)
    assert sorted(start for *_, start, _ in runs) == [0.0, 0.0, 5.0, 5.0]
    assert summary.by_link["a pcie"] == 40 * MB


def test_what_is_on_the_host_does_not_cross_the_bus():
    tasks = [
        Task("make", (), 1.0, 20 * MB, {"pool": "a", "gpu": False}),
        Task("read", [0], 1.0, 0, {"pool": "b", "gpu": False}),
    ]
    machines = [Machine("a", gpus=1, pcie=5 * MB, pool="a"), Machine("b", pool="b")]
    summary, runs = run(tasks, *machines, model="maxmin", bandwidth=10 * MB)
    assert runs[1][3] == 3.0
    assert summary.by_link == {"a up": 20 * MB, "b down": 20 * MB}


@pytest.mark.parametrize(("model", "fairness"), [("simple", "flow"), ("maxmin", "flow"), ("maxmin", "pair")])
@pytest.mark.parametrize("hidden", [0, 30 * MB])
def test_only_what_is_on_a_device_crosses_the_bus(model, fairness, hidden):
    """An answer with results of both kinds: 30 MB of the host at 10 MB/s, and 20 MB of the device at 5."""
    tasks = [
        Task("here", (), 1.0, 30 * MB, {"pool": "a", "gpu": False}),
        Task("there", (), 1.0, 20 * MB, {"pool": "a", "gpu": True}),
        Task("both", (), 1.0, hidden, {"pool": "a", "gpu": False}),
        Task("read", [0, 1, 2], 1.0, 0, {"pool": "b", "gpu": False}),
    ]
    machines = [Machine("a", cpus=2, gpus=1, pcie=5 * MB, pool="a"), Machine("b", pool="b")]
    first, then = (
        run(tasks, *machines, model=model, fairness=fairness, bandwidth=10 * MB, requests=requests)
        for requests in ("one", "many")
    )
    assert first[1][-1] == (3, "b", "cpu", 8.0 + hidden / (10 * MB), 9.0 + hidden / (10 * MB))
    sent = (50 * MB) + hidden
    for summary, _ in (first, then):
        assert summary.by_link == {"a up": sent, "b down": sent, "a pcie": 20 * MB}


def test_an_answer_that_is_cut_off_between_host_and_device_is_sent_anew():
    """Of an answer that hangs while the peer is silent nothing has arrived."""
    tasks = [
        Task("here", (), 1.0, 30 * MB, {"pool": "a", "gpu": False}),
        Task("there", (), 1.0, 20 * MB, {"pool": "a", "gpu": True}),
        Task("read", [0, 1], 1.0, 0, {"pool": "b", "gpu": False}),
    ]
    machines = [Machine("a", gpus=1, pcie=5 * MB, pool="a"), Machine("b", pool="b")]
    scenario = Scenario(
        [Submission(Workload("w", tasks))], machines, NetworkSpec(model="maxmin", bandwidth=10 * MB),
        faults=[Fault(5.0, "freeze", "a", 2.0)],
    )  # fmt: skip
    summary, simulation = simulate(scenario, is_checked=True)
    (read,) = [run for run in simulation.trace.task_runs() if run.task == 2]
    assert (read.start, summary.by_link["a pcie"], summary.by_link["a up"]) == (14.0, 20 * MB, 50 * MB)
