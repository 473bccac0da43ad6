"""How much memory there is, and what is done about what is used."""

from __future__ import annotations

import resource

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsched.core.quantities import read_bytes
from hetsched.worker.memory import machine_memory, memory_limit
from hetsched.worker.thresholds import Thresholds, assess, excess

GB = 10**9


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("0", 0),
        ("12", 12),
        ("12B", 12),
        ("4GB", 4 * GB),
        ("4 gb", 4 * GB),
        ("4g", 4 * GB),
        ("4GiB", 4 * 2**30),
        ("1.5 kiB", 1536),
        (" 500MB ", 500_000_000),
        ("2TB", 2 * 10**12),
        ("1PiB", 2**50),
        ("1e3", 1000),
        ("1e3kB", 10**6),
    ],
)
def test_sizes(text, nbytes):
    assert read_bytes(text) == nbytes


@pytest.mark.parametrize("text", ["", "GB", "4XB", "-4GB", "4iB", "4 G B", "1.2.3GB", "inf", "nan", "1e999", "4GB 2"])
def test_what_is_not_a_size(text):
    with pytest.raises(ValueError) as caught:
        read_bytes(text)
    assert str(caught.value) == f'{text!r} is not a size: write it as "500MB", "4GB" or "4GiB"'


@pytest.mark.parametrize(
    ("value", "nworkers", "limit"),
    [
        ("auto", 1, 16 * GB),
        ("auto", 4, 4 * GB),
        (None, 4, 4 * GB),
        ("AUTO", 3, 5333333333),
        (0, 4, 0),
        ("0", 4, 0),
        ("0GB", 4, 0),
        (0.0, 4, 0),
        ("0%", 4, 0),
        (0.5, 4, 8 * GB),
        ("0.5", 4, 8 * GB),
        (1, 1, 16 * GB),
        ("50%", 4, 8 * GB),
        ("12.5 %", 1, 2 * GB),
        ("4GB", 4, 4 * GB),
        ("4000000000", 1, 4 * GB),
        (4e9, 1, 4 * GB),
        ("100GB", 1, 16 * GB),
        (1e15, 1, 16 * GB),
        (1e-30, 1, 1),
    ],
)
def test_limits(value, nworkers, limit):
    assert memory_limit(value, nworkers, machine=16 * GB) == limit


@pytest.mark.parametrize("value", ["much", "", "-1", -5, "101%", "x%", float("nan"), float("inf"), "nan", "1.2.3"])
def test_what_is_not_a_limit(value):
    with pytest.raises(ValueError, match=r"memory limit|is not a size"):
        memory_limit(value, machine=GB)


def tree(root, cgroup, **limits):
    """A made-up /proc and /sys."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(cgroup)
    for name, text in limits.items():
        path = root / "sys/fs/cgroup" / name.replace("__", "/").replace("_max", ".max").replace("_limit", ".limit")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


V1 = "5:cpu,cpuacct:/docker/abc\n4:hugetlb,memory:/docker/abc\n1:name=systemd:/docker/abc\n"


@pytest.mark.parametrize(
    ("cgroup", "limits", "nbytes"),
    [
        ("0::/\n", {"memory_max": "3000000\n"}, 3_000_000),
        ("0::/\n", {"memory_max": "max\n"}, None),
        ("0::/\n", {}, None),
        (
            "0::/user.slice/a\n",
            {"user.slice__a__memory_max": "max\n", "user.slice__memory_max": "2000000\n"},
            2_000_000,
        ),
        ("0::/host/path/unseen\n", {"memory_max": "1000000\n"}, 1_000_000),
        ("0::/../../up\n", {"memory_max": "1000000\n"}, 1_000_000),
        (V1, {"memory__docker__abc__memory_limit_in_bytes": "4000000\n"}, 4_000_000),
        (V1, {"memory__memory_limit_in_bytes": "5000000\n"}, 5_000_000),
        (V1, {"memory__memory_limit_in_bytes": "9223372036854771712\n"}, None),
        ("garbage\n\n:\n", {"memory_max": "?\n"}, None),
    ],
)
def test_control_groups(tmp_path, cgroup, limits, nbytes):
    machine = machine_memory(tmp_path)  # a machine that has none, but rlimits perhaps
    assert machine_memory(tree(tmp_path, cgroup, **limits)) == (machine if nbytes is None else nbytes)


def test_rlimits(tmp_path, monkeypatch):
    none = resource.RLIM_INFINITY
    limits = {resource.RLIMIT_AS: none, resource.RLIMIT_DATA: none, resource.RLIMIT_RSS: none}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limits[kind], none))
    total = psutil.virtual_memory().total
    assert machine_memory(tmp_path) == total
    for kind in limits:
        limits[kind] = 1_000_000 + kind
        assert machine_memory(tmp_path) == 1_000_000 + kind
        limits[kind] = 0
        assert machine_memory(tmp_path) == total


def test_this_machine():
    assert 0 < memory_limit("auto", 2) <= psutil.virtual_memory().total // 2


def test_pausing_and_going_on():
    states = []
    state = "running"
    for rss in [0, 79, 80, 79, 73, 71, 79, 80, 94, 95, 90, 71]:
        state = assess(rss, 100, state)
        states.append(state)
    assert [state[0] for state in states] == list("rrppprrpptpr")


def test_a_resume_of_ones_own():
    at = Thresholds(resume=0.5)
    assert [assess(rss, 100, "paused", at) for rss in (49, 50)] == ["running", "paused"]


@pytest.mark.parametrize("off", [None, 0, False])
def test_thresholds_that_are_off(off):
    never = Thresholds(off, off, off, off)
    assert [assess(rss, 100, "paused", never) for rss in (10, 1000)] == ["running"] * 2
    assert excess(1000, 100, never) == 0
    assert assess(1000, 100, thresholds=Thresholds(terminate=off)) == "paused"
    assert assess(1000, 100, thresholds=Thresholds(pause=off)) == "terminate"


def test_no_limit():
    assert (assess(10**15, 0, "paused"), excess(10**15, 0)) == ("running", 0)


def test_what_should_go_to_disk():
    assert [excess(rss, 100) for rss in (0, 65, 70, 71, 90)] == [0, 0, 0, 11, 30]
    assert excess(90, 100, Thresholds(target=None)) == 20


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"pause": 1.5}, "memory threshold pause is 1.5: it should be above 0 and at most 1"),
        ({"target": -0.1}, "memory threshold target is -0.1: it should be above 0 and at most 1"),
        ({"spill": 0.9}, "memory threshold spill is 0.9, more than pause, 0.8"),
        ({"spill": None, "target": 0.9}, "memory threshold target is 0.9, more than pause, 0.8"),
        ({"resume": 0.85}, "memory threshold resume is 0.85, more than pause, 0.8"),
    ],
)
def test_thresholds_that_are_wrong(options, says):
    with pytest.raises(ValueError) as caught:
        Thresholds(**options)
    assert str(caught.value) == says


@given(st.lists(st.integers(0, 120), max_size=30), st.integers(0, 3))
def test_states_follow_what_is_used(uses, worker):
    state = "running"
    for rss in uses:
        before, state = state, assess(rss, 100, state)
        assert (state == "terminate") == (rss >= 95)
        assert state != "running" or rss < 80
        assert state != "paused" or rss >= 72
        assert before != "running" or state != "paused" or rss >= 80
