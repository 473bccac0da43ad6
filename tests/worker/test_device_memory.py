"""How much of its devices' memory a worker's results may take."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace

import pytest

from hetsched.comm.introduction import introduce
from hetsched.core.types import Capacity
from hetsched.worker.device_memory import DeviceLimit, loaded_memory
from hetsched.worker.peers import Secrets
from hetsched.worker.process import Offer, WorkerProcess

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


def test_what_comes_in_while_the_limit_is_being_found_out_is_counted_too(devices):
    """A worker's threads report results on a device; the first has to ask a library how much memory there is."""
    offer = Offer("w", Capacity({}), devices=1, device_memory_limit=0.5)
    worker = WorkerProcess(offer, introduce("worker", "w"), Secrets())
    asked, answer = threading.Event(), threading.Event()
    properties = devices.cuda.runtime.getDeviceProperties

    def slowly(n):
        asked.set()
        assert answer.wait(20)
        return properties(n)

    devices.cuda.runtime.getDeviceProperties = slowly
    worker._store.update(dict.fromkeys(range(3), b"on the device"))

    def report(task):
        thread = threading.Thread(target=worker._note, args=([(task, 0, 0.0, 0.1, 3 * GB, 3 * GB)],))
        thread.start()
        return thread

    threads = [report(0)]
    assert asked.wait(20)
    threads += [report(1), report(2)]
    for thread in threads:
        thread.join(0.05)  # they may be through before the answer is there, or wait for it
    answer.set()
    for thread in threads:
        thread.join(20)
    stats = worker._store.stats()
    assert (stats.cuda_nbytes, stats.in_memory, stats.packed) == (3 * GB, 1, 2)
    assert worker._store.device_room() == [GB]
