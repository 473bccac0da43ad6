"""Types of what comes over the wire: each field may be what it is declared to be, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from hetsched.comm.schema import Wrong, check_of


class Point(NamedTuple):
    x: int
    name: str | None
    more: Sequence[tuple[int, float]]


ROW = tuple[int, float, str | None, bool]
GOOD = [
    (ROW, (1, 2.0, "a", True)),
    (ROW, (1, 2, None, False)),
    (Sequence[ROW], ((1, 2.0, "a", True), (1, 2, None, False))),
    (Sequence[ROW], ()),
    (Sequence[int], (1, 2)),
    (tuple[int, ...], (1, 2)),
    (int | str, "a"),
    (tuple[int, Sequence[str]], (1, ("a",))),
    (Sequence[tuple[int, Any]], ((1, [2]), (3, None))),
    (Mapping[str, int], {"a": 1}),
    (Sequence[tuple[float, float, float, float, float, float, float]], ((1, 2.0, 3, 4.0, 5, 6.0, 7),)),
]
BAD = [
    (int, [True, 1.0, "1", None, (1,)]),
    (float, [True, "1", None]),
    (ROW, [(1, 2.0, "a"), (1, 2.0, "a", True, 5), [1, 2.0, "a", True], (True, 2.0, "a", True), (1, "2", "a", True),
           (1, 2.0, b"a", True), (1, 2.0, "a", 1), ((), 2.0, "a", True), None]),
    (Sequence[ROW], [((1, 2.0, "a", True), (1, 2.0, "a", 1)), ((1, 2.0, "a", True), None), [(1, 2.0, "a", True)],
                     ((1, 2.0, "a"),), (1,), ("1234",)]),
    (Sequence[int], [(1, True), (1, None), [1], 1]),
    (tuple[int, Sequence[str]], [(1, ("a", 2)), (1,), (1, "a")]),
    (Mapping[str, int], [{"a": "b"}, {1: 1}, ()]),
    (Point, [(1, "a"), (1, "a", (), 1), (1, 2, ()), (1, None, ((1, None),)), [1, None, ()]]),
    (Sequence[tuple[float, float, float, float, float, float, float]], [((1, 2, 3, 4, 5, 6, None),), ((1,),)]),
]  # fmt: skip


@pytest.mark.parametrize(("hint", "value"), GOOD)
def test_what_fits(hint, value):
    assert check_of(hint)(value) == value


@pytest.mark.parametrize(("hint", "value"), [(hint, value) for hint, values in BAD for value in values])
def test_what_does_not(hint, value):
    with pytest.raises(Wrong):
        check_of(hint)(value)


def test_arrays_become_named_tuples():
    found = check_of(Sequence[Point])(((1, None, ((1, 2.0),)), (2, "b", ())))
    assert found == (Point(1, None, ((1, 2.0),)), Point(2, "b", ()))
    assert [type(item) for item in found] == [Point, Point]
