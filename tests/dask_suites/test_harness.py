"""That `run.py` can be believed: a test that fails, hangs or kills its process is seen, and so is what follows it."""

from __future__ import annotations

import importlib
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

FAKE_TESTS = """
    import os
    import threading

    import dask
    import pytest

    def test_before():
        assert dask.compute(dask.delayed(sum)([1, 2])) == (3,)

    def test_fails():
        assert 1 == 2, "it says why"

    @pytest.mark.xfail(reason="known", strict=True)
    def test_expected():
        assert 1 == 2

    def test_hangs():
        threading.Event().wait()

    def test_between():
        pytest.skip("not today")

    def test_crashes():
        os._exit(3)

    def test_named_schedulers():
        assert dask.base.get_scheduler(scheduler="processes").__module__ == "dask.local"
        assert dask.delayed(1).__dask_scheduler__ is dask.get is dask.threaded.get
"""


NAMES = ("suites", "plugin", "processes", "compare")


@pytest.fixture
def harness(monkeypatch, tmp_path):
    """The harness's modules, which import each other as a script's do; what they write goes to `tmp_path`."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    modules = SimpleNamespace(**{name: importlib.import_module(name) for name in NAMES})
    monkeypatch.setattr(modules.processes, "WORK", tmp_path / "logs")
    yield modules
    for name in NAMES:
        sys.modules.pop(name, None)


@pytest.fixture
def fake(harness, monkeypatch, tmp_path):
    """A unit of made-up tests, and the folder it lies in."""
    file = tmp_path / "fake" / "test_fake.py"
    file.parent.mkdir()
    file.write_text(textwrap.dedent(FAKE_TESTS), "utf-8")
    monkeypatch.setattr(harness.processes, "dask_root", lambda: file.parent)
    return harness.suites.Unit("fake", 0, ("test_fake.py",))


def test_every_test_gets_its_outcome_though_some_kill_the_process(harness, fake):
    outcomes = harness.processes.run_unit(fake, harness.processes.Request("dask.local:get_sync", limit=2.0))
    assert {test.partition("::test_")[2]: outcome.outcome for test, outcome in outcomes.items()} == {
        "before": "passed",
        "fails": "failed",
        "expected": "xfailed",
        "hangs": "hung",
        "between": "skipped",
        "crashes": "crashed",
        "named_schedulers": "passed",
    }
    assert "it says why" in outcomes["test_fake.py::test_fails"].error
    assert outcomes["test_fake.py::test_before"].graphs == 1


def test_only_what_is_asked_for_is_run(harness, fake):
    only = ("test_fake.py::test_before", "test_fake.py::test_named_schedulers")
    outcomes = harness.processes.run_unit(fake, harness.processes.Request("", only=only))
    assert {test: outcome.outcome for test, outcome in outcomes.items()} == dict(
        zip(only, ("passed", "failed"), strict=True)
    )


def test_a_file_that_cannot_be_imported_is_told(harness, fake, tmp_path):
    (tmp_path / "fake" / "test_fake.py").write_text("import no_such_module", "utf-8")
    outcomes = harness.processes.run_unit(fake, harness.processes.Request())
    assert outcomes["test_fake.py"].outcome == "error"
    assert "no_such_module" in outcomes["test_fake.py"].error


@pytest.mark.parametrize(
    ("ours", "theirs", "says"),
    [
        ("passed", "passed", False),
        ("failed", "passed", True),
        ("hung", "passed", True),
        ("skipped", "passed", True),
        ("failed", "failed", False),
        ("error", "skipped", True),
        ("failed", "xfailed", True),
        ("passed", "failed", False),
        ("failed", None, True),
        ("passed", None, False),
    ],
)
def test_deviates(harness, ours, theirs, says):
    other = None if theirs is None else harness.processes.Outcome(theirs)
    assert harness.compare.deviates(harness.processes.Outcome(ours), other) is says


def test_known_deviations_are_told_from_new_and_from_gone_ones(harness):
    known = [
        harness.compare.Known("a.py::test_a[*]", "it is so"),
        harness.compare.Known("a.py::test_gone", "it was so"),
        harness.compare.Known("a.py::test_rare", "it is so at times", sometimes=True),
        harness.compare.Known("a.py::test_elsewhere[*]", "it is so"),
    ]
    tests = ["a.py::test_a[1]", "a.py::test_a2", "a.py::test_gone", "a.py::test_rare"]
    ran = dict.fromkeys(tests, harness.processes.Outcome("passed"))
    verdict = harness.compare.judge(tests[:2], ran, known, full=False)
    assert verdict == ({"a.py::test_a[1]": known[0]}, ["a.py::test_a2"], [known[1]])
    verdict = harness.compare.judge(tests[:2], ran, known, full=True)
    assert verdict.stale == [known[1], known[3]]


def test_a_known_deviation_needs_a_reason(harness, tmp_path):
    path = tmp_path / "deviations.toml"
    path.write_text('[[deviation]]\ntests = "a.py::test_a"\nreason = " "\n', "utf-8")
    with pytest.raises(ValueError, match="test_a has no reason"):
        harness.compare.read_known(path)
