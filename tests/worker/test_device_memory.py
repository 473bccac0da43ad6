"""How much of its devices' memory a worker's results may take."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from hetsched.worker.device_memory import DeviceLimit, loaded_total

GB = 1_000_000_000


@pytest.fixture
def devices(monkeypatch):
    """Two devices, which a library that is loaded tells of."""

    def properties(n):
        return {"totalGlobalMem": (8, 16)[n] * GB}

    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=SimpleNamespace(getDeviceProperties=properties)))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return cupy


@pytest.mark.parametrize(
    ("value", "waits", "target"),
    [
        (None, False, None), (0, False, None), ("0", False, None), (False, False, None), ("4GB", False, 4 * GB),
        (4e9, False, 4 * GB), (0.5, True, 12 * GB), ("25%", True, 6 * GB), ("1.0", True, 24 * GB),
    ],
)  # fmt: skip
def test_what_a_limit_comes_to(devices, value, waits, target):
    limit = DeviceLimit(value, 2)
    assert (limit.waits, limit.target) == (waits, None if waits else target)
    limit.learn()
    assert (limit.waits, limit.target) == (False, target)


def test_a_part_of_nobody_knows_what_is_no_limit(monkeypatch):
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    limit = DeviceLimit(0.8, 1)
    limit.learn()
    assert (limit.waits, limit.target) == (False, None)


def test_a_library_that_fails_is_passed_over(devices, monkeypatch):
    def fails(_):
        raise RuntimeError("no driver")

    devices.cuda.runtime.getDeviceProperties = fails
    torch = SimpleNamespace(cuda=SimpleNamespace(get_device_properties=lambda n: SimpleNamespace(total_memory=3 + n)))
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert loaded_total(2) == 7


@pytest.mark.parametrize("value", ["much", "-1", "120%", -2])
def test_what_is_no_limit_is_refused(value):
    with pytest.raises(ValueError, match=r"memory limit|is not a size"):
        DeviceLimit(value, 1)
