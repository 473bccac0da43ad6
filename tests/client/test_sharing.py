"""Large values that several tasks are given become results of their own, which are sent once."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from hetsched.client.futures import BaseFuture
from hetsched.client.joining import join
from hetsched.client.sharing import LEAST_BYTES, SPARED_BYTES, shared_values
from hetsched.core.types import EACH, Ref, TaskSpec
from hetsched.worker.plan import Plan

BIG = np.zeros(SPARED_BYTES, np.uint8)


def specs(*args):
    return [TaskSpec(n, max, given if isinstance(given, tuple) else (given,)) for n, given in enumerate(args)]


def same(found, *values):
    assert [id(value) for value in found] == [id(value) for value in values]


def test_what_several_tasks_are_given():
    same(shared_values(specs(BIG, (1, BIG))), BIG)
    same(shared_values(specs((BIG, BIG))), BIG)
    same(shared_values([TaskSpec("a", max, (), {"k": BIG}), TaskSpec("b", max, (BIG,))]), BIG)
    text, data = "x" * SPARED_BYTES, bytes(SPARED_BYTES)
    same(shared_values(specs(text, data, text, data)), text, data)
    numbers = list(range(SPARED_BYTES // 8))
    same(shared_values(specs(numbers, numbers)), numbers)


def test_what_is_nested():
    same(shared_values(specs([BIG, 1], {"a": (BIG,)})), BIG)
    plans = [Plan([(max, (BIG, n), None, ())]) for n in range(2)]
    same(shared_values([TaskSpec(n, plan, EACH) for n, plan in enumerate(plans)]), BIG)
    same(shared_values([TaskSpec(n, partial(max, BIG), (n,)) for n in range(2)]), BIG)


@pytest.mark.parametrize(
    "tasks",
    [
        specs(BIG, BIG.copy()),
        specs(*["a" * (LEAST_BYTES - 1)] * 10_000),
        specs(BIG[: SPARED_BYTES // 2], BIG[: SPARED_BYTES // 2]),
        specs(*[Ref(0)] * 10),
        [TaskSpec(n, plan, EACH) for n, plan in enumerate([Plan([(max, (BIG, 1), None, ())])] * 2)],
        specs(*[min] * 10),
    ],
    ids=["once each", "small", "little to spare", "Refs", "a shared plan", "functions"],
)
def test_what_is_sent_with_the_tasks(tasks):
    assert shared_values(tasks) == []


def test_many_of_medium_size():
    medium = BIG[:LEAST_BYTES]
    same(shared_values(specs(*[medium] * (2 + SPARED_BYTES // LEAST_BYTES))), medium)


def nothing(*args):
    return args


def test_they_become_inputs(monkeypatch):
    stand_in = object.__new__(BaseFuture)
    monkeypatch.setattr(BaseFuture, "made", True)
    given = [TaskSpec("a", nothing, (BIG,)), TaskSpec("b", nothing, (3, [BIG])), TaskSpec("c", partial(nothing, BIG))]
    tasks, futures = join(given, {id(BIG): stand_in})
    assert futures == [stand_in]
    assert [list(spec.dependencies) for spec in tasks] == [[-1]] * 3
    assert [spec(["big"]) for spec in tasks] == [("big",), (3, ["big"]), ("big",)]
