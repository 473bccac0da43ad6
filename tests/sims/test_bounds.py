"""Lower bounds of small workloads, by hand."""

from __future__ import annotations

import pytest

from hetsched.sims.bounds import area, bounds, combined, critical_path, link_bound
from hetsched.sims.model import Machine, Task, Workload
from hetsched.sims.workloads.tiles import FACTORISATIONS, cholesky, lu, qr

pytest.importorskip("scipy")

BOTH = {"cpu": 4.0, "gpu": 1.0}


def test_a_chain_takes_what_its_tasks_take_on_the_faster_class():
    chain = Workload("w", [Task(("x", i), [i - 1] * bool(i), BOTH) for i in range(5)])
    slots = {"cpu": 4.0, "gpu": 1.0}
    assert critical_path(chain, slots) == 5.0
    assert combined(chain, slots) == pytest.approx(5.0)


def test_work_is_shared_out_among_the_classes():
    tasks = Workload("w", [Task(("x", i), (), BOTH) for i in range(10)])
    # In time t the four cores do t tasks and the device does t.
    assert area(tasks, {"cpu": 4.0, "gpu": 1.0}) == pytest.approx(5.0)
    assert area(tasks, {"gpu": 1.0}) == 10.0
    assert bounds(tasks, [Machine("a", 4, 1)]).best == pytest.approx(5.0)


def test_both_together_are_more_than_either():
    # Two tasks that everything waits for, and then work for all: neither alone sees both.
    tasks = [Task("a", (), 2.0), Task("b", [0], 2.0), *(Task(("x", i), [1], 1.0) for i in range(8))]
    workload = Workload("w", tasks)
    found = bounds(workload, [Machine("m", 2)])
    assert found.critical_path == 5.0
    assert found.area == 6.0
    assert found.combined >= found.best - 1e-9


def test_bytes_that_must_cross_a_link():
    assert link_bound({"a": 100.0, "b": 10.0}, {"a": 10.0, "b": 5.0}) == 10.0


@pytest.mark.parametrize(("make", "n", "tasks", "edges"), [(cholesky, 4, 20, 30), (lu, 4, 30, 54), (qr, 3, 14, 21)])
def test_factorisations_have_the_tasks_they_should(make, n, tasks, edges):
    names = ["potrf", "trsm", "syrk", "gemm", "getrf", "trsm_ll", "trsm_ru", "geqrt", "ormqr", "tsqrt", "tsmqr"]
    workload = make(n, dict.fromkeys(names, 1.0))
    assert (len(workload.tasks), sum(len(t.dependencies) for t in workload.tasks)) == (tasks, edges)
    assert set(FACTORISATIONS) == {"cholesky", "lu", "qr"}
