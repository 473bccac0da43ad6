"""What becomes of a batch in a slot when some of it is taken back or skipped."""

from __future__ import annotations

from hetsched.core.types import TaskSpec
from hetsched.sims.batch import LEFT, Batch


def batch(*tasks):
    """A batch of ``(task, seconds, inputs)``, one after another from 0 on."""
    found = Batch(0, "cpu", 0)
    start = 0.0
    for task, seconds, inputs in tasks:
        item = (task, 0, TaskSpec(task, sum), inputs, [])
        found.runs.append((item, start, start + seconds, task, None))
        start += seconds
    return found


def times(found):
    return [(item[0], start, stop, error) for item, start, stop, _, error in found.runs]


def test_the_last_are_taken_back_first_and_what_has_begun_is_not():
    found = batch((1, 1.0, []), (2, 1.0, []), (3, 1.0, []))
    found.rest = [4, 5]
    assert found.take_back(3, 1.5) == [5, 4, 3]
    assert found.take_back(3, 1.5) == []
    assert times(found) == [(1, 0.0, 1.0, None), (2, 1.0, 2.0, None)]


def test_what_is_skipped_takes_no_time_nor_does_what_reads_it():
    found = batch((1, 1.0, []), (2, 1.0, []), (3, 0.0, []), (4, 1.0, [2]), (5, 1.0, []))
    found.skip([2], 0.5)
    assert times(found) == [
        (1, 0.0, 1.0, None), (2, 1.0, 1.0, LEFT), (3, 1.0, 1.0, None), (4, 1.0, 1.0, LEFT), (5, 1.0, 2.0, None),
    ]  # fmt: skip
    assert found.end == 2.0


def test_what_runs_is_not_skipped():
    found = batch((1, 1.0, []), (2, 1.0, []))
    found.skip([1, 2], 1.5)
    assert times(found) == [(1, 0.0, 1.0, None), (2, 1.0, 2.0, None)]
