"""How much of its devices' memory a worker's results may take."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from hetsched.worker.device_memory import DeviceLimit, loaded_memory

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
    ("value", "waits", "each"),
    [
        (None, False, ()), (0, False, ()), ("0", False, ()), (False, False, ()), ("4GB", False, (2 * GB, 2 * GB)),
        (4e9, False, (2 * GB, 2 * GB)), (0.5, True, (4 * GB, 8 * GB)), ("25%", True, (2 * GB, 4 * GB)),
        ("1.0", True, (8 * GB, 16 * GB)),
    ],
)  # fmt: skip
def test_what_a_limit_comes_to(devices, value, waits, each):
    limit = DeviceLimit(value, 2)
    target = sum(each) or None
    assert (limit.waits, limit.target, limit.each) == (waits, None if waits else target, () if waits else each)
    limit.learn()
    assert (limit.waits, limit.target, limit.each) == (False, target, each)


@pytest.mark.parametrize(("value", "target"), [("4GB", 4 * GB), (0.5, 4 * GB), (0, None)])
def test_one_device_has_the_limit_alone(devices, value, target):
    limit = DeviceLimit(value, 1)
    limit.learn()
    assert (limit.target, limit.each) == (target, ())


def test_a_part_of_nobody_knows_what_is_no_limit(monkeypatch):
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    limit = DeviceLimit(0.8, 2)
    limit.learn()
    assert (limit.waits, limit.target, limit.each) == (False, None, ())


def test_a_library_that_fails_is_passed_over(devices, monkeypatch):
    def fails(_):
        raise RuntimeError("no driver")

    devices.cuda.runtime.getDeviceProperties = fails
    torch = SimpleNamespace(cuda=SimpleNamespace(get_device_properties=lambda n: SimpleNamespace(total_memory=3 + n)))
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert loaded_memory(2) == [3, 4]


@pytest.mark.parametrize("value", ["much", "-1", "120%", -2])
def test_what_is_no_limit_is_refused(value):
    with pytest.raises(ValueError, match=r"memory limit|is not a size"):
        DeviceLimit(value, 1)
