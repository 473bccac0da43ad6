"""What is known of the links between pools, and that placement goes by it."""

from __future__ import annotations

import pytest

from hetsched.core.commands import RunTasks
from hetsched.core.costs import measured_sizes
from hetsched.core.events import GraphSubmitted, ReplicasAdded, TasksFinished, TransfersMeasured, WorkerJoined
from hetsched.core.links import Link, LinkTable
from hetsched.core.scheduler import Options, Scheduler
from hetsched.core.types import Capacity, TaskSpec
from hetsched.worker.transfers import Transfers


def spec(key, *dependencies, **annotations):
    return TaskSpec(key, len, (), None, dependencies, annotations or None)


def test_what_was_said_and_what_was_not():
    table = LinkTable({("A", "B"): Link(bandwidth=10e6, latency=0.05), ("A", None): Link(price=0.1)}, 60)
    assert table.crosses
    assert table.way("A", "B") == table.way("B", "A") == (0.05, 1e-7)
    assert table.way(None, "A") == (1e-3, pytest.approx(1e-8 + 6e-9))
    assert table.way("A", "A") == table.way("X", "Y") == (1e-3, 1e-8)


def test_transfers_are_learned_from():
    table = LinkTable()
    assert not table.crosses
    table.learn("A", "A", 10_000_000, 0.01)
    assert not table.crosses
    for _ in range(3):
        table.learn("A", "B", 100, 0.05)
        table.learn("B", "A", 1_000_000, 0.15)
    latency, per_byte = table.way("A", "B")
    assert latency == pytest.approx(0.05)
    assert per_byte == pytest.approx(1e-7)
    assert table.way("A", "A")[1] == pytest.approx((0.01 - 1e-3) / 10e6)
    for _ in range(60):
        table.learn("A", "B", 1_000_000, 0.06)
    assert table.way("A", "B")[1] == pytest.approx(1.2e-8, rel=0.05)


def test_what_a_person_said_is_stronger():
    table = LinkTable({("A", "B"): Link(latency=0.2)})
    table.learn("A", "B", 100, 0.05)
    table.learn("A", "B", 10_000_000, 1.2)
    assert table.way("A", "B") == (0.2, pytest.approx(1e-7))


def test_one_that_took_far_too_long_counts_in_part():
    """A machine that was suspended says so of one transfer; a link that is slow says so of each."""
    table = LinkTable()
    table.learn("A", "B", 100, 3600.0)
    assert table.way("A", "B").latency == 10.0
    slow = LinkTable()
    for _ in range(40):
        slow.learn("A", "B", 100_000_000, 1000.0)
    assert slow.way("A", "B").per_byte == pytest.approx(1e-5, rel=0.02)


@pytest.mark.parametrize(("nbytes", "seconds"), [(-1, 1.0), (1, -1.0), (1, float("nan")), (1, float("inf"))])
def test_what_cannot_be_is_not_learned(nbytes, seconds):
    table = LinkTable()
    table.learn("A", "B", nbytes, seconds)
    assert not table.crosses


def a_scheduler(links=None, seconds_per_price=0.0, slots=1, window=4):
    scheduler = Scheduler(options=Options(links=links or {}, seconds_per_price=seconds_per_price))
    for name, pool in (("a1", "A"), ("a2", "A"), ("b1", "B")):
        scheduler.handle(WorkerJoined(name, Capacity({"cpu": slots}, {}, pool, window)), 0.0)
    return scheduler


def placed(commands):
    return {c.worker: [order.task for order in c.tasks] for c in commands if isinstance(c, RunTasks)}


def finish(scheduler, worker, task, nbytes=8, seconds=1.0):
    return scheduler.handle(TasksFinished(worker, "cpu", [(task, 0, 0.0, seconds, nbytes, 0)]), 1.0)


def after_three(scheduler, nbytes, reader):
    """Each worker makes something; then comes what reads of it what ``reader`` says. Returns where that goes."""
    inputs = [spec("x", pool="A", workers="a1"), spec("y", pool="A", workers="a2"), spec("z", pool="B")]
    scheduler.handle(GraphSubmitted("c", 0, [*inputs, spec("read", *reader)], [3]), 0.0)
    orders = {}
    for worker, task in (("a1", 0), ("a2", 1), ("b1", 2)):
        orders |= placed(finish(scheduler, worker, task, nbytes[task]))
    return orders


def test_an_expensive_link_is_avoided():
    # Two of 1 MB are in A, on different workers, and one of 1.6 MB is in B: fewest bytes move to b1.
    sizes = [1_000_000, 1_000_000, 1_600_000]
    assert after_three(a_scheduler(), sizes, [0, 1, 2]) == {"b1": [3]}
    for link in (Link(price=1.0), Link(bandwidth=1e6)):
        assert after_three(a_scheduler({("A", "B"): link}, 60), sizes, [0, 1, 2]) == {"a1": [3]}
    assert after_three(a_scheduler({("A", "B"): Link(bandwidth=1e6)}), [10, 0, 1_000_000], [0, 2]) == {"b1": [3]}


