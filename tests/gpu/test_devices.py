"""How many GPUs a process may use, and which one a thread uses."""

from __future__ import annotations

import sys
import types

import pytest

from hetsched.gpu import devices
from hetsched.gpu.devices import bind_device, count_devices, deal_devices


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """A driver with four devices."""
    for i in range(4):
        (tmp_path / f"0000:0{i}:00.0").mkdir()
    monkeypatch.setattr(devices, "_DRIVER", tmp_path)
    monkeypatch.setattr(devices.nvml, "_library", lambda: None)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tmp_path


def test_without_a_driver(monkeypatch, tmp_path):
    monkeypatch.setattr(devices, "_DRIVER", tmp_path / "none")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert count_devices() == 0


def test_all_the_driver_lists(driver):
    assert count_devices() == 4


@pytest.mark.parametrize(
    ("visible", "count"),
    [
        ("0", 1),
        ("0,1", 2),
        (" 2 , 3 ", 2),
        ("3,2,1,0", 4),
        ("", 0),
        ("-1", 0),
        ("0,-1,1", 1),
        ("0,9,1", 1),
        ("NoDevFiles", 0),
        ("GPU-8932f937-d72c", 1),
        ("MIG-GPU-1/2/3,0", 1),
        ("0,x", 1),
        ("none", 0),
    ],
)
def test_what_the_environment_lets_see(driver, monkeypatch, visible, count):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert count_devices() == count


def test_binding_uses_the_libraries_that_are_loaded(monkeypatch):
    used = []

    class Device:
        def __init__(self, number):
            self.number = number

        def use(self):
            used.append(("cupy", self.number))

    def refuses(number):
        used.append(("torch", number))
        raise RuntimeError("no driver")

    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(cuda=types.SimpleNamespace(Device=Device)))
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=types.SimpleNamespace(set_device=refuses)))
    bind_device(2)
    assert used == [("cupy", 2), ("torch", 2)]
    monkeypatch.delitem(sys.modules, "cupy")
    monkeypatch.delitem(sys.modules, "torch")
    bind_device(3)
    assert len(used) == 2
    assert "cupy" not in sys.modules
    assert "torch" not in sys.modules


def test_devices_are_dealt_out(driver, monkeypatch):
    assert deal_devices(1) == [(4, None)]
    assert deal_devices(2) == [(2, "0,2"), (2, "1,3")]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
    assert deal_devices(3) == [(1, "3"), (1, "1"), (0, "")]


def test_no_devices_to_deal_out(monkeypatch, tmp_path):
    monkeypatch.setattr(devices, "_DRIVER", tmp_path / "none")
    assert deal_devices(2) == [(0, None), (0, None)]
