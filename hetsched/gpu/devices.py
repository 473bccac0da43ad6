"""The GPUs this process may use, and which one a thread uses, without loading a GPU library.

They are asked of the driver's management library, else of what the driver lists in ``/proc``, else of CuPy or torch
where the program has loaded them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from . import nvml

__all__ = ["VisibleDevice", "bind_device", "count_devices", "deal_devices", "lanes_for", "visible_devices"]

_DRIVER = Path("/proc/driver/nvidia/gpus")


class VisibleDevice(NamedTuple):
    """A device that this process may use.

    ``name`` is what ``CUDA_VISIBLE_DEVICES`` calls it: a number, "GPU-..." or "MIG-...". ``model`` is "" and
    ``memory``, in bytes, 0 where nobody could tell.
    """

    name: str
    model: str = ""
    memory: int = 0


def count_devices() -> int:
    """Count the devices that this process can use at once, as far as ``CUDA_VISIBLE_DEVICES`` lets it see them.

    As CUDA does, the list of visible devices ends at the first entry that names none, and of MIG slices a process uses
    one alone, however many are named.
    """
    return _usable([device.name for device in visible_devices()])


def visible_devices() -> tuple[VisibleDevice, ...]:
    """The devices that this process may see, in the order in which CUDA numbers them."""
    gpus = nvml.list_gpus()
    if gpus is not None:
        return _among(gpus)
    try:
        present = len(list(_DRIVER.iterdir()))
    except OSError:
        return tuple(VisibleDevice(str(i)) for i in range(_loaded_count()))
    return tuple(VisibleDevice(name) for name in _named(present))


def deal_devices(count: int) -> list[tuple[int, str | None]]:
    """Deal the devices out among ``count`` processes: for each how many, and its ``CUDA_VISIBLE_DEVICES``.

    That is None where it is to stay as it is: for one process alone, and where there are no devices.
    """
    visible = [device.name for device in visible_devices()]
    if count == 1 or not visible:
        return [(_usable(visible), None)] * count
    hands = [visible[i::count] for i in range(count)]
    return [(_usable(hand), ",".join(hand)) for hand in hands]


def lanes_for(devices: int, per_task: float = 1.0) -> tuple[int, ...]:
    """The device of each GPU lane where a task takes ``per_task`` of a device, in the order in which lanes fill up.

    ``lanes_for(2, 0.5)`` is ``(0, 1, 0, 1)``: two tasks share a device only when each device has one. Shares of 1 and
    more have a lane for each device. Raises ValueError for a share that is not more than 0.
    """
    if not per_task > 0:
        raise ValueError(f"GPUs per task: {per_task!r} is not more than 0")
    # The hair's breadth is for shares such as 0.1, of which ten are a whole and a little less.
    return tuple(range(devices)) * max(1, int(1 / per_task + 1e-9))


def _usable(names: Sequence[str]) -> int:
    return 1 if any(name.startswith("MIG-") for name in names) else len(names)


def _among(gpus: Sequence[nvml.Gpu]) -> tuple[VisibleDevice, ...]:
    """The visible ones of all devices, whose UUIDs are known."""
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return tuple(device for gpu in gpus for device in _whole_or_sliced(gpu))
    found: list[VisibleDevice] = []
    for entry in listed.split(","):
        device = _find(gpus, entry.strip())
        if device is None:
            break
        found.append(device)
    return tuple(found)


def _whole_or_sliced(gpu: nvml.Gpu) -> list[VisibleDevice]:
    if not gpu.slices:
        return [VisibleDevice(str(gpu.number), gpu.model, gpu.memory)]
    return [VisibleDevice(uuid, gpu.model, 0) for uuid in gpu.slices]


def _find(gpus: Sequence[nvml.Gpu], name: str) -> VisibleDevice | None:
    """The device of a number, of the beginning of a UUID, or of a MIG slice's name; None where there is no one such."""
    if name.isascii() and name.isdigit():
        number = int(name)
        return VisibleDevice(name, gpus[number].model, gpus[number].memory) if number < len(gpus) else None
    if name.startswith("GPU-"):
        fitting = [gpu for gpu in gpus if gpu.uuid.startswith(name)]
        return VisibleDevice(name, fitting[0].model, fitting[0].memory) if len(fitting) == 1 else None
    if name.startswith(
        "MIG-GPU-"
    ):  # by the device's UUID and the numbers of the slice, as drivers before 470 name them
        return next((VisibleDevice(name, gpu.model) for gpu in gpus if name.startswith(f"MIG-{gpu.uuid}/")), None)
    if name.startswith("MIG-"):
        fitting = [gpu for gpu in gpus if any(uuid.startswith(name) for uuid in gpu.slices)]
        return VisibleDevice(name, fitting[0].model) if len(fitting) == 1 else None
    return None


def _named(present: int) -> list[str]:
    """The visible ones of so many devices, of which only the number is known."""
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return [str(i) for i in range(present)]
    found = []
    for entry in listed.split(","):
        name = entry.strip()
        numbered = name.isascii() and name.isdigit() and int(name) < present
        if not name.startswith(("GPU-", "MIG-")) and not numbered:
            break
        found.append(name)
    return found


def _loaded_count() -> int:
    """How many devices CuPy sees, or torch, if the program has loaded them; they heed what is visible themselves."""
    cupy, torch = sys.modules.get("cupy"), sys.modules.get("torch")
    with suppress(Exception):  # no driver, a broken one, a library that is just being imported
        if cupy is not None:
            return int(cupy.cuda.runtime.getDeviceCount())
    with suppress(Exception):
        if torch is not None:
            return int(torch.cuda.device_count())
    return 0


def bind_device(number: int) -> None:
    """Make a device this thread's current one, in each GPU library the program has loaded.

    A library that refuses is left alone: the task that needs it will say why, in the library's own words.
    """
    cupy = sys.modules.get("cupy")
    if cupy is not None:
        with suppress(Exception):
            cupy.cuda.Device(number).use()
    torch = sys.modules.get("torch")
    if torch is not None:
        with suppress(Exception):
            torch.cuda.set_device(number)