def test_one_request_brings_all_that_a_pool_holds():
    far = {("A", "B"): Link(latency=0.05)}
    # Two from A to b1 cost one latency; one from B to A costs the same, and more bytes.
    assert after_three(a_scheduler(far), [1000, 1000, 100_000], [0, 1, 2]) == {"b1": [3]}


def test_measured_links_count():
    scheduler = a_scheduler()
    scheduler.handle(TransfersMeasured("b1", [("a1", 1_000_000, 10.0), ("gone", 1, 1.0)]), 0.0)
    scheduler.handle(TransfersMeasured("gone", [("a1", 1, 1.0)]), 0.0)
    assert scheduler.state.links.described() == [("A", "B", 1e-3, pytest.approx(1e-5, rel=0.01))]
    assert after_three(scheduler, [1_000_000, 1_000_000, 1_900_000], [0, 1, 2]) == {"a1": [3]}


def test_while_all_are_in_one_pool_nothing_is_looked_up():
    scheduler = Scheduler()
    for name in ("a1", "a2"):
        scheduler.handle(WorkerJoined(name, Capacity({"cpu": 1}, {}, "A")), 0.0)
    scheduler.handle(TransfersMeasured("a1", [("a2", 1_000_000, 0.1)]), 0.0)
    assert [w.links for w in scheduler.state.workers.values()] == [None, None]


def test_results_are_fetched_from_the_nearest():
    scheduler = a_scheduler({("A", "B"): Link(bandwidth=1e6)})
    scheduler.handle(GraphSubmitted("c", 0, [spec("x", workers="b1")], [0]), 0.0)
    finish(scheduler, "b1", 0, 1_000_000)
    scheduler.handle(ReplicasAdded("a1", [0]), 0.0)
    late = GraphSubmitted("c", 1, [spec("late", -1, workers="a2")], [0], 0, None, [(0, 0)])
    (order,) = scheduler.handle(late, 0.0)
    assert order.tasks[0].holders == [(0, ("a1", "b1"))]


def test_sizes_that_were_measured():
    scheduler = a_scheduler()
    scheduler.handle(GraphSubmitted("c", 0, [spec("make-1"), spec("make-2"), spec("other-1")], [0, 1, 2]), 0.0)
    tasks = {ts.id: ts.processing_on.id for ts in scheduler.state.tasks.values()}
    finish(scheduler, tasks[0], 0, 100)
    finish(scheduler, tasks[1], 1, 300)
    assert measured_sizes(scheduler.state, ["make", "other", "unheard"]) == {"make": 200.0}


def test_a_worker_tells_now_and_then():
    said = []
    transfers = Transfers("w", said.append)
    transfers.tell(0.0)
    transfers.note("p", 10, 0.1)
    transfers.tell(0.0)
    assert said == [TransfersMeasured("w", [("p", 10, 0.1)])]
    transfers.note("p", 20, 0.2)
    transfers.note("q", 30, 0.3)
    transfers.tell(0.01)
    assert len(said) == 1
    transfers.tell(0.06)
    assert said[1:] == [TransfersMeasured("w", [("p", 20, 0.2), ("q", 30, 0.3)])]


@pytest.mark.parametrize(("latency", "moved"), [(0.0, {"b1": [3]}), (0.25, {})])
def test_nothing_moves_to_another_pool_for_less_than_it_saves(latency, moved):
    # 500 kB take 0.05 s on the link, beside its latency, and each task takes 0.1 s. b1 is idle all the time.
    scheduler = Scheduler(options=Options(links={("A", "B"): Link(bandwidth=10e6, latency=latency)}))
    for name, pool in (("a1", "A"), ("b1", "B")):
        scheduler.handle(WorkerJoined(name, Capacity({"cpu": 1}, {}, pool, 1)), 0.0)
    graph = [spec("x", pool="A"), *(spec(f"use-{n}", 0, duration=0.01) for n in range(4))]
    assert placed(scheduler.handle(GraphSubmitted("c", 0, graph, [1, 2, 3, 4]), 0.0)) == {"a1": [0]}
    # They are said to be short, so all wait for their turn where the data is.
    assert placed(scheduler.handle(TasksFinished("a1", "cpu", [(0, 0, 0.0, 0.1, 500_000, 0)]), 0.1)) == {"a1": [1]}
    assert placed(scheduler.handle(TasksFinished("a1", "cpu", [(1, 0, 0.1, 0.2, 8, 0)]), 0.2)) == {"a1": [2]} | moved
