"""The cases that people reported, on a scheduler and two workers in processes of their own, where they are for any.

Those about errors (050 to 068) are N16 of ``scenarios/test_comm.py``.
"""

from __future__ import annotations

import pytest
from cases import CASES, FILES, CaseRuns, scope_of

ERRORS = range(50, 69)
HERE = [file for file in FILES if scope_of(file) == "any" and int(file.name[:3]) not in ERRORS]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runs(request):
    with CaseRuns.selected(request) as runs:
        yield runs


@pytest.mark.skipif(not HERE, reason=f"the cases are not at {CASES}")
@pytest.mark.parametrize("file", HERE or [None], ids=lambda file: getattr(file, "stem", "none"))
def test_case_on_a_cluster(runs, file):
    if file.stem.startswith("107_"):
        # dask groups the collections by kind before it asks any scheduler; docs/howto.md says how to avoid it.
        row = runs.row(file)
        assert (row["verdict"], row["detail"]) == ("FAIL", "line 27: the bag's place holds array([0, 1, 2, 3, 4])")
    elif file.stem.startswith("092_"):
        # A cluster is looked at ten times a second, so the profiler's times are not those of short tasks.
        row = runs.row(file)
        assert row["verdict"] == "PASS" or row["detail"].startswith("line 32: {('n', 0): TaskData("), row
    else:
        runs.check(file)
