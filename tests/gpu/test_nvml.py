"""The driver's management library, played by functions that write where they are told to."""

from __future__ import annotations

import ctypes
import types

import pytest

from hetsched.gpu import devices, nvml
from hetsched.gpu.devices import VisibleDevice, count_devices, deal_devices, lanes_for, visible_devices
from hetsched.gpu.nvml import Gpu, list_gpus, memory_of_process


class Driver:
    """Devices as ``(uuid, model, memory, MIG slices)``, and processes by device as ``(pid, used)``."""

    def __init__(self, *gpus, processes=()):
        self.gpus, self.processes = gpus, processes
        self.parts = [uuid for gpu in gpus for uuid in gpu[3]]

    def nvmlDeviceGetCount_v2(self, out):
        out._obj.value = len(self.gpus)
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index, out):
        out._obj.value = index + 1
        return 0

    def nvmlDeviceGetMemoryInfo(self, handle, out):
        out._obj.total = self.gpus[handle.value - 1][2]
        return 0

    def nvmlDeviceGetUUID(self, handle, out, size):
        out.value = (self.parts[handle.value - 100] if handle.value >= 100 else self.gpus[handle.value - 1][0]).encode()
        return 0

    def nvmlDeviceGetName(self, handle, out, size):
        out.value = self.gpus[handle.value - 1][1].encode()
        return 0

    def nvmlDeviceGetMigMode(self, handle, now, later):
        slices = self.gpus[handle.value - 1][3]
        now._obj.value = bool(slices)
        return 0 if slices is not None else 3

    def nvmlDeviceGetMaxMigDeviceCount(self, handle, out):
        out._obj.value = 7
        return 0

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle, number, out):
        slices = self.gpus[handle.value - 1][3]
        if number >= len(slices):
            return 6
        out._obj.value = 100 + self.parts.index(slices[number])
        return 0

    def nvmlDeviceGetComputeRunningProcesses_v3(self, handle, count, rows):
        mine = self.processes[handle.value - 1]
        count._obj.value = len(mine)
        for row, (pid, used) in zip(rows, mine, strict=False):
            row.pid, row.used = pid, used
        return 0


TWO = (("GPU-aaaa-1", "H200", 141, ()), ("GPU-aabb-2", "H200", 141, ()))
SLICED = (("GPU-cccc-3", "A100", 80, ("MIG-1111", "MIG-2222")), ("GPU-dddd-4", "A100", 80, ()))


@pytest.fixture
def driver(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def use(*gpus, processes=()):
        monkeypatch.setattr(nvml, "_library", lambda: Driver(*gpus, processes=processes))

    return use


def test_what_the_driver_lists(driver):
    driver(*TWO)
    assert list_gpus() == (Gpu(0, "GPU-aaaa-1", "H200", 141), Gpu(1, "GPU-aabb-2", "H200", 141))
    driver(*SLICED)
    assert [gpu.slices for gpu in list_gpus()] == [("MIG-1111", "MIG-2222"), ()]
    driver()
    assert list_gpus() == ()


def test_a_driver_that_refuses_or_is_old(monkeypatch):
    monkeypatch.setattr(nvml, "_library", lambda: types.SimpleNamespace(nvmlDeviceGetCount_v2=lambda out: 999))
    assert list_gpus() is None
    assert memory_of_process(1) == 0
    monkeypatch.setattr(nvml, "_library", types.SimpleNamespace)
    assert list_gpus() is None


def test_no_driver_at_all(monkeypatch):
    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    nvml._opened.cache_clear()
    assert (list_gpus(), memory_of_process(1)) == (None, 0)
    nvml._opened.cache_clear()


def test_memory_that_a_process_holds(driver):
    unknown = (1 << 64) - 1
    driver(*TWO, processes=[[(7, 100), (8, 50)], [(7, 20), (7, unknown)]])
    assert [memory_of_process(pid) for pid in (7, 8, 9)] == [120, 50, 0]


@pytest.mark.parametrize(
    ("gpus", "visible", "names"),
    [
        (TWO, None, ["0", "1"]),
        (TWO, "1,0", ["1", "0"]),
        (TWO, "GPU-aabb", ["GPU-aabb"]),
        (TWO, "GPU-aabb-2, GPU-aaaa", ["GPU-aabb-2", "GPU-aaaa"]),
        (TWO, "GPU-aa,0", []),  # the beginning of two
        (TWO, "1,GPU-ffff,0", ["1"]),
        (TWO, "2", []),
        (TWO, "", []),
        (SLICED, None, ["MIG-1111", "MIG-2222", "1"]),
        (SLICED, "MIG-2222", ["MIG-2222"]),
        (SLICED, "MIG-3333,1", []),
        (SLICED, "MIG-GPU-cccc-3/1/0", ["MIG-GPU-cccc-3/1/0"]),
        (SLICED, "MIG-GPU-eeee-3/1/0", []),
    ],
)
def test_what_is_visible(driver, monkeypatch, gpus, visible, names):
    driver(*gpus)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    found = visible_devices()
    assert [device.name for device in found] == names
    assert {device.model for device in found} <= {gpus[0][1]}


def test_memory_of_visible_devices(driver):
    driver(*TWO)
    assert visible_devices()[0] == VisibleDevice("0", "H200", 141)


def test_a_process_uses_one_slice_and_processes_share_them(driver, monkeypatch):
    driver(*SLICED)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-1111,MIG-2222")
    assert count_devices() == 1
    assert deal_devices(1) == [(1, None)]
    assert deal_devices(2) == [(1, "MIG-1111"), (1, "MIG-2222")]


def test_libraries_are_asked_last_and_only_if_loaded(monkeypatch, tmp_path):
    monkeypatch.setattr(nvml, "_library", lambda: None)
    monkeypatch.setattr(devices, "_DRIVER", tmp_path / "none")
    for name in ("cupy", "torch"):
        monkeypatch.delitem(devices.sys.modules, name, raising=False)
    assert count_devices() == 0

    def refuses():
        raise RuntimeError

    cupy = types.SimpleNamespace(cuda=types.SimpleNamespace(runtime=types.SimpleNamespace(getDeviceCount=refuses)))
    torch = types.SimpleNamespace(cuda=types.SimpleNamespace(device_count=lambda: 2))
    monkeypatch.setitem(devices.sys.modules, "cupy", cupy)
    assert count_devices() == 0
    monkeypatch.setitem(devices.sys.modules, "torch", torch)
    assert [device.name for device in visible_devices()] == ["0", "1"]


def test_shares_of_devices():
    assert lanes_for(2) == (0, 1)
    assert lanes_for(2, 0.5) == (0, 1, 0, 1)
    assert lanes_for(1, 0.1) == (0,) * 10
    assert lanes_for(1, 0.3) == (0, 0, 0)
    assert lanes_for(2, 2) == (0, 1)
    assert lanes_for(0, 0.5) == ()
    with pytest.raises(ValueError, match="GPUs per task: 0 is not more than 0"):
        lanes_for(1, 0)
