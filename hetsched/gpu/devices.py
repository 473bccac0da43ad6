"""The GPUs this process may use, and which one a thread uses, without loading a GPU library."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

__all__ = ["bind_device", "count_devices", "deal_devices"]

_DRIVER = Path("/proc/driver/nvidia/gpus")


def count_devices() -> int:
    """Count the devices the NVIDIA driver lists, as far as ``CUDA_VISIBLE_DEVICES`` lets this process see them.

    As CUDA does, the list of visible devices ends at the first entry that names none.
    """
    return len(_visible())


def deal_devices(count: int) -> list[tuple[int, str | None]]:
    """Deal the devices out among ``count`` processes: for each how many, and its ``CUDA_VISIBLE_DEVICES``.

    That is None where it is to stay as it is: for one process alone, and where there are no devices.
    """
    visible = _visible()
    if count == 1 or not visible:
        return [(len(visible), None)] * count
    hands = [visible[i::count] for i in range(count)]
    return [(len(hand), ",".join(hand)) for hand in hands]


def _visible() -> list[str]:
    try:
        present = len(list(_DRIVER.iterdir()))
    except OSError:
        return []
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return [str(i) for i in range(present)]
    found = []
    for entry in visible.split(","):
        name = entry.strip()
        if not name.startswith(("GPU-", "MIG-")) and not (name.isdigit() and int(name) < present):
            break
        found.append(name)
    return found


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
