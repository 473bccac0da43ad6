"""The bytes of a result: right where that is cheap, never an error, and nothing of the program's is touched."""

from __future__ import annotations

import random
import sys
from collections import deque

import numpy as np
import pandas as pd
import pytest
from dask.sizeof import sizeof
from named import named

from hetsched.worker.sizes import Measure


@pytest.mark.parametrize(
    ("value", "nbytes"),
    [
        (None, 16),
        (True, 28),
        (5, 28),
        (2.5, 24),
        (1j, 32),
        (b"abc", 3),
        (bytearray(7), 7),
        (memoryview(bytearray(9)), 9),
        ("text", sys.getsizeof("text")),
        (np.zeros(10), 80),
        (np.zeros((3, 4), "f4"), 48),
        (np.empty((0, 3)), 0),
        (np.broadcast_to(1.0, (10, 10)), 800),
    ],
    ids=named,
)
def test_known_kinds(value, nbytes):
    assert Measure(sizeof)(value) == (nbytes, 0)


def test_other_kinds_are_left_to_the_fallback():
    asked = []

    def fallback(value):
        asked.append(value)
        return 5

    measure = Measure(fallback)
    values = [range(3), slice(3), object(), Ellipsis]
    assert [measure(value) for value in values * 2] == [(5, 0)] * 8
    assert len(asked) == 8
    assert Measure()(deque()) == (sys.getsizeof(deque()), 0)


@pytest.mark.parametrize("error", [ValueError, RecursionError, SystemExit, GeneratorExit])
def test_a_fallback_that_raises(error):
    def fallback(value):
        raise error

    assert Measure(fallback)(object()) == (0, 0)
    assert Measure(lambda value: "no number")(object()) == (0, 0)


class UnhashableKind(type):
    def __eq__(cls, other):
        return cls is other

    __hash__ = None  # type: ignore[assignment]


class RaisingKind(type):
    def __getattribute__(cls, name):
        raise RuntimeError(name)


class Sized:
    def __sizeof__(self):
        raise RuntimeError


class NotAnArray(np.ndarray):
    @property
    def nbytes(self):
        raise RuntimeError


@pytest.mark.parametrize(
    "make",
    [
        lambda: UnhashableKind("U", (), {})(),
        lambda: RaisingKind("R", (), {})(),
        Sized,
        lambda: np.zeros(3).view(NotAnArray),
    ],
)
def test_values_whose_code_raises(make):
    nbytes, cuda_nbytes = Measure(sizeof)(make())
    assert nbytes >= 0
    assert cuda_nbytes == 0


def test_deep_and_circular_values():
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    ring: list[object] = [1]
    ring.append(ring)
    for value in (deep, ring):
        assert Measure(sizeof)(value)[0] >= 0


def test_sizing_draws_no_random_numbers():
    """With dask's own fallback, as the cluster has it: a program's random numbers are its own."""
    from hetsched.computing import embedded

    measure = embedded()._engine._measure
    random.seed(3)
    np.random.seed(3)
    state, legacy = random.getstate(), np.random.get_state()[1].tolist()
    texts = pd.Series(["x", None] * 500, dtype=object)
    for value in (list(range(1000)), tuple(range(50)), dict.fromkeys(range(99)), texts):
        assert measure(value)[0] > 0
    assert random.getstate() == state
    assert np.random.get_state()[1].tolist() == legacy


def test_many_types_are_not_kept_for_ever():
    measure = Measure()
    for i in range(10_050):
        measure(type(f"T{i}", (), {})())
    assert len(measure._ways) <= 10_002
    assert measure(5) == (28, 0)
    assert measure(np.zeros(2)) == (16, 0)
