"""The GPUs this process may use, and which one a thread uses, without loading a GPU library."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

__all__ = ["bind_device", "count_devices"]

_DRIVER = Path("/proc/driver/nvidia/gpus")


def count_devices() -> int:
    """Count the devices the NVIDIA driver lists, as far as ``CUDA_VISIBLE_DEVICES`` lets this process see them.

    As CUDA does, the list of visible devices ends at the first entry that names none.
    """
    try:
        present = len(list(_DRIVER.iterdir()))
    except OSError:
        return 0
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return present
    count = 0
    for entry in visible.split(","):
        name = entry.strip()
        if not name.startswith(("GPU-", "MIG-")) and not (name.isdigit() and int(name) < present):
            break
        count += 1
    return count


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
