"""How many cores this process may use."""

from __future__ import annotations

import math
import os
from pathlib import Path

__all__ = ["count_cores"]


def count_cores(root: str | Path = "/") -> int:
    """Count the cores, as far as the process's affinity and its control group's quota let it use them.

    ``root`` is where ``proc`` and ``sys`` are.
    """
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        cores = os.cpu_count() or 1
    return max(1, min([cores, *_quotas(Path(root))]))


def _quotas(root: Path) -> list[int]:
    found = []
    mounted = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        parts = [part for part in path.split("/") if part not in {"", ".."}]
        for n in range(len(parts) + 1):
            if not controllers:
                quota, _, period = _read(mounted.joinpath(*parts[:n], "cpu.max")).partition(" ")
            elif "cpu" in controllers.split(","):
                folder = (mounted / "cpu").joinpath(*parts[:n])
                quota, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
            else:
                continue
            if quota.strip().isdecimal() and period.strip().isdecimal() and int(period):
                found.append(math.ceil(int(quota) / int(period)))
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
