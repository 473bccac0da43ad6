"""What a killed process left on disk, and nothing of anybody else's, is removed by the one that started it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hetsched.worker.spill_files import SpillFiles
from hetsched.worker.spill_folders import prefix_of, remove_left, spill_parent


def test_only_what_a_process_left_is_removed(tmp_path):
    for pid in (1, 12, 123):
        (tmp_path / f"{prefix_of(pid)}abc").mkdir()
    (tmp_path / f"{prefix_of(12)}abc" / "0").write_text("a result")
    (tmp_path / "hetsched-spill-elsewhere-12-abc").mkdir()
    remove_left(tmp_path, 12)
    remove_left(tmp_path / "none", 12)
    left = {f"{prefix_of(1)}abc", f"{prefix_of(123)}abc", "hetsched-spill-elsewhere-12-abc"}
    assert {path.name for path in tmp_path.iterdir()} == left


def test_the_files_of_a_process_that_is_killed_are_found(tmp_path):
    program = f"from hetsched.worker.spill_files import SpillFiles as S; s = S({str(tmp_path)!r}); s.write(1, [])"
    with subprocess.Popen([sys.executable, "-c", f"{program}; import os; os.kill(os.getpid(), 9)"]) as process:
        assert process.wait() == -9
    assert len(os.listdir(tmp_path)) == 1
    remove_left(tmp_path, process.pid)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("given", [None, "here"])
def test_both_look_in_the_same_place(given):
    place = Path(tempfile.gettempdir() if given is None else given).absolute()
    assert SpillFiles(given).folder == spill_parent(given) == place
