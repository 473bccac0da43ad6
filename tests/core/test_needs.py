"""What a task demands of a worker."""

from __future__ import annotations

import itertools

import pytest

from hetsched.core.annotations import validate
from hetsched.core.needs import ALL, Needs, rank_of
from hetsched.core.types import Capacity


def needs(lanes=None, **annotations):
    return Needs(validate(annotations), lanes)


def test_nothing_said_is_nothing_demanded_but_a_cpu_slot() -> None:
    n = needs()
    assert n.key() == ("cpu", None, None, False, (), 0, 0, None, 0)
    assert n.met_by("a", Capacity({"cpu": 1}))
    assert not n.met_by("a", Capacity({"cpu": 0}))
    assert not n.met_by("a", Capacity({"io": 4}))


@pytest.mark.parametrize(
    ("annotations", "key"),
    [
        ({"executor": "io", "retries": 2}, ("io", None, None, False, (), 0, 2, None, 0)),
        ({"pool": "p", "priority": 1.5}, ("cpu", ("p",), None, False, (), 1.5, 0, None, 0)),
        ({"pool": None}, ("cpu", None, None, False, (), 0, 0, None, 0)),
        ({"pool": ["p", "q"], "workers": "w"}, ("cpu", ("p", "q"), ("w",), False, (), 0, 0, None, 0)),
        ({"workers": ["w", "v"], "allow_other_workers": True}, ("cpu", None, ("w", "v"), True, (), 0, 0, None, 0)),
        ({"resources": {"b": 2, "a": 1}}, ("cpu", None, None, False, (("a", 1.0), ("b", 2.0)), 0, 0, None, 0)),
        ({"gpu": True}, ("gpu", None, None, False, (("GPU", 1.0),), 0, 0, None, 0)),
        ({"gpu": True, "resources": {"GPU": 2}}, ("gpu", None, None, False, (("GPU", 2.0),), 0, 0, None, 0)),
        ({"replicate": 2}, ("cpu", None, None, False, (), 0, 0, None, 2)),
        ({"replicate": "all"}, ("cpu", None, None, False, (), 0, 0, None, ALL)),
        ({"gpu": False}, ("cpu!", None, None, False, (), 0, 0, None, 0)),
    ],
)
def test_annotations_are_read_once(annotations, key) -> None:
    assert needs(**annotations).key() == key


def test_equal_demands_have_equal_keys_and_others_have_not() -> None:
    same = needs(pool=["p"], resources={"a": 1, "b": 1}).key()
    assert same == needs(resources={"b": 1.0, "a": 1.0}, pool="p", provenance="elsewhere", job="j").key()
    assert same != needs(pool=["p"], resources={"a": 1}).key()


def test_a_graph_may_rename_an_executor() -> None:
    lanes = {"cpu": "cpu:3"}
    assert needs(lanes).executor == "cpu:3"
    assert needs(lanes, executor="io").executor == "io"
    renamed = needs({"gpu": "gpu:1"}, gpu=True)
    assert (renamed.executor, renamed.resources) == ("gpu:1", (("GPU", 1.0),))


@pytest.mark.parametrize(
    ("annotations", "pool", "resources", "met"),
    [
        ({"pool": "p"}, "p", {}, True),
        ({"pool": "p"}, "q", {}, False),
        ({"pool": "p"}, None, {}, False),
        ({"pool": "p"}, "*", {}, True),
        ({"pool": ["p", "q"]}, "q", {}, True),
        ({"pool": None}, None, {}, True),
        ({"workers": "w"}, None, {}, True),
        ({"workers": "v"}, None, {}, False),
        ({"workers": "v", "allow_other_workers": True}, None, {}, True),
        ({"resources": {"m": 2}}, None, {"m": 2.0}, True),
        ({"resources": {"m": 2}}, None, {"m": 1.5}, False),
        ({"resources": {"m": 2}}, None, {}, False),
        ({"resources": {"m": 0}}, None, {}, True),
    ],
)
def test_each_demand_is_held_against_the_worker(annotations, pool, resources, met) -> None:
    assert needs(**annotations).met_by("w", Capacity({"cpu": 1}, resources, pool)) is met


def test_each_demand_is_counted_for_the_person() -> None:
    n = needs(gpu=True, pool=["p", "q"], workers=["w", "v"])
    workers = {
        "w": Capacity({"cpu": 1, "gpu": 1}, {"GPU": 1.0}, "r"),
        "v": Capacity({"cpu": 1}, {}, "p"),
        "u": Capacity({"gpu": 2}, {"GPU": 0.5}, "*"),
    }
    assert n.why_nobody(workers) == (
        "executor 'gpu': 2 of 3 workers; pool 'p' or 'q': 2 of 3; workers w, v: 2 of 3; resources GPU=1: 1 of 3; "
        "together: none"
    )
    assert n.why_nobody({}) == (
        "there are no workers (it needs executor 'gpu', pool 'p' or 'q', workers w, v, resources GPU=1)"
    )


def test_ranks_sort_by_urgency_then_priority_then_task() -> None:
    order = [
        (urgency, priority, task)
        for urgency in (2, 1, 0)
        for priority in (1_000_000, 2.002, 2.001, 0, -0.001, -1_000_000)
        for task in (0, 1, 2**40)
    ]
    ranks = [rank_of(*entry) for entry in order]
    assert all(a < b for a, b in itertools.pairwise(ranks))
    assert rank_of(0, 0, 7) == 7
