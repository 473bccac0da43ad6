"""How much memory a worker may use."""

from __future__ import annotations

import math
from pathlib import Path

import psutil

from hetsched.core.quantities import read_bytes

__all__ = ["machine_memory", "memory_limit"]


def memory_limit(value: str | float | None, nworkers: int = 1, machine: int | None = None) -> int:
    """Tell how many bytes one of ``nworkers`` workers of a machine may use; 0 is no limit.

    ``value`` is "auto" or None for an equal part of the machine; a part of the machine each, as ``0.5`` or ``"50%"``;
    bytes, as ``4e9``, ``"4GB"`` or ``"4GiB"``; 0 for no limit. Never more than the machine has: ``machine``, or
    :func:`machine_memory` if None. Raises ValueError for anything else.
    """
    total = machine_memory() if machine is None else machine
    text = "auto" if value is None else str(value).strip().lower()
    if text == "auto":
        return max(total // max(nworkers, 1), 1)
    if text.endswith("%"):
        percent = _number(text[:-1], value)
        if not 0 <= percent <= 100:
            raise ValueError(f"memory limit {value!r}: a part of the machine's memory is between 0% and 100%")
        return math.ceil(total * percent / 100)
    if text[-1:].isalpha():
        return min(read_bytes(text), total)
    number = _number(text, value)
    return min(math.ceil(number * total if number <= 1 else number), total)


def _number(text: str, value: object) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise ValueError(
            f'memory limit {value!r}: write "auto", a size as "4GB", a part as "50%" or 0.5, or 0 for none'
        )
    return number


def machine_memory(root: str | Path = "/") -> int:
    """Tell how many bytes there are for this process: the machine's, or less by its control group or its rlimits.

    ``root`` is where ``proc`` and ``sys`` are.
    """
    return min([int(psutil.virtual_memory().total), *_cgroup_limits(Path(root)), *_rlimits()])


def _cgroup_limits(root: Path) -> list[int]:
    """Read the limits of this process's control groups and all those around them, of both versions."""
    found = []
    mounted = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if not controllers:
            top, name = mounted, "memory.max"
        elif "memory" in controllers.split(","):
            top, name = mounted / "memory", "memory.limit_in_bytes"
        else:
            continue
        # Inside a container the path may be the host's, of which only the top is to be seen here.
        parts = [part for part in path.split("/") if part not in {"", ".."}]
        found += [_read(top.joinpath(*parts[:n], name)) for n in range(len(parts) + 1)]
    return [int(text) for text in found if text.strip().isdecimal() and int(text) > 0]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def _rlimits() -> list[int]:
    try:
        import resource
    except ImportError:  # Windows
        return []
    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA, resource.RLIMIT_RSS)]
    return [limit for limit in limits if limit not in {resource.RLIM_INFINITY, 0}]
