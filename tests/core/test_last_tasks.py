"""At the end of a graph, where slots would run empty, the default starts the longest way first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hetsched.core.check import check
from hetsched.core.commands import RunTasks
from hetsched.core.costs import learn
from hetsched.core.events import GraphExtended, GraphSubmitted, WorkerJoined
from hetsched.core.needs import level_of
from hetsched.core.placement.earliest_finish import LAST_TASKS
from hetsched.core.prefixes import TaskPrefix
from hetsched.core.scheduler import Scheduler
from hetsched.core.types import Capacity, TaskSpec


def scheduler_of(*workers: str) -> Scheduler:
    scheduler = Scheduler("earliest_finish")
    for name in workers:
        scheduler.handle(WorkerJoined(name, Capacity({"cpu": 1}, {}, None, 1)), 0.0)
    return scheduler


def spec(key, dependencies=(), **annotations):
    return TaskSpec(key, len, (), None, tuple(dependencies), annotations or None)


def graph(*specs, total=None, number=0) -> GraphSubmitted:
    return GraphSubmitted("c", number, specs, [len(specs) - 1], **({} if total is None else {"total": total}))


def order_of(scheduler: Scheduler) -> list[int]:
    """The tasks in the order in which they start, as far as their inputs allow."""
    return [ts.id for ts in sorted(scheduler.state.tasks.values(), key=lambda ts: ts.rank)]


def first(commands) -> dict[str, list[int]]:
    return {c.worker: [order.task for order in c.tasks] for c in commands if isinstance(c, RunTasks)}


def test_the_longest_of_the_last_tasks_starts_first() -> None:
    scheduler = scheduler_of("a", "b")
    commands = scheduler.handle(graph(*(spec(f"x{n}", duration=n + 1) for n in range(5))), 0.0)
    assert order_of(scheduler) == [4, 3, 2, 1, 0]
    assert first(commands) == {"a": [4], "b": [3]}


def test_the_way_to_the_end_counts_not_the_task_alone() -> None:
    scheduler = scheduler_of("a", "b")
    scheduler.handle(graph(spec("x", duration=5), spec("y", duration=1), spec("z", [1], duration=9)), 0.0)
    assert order_of(scheduler) == [1, 2, 0]


def test_where_nothing_is_known_the_order_that_holds_few_results_stays() -> None:
    scheduler = scheduler_of("a", "b")
    scheduler.handle(graph(*(spec(f"{k}{n}", [2 * n] if k == "y" else []) for n in range(3) for k in "xy")), 0.0)
    assert order_of(scheduler) == [0, 1, 2, 3, 4, 5]


def test_what_is_not_known_counts_as_the_mean_of_what_is() -> None:
    scheduler = scheduler_of("a", "b")
    prefix = scheduler.state.prefixes["slow"] = TaskPrefix("slow")
    learn(prefix, "cpu", 1, 10.0, 8)
    scheduler.handle(graph(spec("s", duration=4), spec(("slow-1", 0)), spec(("new-1", 0)), spec(("slow-1", 1))), 0.0)
    assert order_of(scheduler) == [1, 3, 2, 0]


def test_only_the_last_tasks_change_places() -> None:
    scheduler = scheduler_of("a", "b")
    many = 2 * LAST_TASKS + 3
    scheduler.handle(graph(*(spec(f"x{n}", duration=n + 1) for n in range(many))), 0.0)
    assert order_of(scheduler) == [0, 1, 2, *range(many - 1, 2, -1)]


def test_slots_of_other_executors_do_not_count() -> None:
    scheduler = Scheduler("earliest_finish")
    for name in ("a", "b"):
        scheduler.handle(WorkerJoined(name, Capacity({"cpu": 1, "io": 64}, {}, None, 1)), 0.0)
    many = 2 * LAST_TASKS + 3
    scheduler.handle(graph(*(spec(f"x{n}", duration=n + 1) for n in range(many))), 0.0)
    assert order_of(scheduler) == [0, 1, 2, *range(many - 1, 2, -1)]


def test_one_worker_keeps_the_order_that_holds_few_results() -> None:
    scheduler = scheduler_of("a")
    scheduler.handle(graph(*(spec(f"x{n}", duration=n + 1) for n in range(5))), 0.0)
    assert order_of(scheduler) == [0, 1, 2, 3, 4]


def test_a_graph_in_parts_is_sorted_once_its_end_is_known() -> None:
    scheduler = scheduler_of("a", "b")
    specs = [spec(f"x{n}", duration=n + 1) for n in range(6)]
    scheduler.handle(graph(*specs[:3], total=6), 0.0)
    assert order_of(scheduler) == [0, 1, 2]
    scheduler.handle(GraphExtended("c", 0, specs[3:], [5]), 0.0)
    assert order_of(scheduler) == [0, 1, 2, 5, 4, 3]


@st.composite
def specs_of_any_kind(draw):
    found: list[tuple[list[int], dict[str, float]]] = []
    for n in range(draw(st.integers(1, 14))):
        deps = draw(st.sets(st.integers(0, n - 1), max_size=3)) if n else ()
        notes = draw(st.fixed_dictionaries({}, optional={"duration": st.sampled_from([0, 0.5, 2, 9.0])}))
        found.append((sorted(deps), notes))
    levels = draw(st.lists(st.sampled_from([0, 0, 5]), min_size=len(found), max_size=len(found)))
    for n in range(len(found) - 1, -1, -1):  # inputs of an urgent task are urgent, as clients see to
        for d in found[n][0]:
            levels[d] = max(levels[d], levels[n])
    urgent = [{"priority": level} if level else {} for level in levels]
    return [spec(f"k{n}", deps, **notes, **urgent[n]) for n, (deps, notes) in enumerate(found)]


@given(specs_of_any_kind())
def test_inputs_stay_before_their_readers_and_urgent_tasks_before_others(specs) -> None:
    scheduler = scheduler_of("a", "b")
    scheduler.handle(GraphSubmitted("c", 0, specs, range(len(specs))), 0.0)
    check(scheduler.state)
    tasks = scheduler.state.tasks
    assert sorted(order_of(scheduler)) == list(range(len(specs)))
    for ts in tasks.values():
        assert all(d.rank < ts.rank for d in ts.dependencies)
        assert (level_of(ts.rank) < 0) == (spec_level(ts) > 0)


def spec_level(ts) -> int:
    return (ts.spec.annotations or {}).get("priority", 0)
