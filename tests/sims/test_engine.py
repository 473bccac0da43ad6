"""Small runs whose whole course can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetsched.core.costs import duration_of, nbytes_of
from hetsched.errors import HetschedError
from hetsched.sims.faults.plan import Fault
from hetsched.sims.model import Machine, ServerCost, Submission, Task, Workload
from hetsched.sims.network.spec import NetworkSpec, Wire
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


def test_what_comes_while_the_scheduler_is_busy_waits_and_that_is_counted():
    tasks = [Task(("x", i), (), seconds, 0) for i, seconds in enumerate((1.0, 1.25))]
    machines = [Machine("a", 2, ahead=0.0)]
    summary, simulation = simulate(scenario(tasks, machines, server=ServerCost(event=0.5)))
    # The graph comes with the offer, and waits for 0.5. Tasks run from 1.0; the outcome that comes at 2.25 waits until
    # the one of 2.0 has been thought of, at 2.5. The release of the graph comes at 3.0.
    assert [(r.start, r.stop) for r in simulation.trace.task_runs()] == [(1.0, 2.0), (1.0, 2.25)]
    assert (summary.ended, summary.scheduler_busy) == (3.0, 2.5)
    assert summary.scheduler_queueing == 0.75


def test_two_machines_may_not_have_the_same_name():
    with pytest.raises(HetschedError, match="two machines are called 'a'"):
        simulate(scenario([Task("x", (), 1.0)], [Machine("a"), Machine("b"), Machine("a")]))


def test_all_that_happens_at_an_instant_is_known_before_anything_starts():
    # At 1.0 both loads end; the sum, of higher priority, becomes ready by that and starts before the other task.
    tasks = [
        Task("a", (), 1.0, 0),
        Task("b", (), 1.0, 0),
        Task("other", (), 1.0, 0),
        Task("sum", [0, 1], 1.0, 0, {"priority": 5}),
        Task("more", (), 1.0, 0),
    ]
    _, simulation = simulate(scenario(tasks, [Machine("m", 2, window=8)]))
    names = {job.base + n: t.key for job in simulation.jobs for n, t in enumerate(job.workload.tasks)}
    starts = {names[r.task]: r.start for r in simulation.trace.task_runs()}
    assert starts["sum"] == 1.0


def test_a_device_is_faster_where_a_task_says_so():
    tasks = [Task("c", (), {"cpu": 4.0, "gpu": 1.0}), Task("g", (), {"cpu": 4.0, "gpu": 1.0}, 0, {"gpu": True})]
    summary, simulation = simulate(scenario(tasks, [Machine("m", 1, 1, speed=2.0)]))
    assert sorted((r.executor, r.stop) for r in simulation.trace.task_runs()) == [("cpu", 2.0), ("gpu", 0.5)]
    assert summary.utilisation == {"cpu": 1.0, "gpu": 0.25}


def test_resources_are_not_given_out_twice():
    tasks = [Task(("x", i), (), 1.0, 0, {"resources": {"licence": 1}}) for i in range(3)]
    summary, _ = simulate(scenario(tasks, [Machine("m", 4, resources={"licence": 1.0})]))
    assert summary.makespan == 3.0


def test_results_beyond_the_target_go_to_disk_and_come_back():
    tasks = [Task(("x", i), (), 1.0, 400 * MB) for i in range(3)]
    tasks.append(Task("sum", [0, 1, 2], 1.0, 0))
    summary, simulation = simulate(scenario(tasks, [Machine("m", 1, memory=1000 * MB)]))
    assert summary.peak_memory == {"m": 800 * MB}
    assert summary.peak_on_disk == {"m": 800 * MB}
    # 800 MB are read at 500 MB/s before the sum.
    assert runs(simulation)[-1] == (3, "m", 3.0, 3.0 + 1.6 + 1.0)


def test_a_worker_that_has_no_memory_left_pauses_and_goes_on():
    tasks = [Task(("x", i), (), 0.4, 300 * MB) for i in range(3)]
    tasks.append(Task("end", [0, 1, 2], 1.0, 0))
    tasks += [Task(("y", i), (), 0.4, 0) for i in range(6)]
    machines = [Machine("m", 1, memory=1000 * MB, disk=1, window=1), Machine("n", 1, arrives=3.0)]
    _, simulation = simulate(scenario(tasks, machines))
    moments = [(m.what, m.who) for m in simulation.trace.moments]
    assert ("paused", "m") in moments
    assert moments.index(("paused", "m")) < moments.index(("running", "m"))


def test_a_worker_that_leaves_finishes_and_hands_over_first():
    tasks = [Task(("x", i), (), 1.0, MB) for i in range(4)]
    tasks.append(Task("sum", [0, 1, 2, 3], 1.0))
    machines = [Machine("a", 1, retires=1.5), Machine("b", 1)]
    summary, simulation = simulate(scenario(tasks, machines, network=NetworkSpec(bandwidth=1e6)))
    lost = [m for m in simulation.trace.moments if m.what.startswith("lost")]
    assert [(m.what, m.who) for m in lost] == [("lost: it has left", "a")]
    assert summary.runs == 5


def test_a_lost_worker_is_replaced_and_its_results_are_made_again():
    tasks = [Task(("x", i), (), 1.0, MB) for i in range(2)]
    tasks.append(Task("sum", [0, 1], 1.0))
    faults = [Fault(1.5, "crash", "a")]
    summary, simulation = simulate(scenario(tasks, [Machine("a", 2)], faults=faults))
    assert runs(simulation)[:2] == [(0, "a", 0.0, 1.0), (1, "a", 0.0, 1.0)]
    assert runs(simulation)[2:] == [(0, "a'1", 2.5, 3.5), (1, "a'1", 2.5, 3.5), (2, "a'1", 3.5, 4.5)]
    assert summary.makespan == 4.5


def test_what_no_worker_can_run_is_said_and_not_waited_for_forever():
    tasks = [Task("x", (), 1.0, 0, {"gpu": True})]
    says = r"standstill: at 0 s 1 tasks are READY; 'x' finds no worker: .*'gpu'.*0 of 1"
    with pytest.raises(HetschedError, match=says):
        simulate(scenario(tasks, [Machine("a", 2)]))


def test_pools_have_links_that_cost():
    tasks = [Task("a", (), 1.0, 1000 * MB, {"pool": "east"}), Task("b", [0], 1.0, 0, {"pool": "west"})]
    network = NetworkSpec("maxmin", 1e9, between={("east", "west"): Wire(100e6, 0.5, 0.02)})
    machines = [Machine("e", pool="east"), Machine("w", pool="west")]
    summary, _ = simulate(scenario(tasks, machines, network=network))
    assert summary.makespan == pytest.approx(1.0 + 0.5 + 10.0 + 1.0)
    assert (summary.by_pool, summary.cost) == ({"east to west": 1000 * MB}, 0.02)
    assert summary.by_link == {"e up": 1000 * MB, "east to west": 1000 * MB, "w down": 1000 * MB}
    # Links without a limit have a price, too.
    network = replace(network, uplinks={"east": Wire(price=0.03), "west": Wire(200e6, price=0.05)})
    summary, _ = simulate(scenario(tasks, machines, network=network))
    assert summary.cost_by_link == {"pool east up": 0.03, "east to west": 0.02, "pool west down": 0.05}
    assert (summary.cost_by_pool, summary.cost) == ({"east to west": pytest.approx(0.1)}, pytest.approx(0.1))


@pytest.mark.parametrize(
    ("knowledge", "seconds", "nbytes"),
    [("exact", 3.0, 30), ("user", 9.0, 90), ("mean", 2.0, 20), ("blind", 0.1, 0), ("learned", 1.0, 10)],
)
def test_what_the_scheduler_knows_of_a_task(knowledge, seconds, nbytes):
    tasks = [Task(("x", 0), (), 1.0, 10), Task(("x", 1), [0], 3.0, 30, None, (9.0, 90))]
    seen = []

    class Curious:
        name = "curious"

        def choose(self, task, workers):
            seen.append((duration_of(task), nbytes_of(task)))
            return workers[0]

    machines = [Machine("a", window=1), Machine("b", window=1)]
    simulate(scenario(tasks, machines, knowledge=knowledge, policy=Curious(), network=NetworkSpec("instant")))
    assert seen[-1] == (seconds, nbytes) or len(seen) == 1


def two_transfers(model, *faults, silence=100.0):
    """Two results of 1,000 bytes go one after another from x to y, in 10 s each."""
    here, there = {"resources": {"A": 1}}, {"resources": {"B": 1}}
    tasks = [
        Task(("make", 0), [], 1.0, 1000, here), Task(("read", 0), [0], 1.0, 0, there),
        Task(("make", 1), [0], 1.0, 1000, here), Task(("read", 1), [2], 1.0, 0, there),
    ]  # fmt: skip
    machines = [Machine("x", resources={"A": 1.0}), Machine("y", resources={"B": 1.0})]
    network = NetworkSpec(model, 100.0)
    return simulate(scenario(tasks, machines, network=network, faults=faults, silence=silence))


@pytest.mark.parametrize("model", ["simple", "maxmin"])
def test_a_transfer_that_hangs_twice_is_sent_anew_once(model):
    assert two_transfers(model)[0].makespan == 22.0
    faults = [Fault(2.0, "freeze", "x", 5.0), Fault(3.0, "partition", "x", 5.0)]
    summary, simulation = two_transfers(model, *faults)
    assert [(t.began, t.ended) for t in simulation.trace.transfer_runs()] == [(8.0, 18.0), (18.0, 28.0)]
    assert (summary.makespan, summary.transferred, summary.by_link) == (29.0, 2000, {"x up": 2000, "y down": 2000})


def test_bytes_that_do_not_arrive_are_not_counted():
    summary, _ = two_transfers("maxmin", Fault(2.0, "cut", "x"))
    assert (summary.transferred, summary.by_link) == (2000, {"x up": 2000, "y down": 2000})


@pytest.mark.parametrize("model", ["instant", "simple", "maxmin"])
def test_nothing_comes_to_a_worker_that_nobody_reaches(model):
    """The first result is on its way to y, or asked for, when y cannot be reached from 1.5 on."""
    summary, simulation = two_transfers(model, Fault(0.5, "partition", "y", 4.0))
    moved = [t.ended for t in simulation.trace.transfer_runs()]
    seconds = 0.0 if model == "instant" else 10.0
    assert moved == [4.5 + seconds, max(4.5, 4.5 + 2 * seconds)]
    assert summary.transferred == 2000


@pytest.mark.parametrize("task", [Task("x", (), -1.0), Task("x", (), {"cpu": float("nan")}), Task("x", (), 1.0, -5)])
def test_times_and_sizes_below_nothing_are_refused(task):
    with pytest.raises(HetschedError, match=r"'x'.* of 'w' takes or makes .*seconds and bytes are at least 0"):
        simulate(scenario([task], [Machine("a")]))


def test_silences_that_overlap_are_one_and_those_that_do_not_are_two():
    def lost(*faults):
        _, simulation = two_transfers("simple", *faults, silence=6.0)
        return [(m.at, m.who) for m in simulation.trace.moments if m.what.startswith("lost")]

    assert lost(Fault(2.0, "freeze", "x", 5.0), Fault(6.0, "freeze", "x", 5.0)) == [(8.0, "x")]
    assert lost(Fault(2.0, "freeze", "x", 4.0), Fault(4.0, "freeze", "x", 1.0)) == []
    assert lost(Fault(2.0, "freeze", "x", 5.0), Fault(7.5, "freeze", "x", 5.0)) == []


def test_a_machine_may_have_an_apostrophe_in_its_name():
    tasks = [Task(("x", i), [i - 1] * bool(i), 1.0) for i in range(5)]
    faults = [Fault(0.5, "crash", "bob's"), Fault(2.0, "crash", "bob's")]
    _, simulation = simulate(scenario(tasks, [Machine("bob's")], faults=faults, restart=0.5))
    assert [m.who for m in simulation.trace.moments if m.what == "joined"] == ["bob's", "bob's'1", "bob's'2"]


def test_a_frozen_worker_pauses_when_it_thaws():
    tasks = [Task(("x", i), (), 0.3, 300 * MB) for i in range(3)]
    tasks.append(Task("end", [0, 1, 2], 1.0, 0))
    tasks += [Task(("y", i), (), 0.4, 0) for i in range(6)]
    machines = [Machine("m", 1, memory=1000 * MB, disk=1, window=1), Machine("n", 1, arrives=5.0)]
    _, simulation = simulate(scenario(tasks, machines, faults=[Fault(0.95, "freeze", "m", 2.0)]))
    assert [m.at for m in simulation.trace.moments if m.what == "paused"] == [2.95]


def test_a_disk_that_is_no_longer_full_lets_a_paused_worker_go_on():
    tasks = [Task(("x", i), (), 0.3, 300 * MB) for i in range(3)]
    tasks.append(Task("end", [0, 1, 2], 1.0, 0, {"resources": {"late": 1}}))
    machines = [Machine("m", 1, memory=1000 * MB), Machine("n", resources={"late": 1.0}, arrives=6.0)]
    _, simulation = simulate(scenario(tasks, machines, faults=[Fault(0.0, "fill", "m", 3.5)]))
    assert [(m.at, m.what) for m in simulation.trace.moments if m.what in ("paused", "running")] == [
        (1.0, "paused"), (4.0, "running"),
    ]  # fmt: skip


def test_what_runs_on_in_vain_is_no_part_of_the_makespan():
    # The core begins a task that the device, idle after a second, takes over and ends first.
    tasks = [Task(("x", i), (), {"cpu": 10.0, "gpu": 1.0}) for i in range(2)]
    machines = [Machine("core"), Machine("device", resources={"GPU": 1.0}, classes={"cpu": "gpu"})]
    summary, simulation = simulate(
        scenario(tasks, machines, policy="heteroprio", knowledge="exact", network=NetworkSpec("instant"))
    )
    assert sorted((r.worker, r.stop) for r in simulation.trace.task_runs()) == [
        ("core", 10.0), ("device", 1.0), ("device", 2.0),
    ]  # fmt: skip
    assert (summary.makespan, summary.ended, summary.runs) == (2.0, 2.0, 3)
    assert summary.utilisation == {"cpu": 0.5}
