"""What docs/sims.md shows is run as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from hetsched.sims.commands import sims
from hetsched.sims.experiment import read_experiment

PAGE = (Path(__file__).parents[2] / "docs" / "sims.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_policy_of_the_tutorial_runs(tmp_path, monkeypatch):
    (policy,) = (text for text in blocks("python") if text.startswith("# largest.py"))
    (tmp_path / "largest.py").write_text(policy)
    assert len(policy.splitlines()) <= 30
    monkeypatch.syspath_prepend(tmp_path)
    result = CliRunner().invoke(sims, ["compare", "earliest_finish", "largest:Largest"])
    assert result.exit_code == 0, result.output
    assert "largest:Largest" in result.output


def test_the_experiment_that_is_shown_is_one(tmp_path):
    whole, expected = blocks("toml")
    (tmp_path / "shown.toml").write_text(f"{whole}\n{expected}")
    experiment = read_experiment(tmp_path / "shown.toml")
    assert (experiment.policies, experiment.seeds) == (["earliest_finish", "random"], 3)
    assert [e.of for e in experiment.expectations] == ["earliest_finish"]


def test_the_workload_of_a_dask_collection_is_made():
    pytest.importorskip("dask.array")
    (source,) = (text for text in blocks("python") if "from_dask" in text)
    said: dict[str, object] = {}
    exec(source, said)
    assert len(said["workload"].tasks) > 16
