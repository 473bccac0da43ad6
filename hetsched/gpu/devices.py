"""How many GPUs this process may use, found out without loading a GPU library."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["count_devices"]

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
