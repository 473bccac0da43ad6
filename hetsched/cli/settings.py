"""What a scheduler's and a worker's process are to be. A child gets it as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

__all__ = ["SchedulerSettings", "WorkerSettings", "decode", "encode"]


class SchedulerSettings(NamedTuple):
    """A scheduler; ``host`` may be a whole address. Files are paths, ``idle_timeout`` is in seconds.

    ``plugins`` are named like ``module:Class``; ``client_plugins`` says whether clients may name more.
    """

    host: str = "127.0.0.1"
    port: int = 0
    token_file: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_ca: str | None = None
    scheduler_file: str | None = None
    policy: str = "earliest_finish"
    record: str | None = None
    idle_timeout: float | None = None
    plugins: Sequence[str] = ()
    client_plugins: bool = False


class WorkerSettings(NamedTuple):
    """A worker of the scheduler at ``address``, or of the one that ``scheduler_file`` tells.

    ``gpus`` are its devices, with lanes for tasks that take ``gpus_per_task`` of one; ``devices`` is what
    ``CUDA_VISIBLE_DEVICES`` is to be (None: as it is).
    ``memory_limit`` is in bytes, 0 for none; ``device_memory_limit`` is as written, None for the configured
    one; ``death_timeout`` in seconds, None for never. ``port`` 0 takes a free one.
    """

    name: str
    address: str | None = None
    scheduler_file: str | None = None
    nthreads: int = 1
    gpus: int = 0
    gpus_per_task: float = 1.0
    devices: str | None = None
    pool: str | None = None
    resources: Mapping[str, float] = {}
    memory_limit: int = 0
    device_memory_limit: str | None = None
    local_directory: str | None = None
    death_timeout: float | None = None
    host: str | None = None
    port: int = 0
    token_file: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_ca: str | None = None


def encode(settings: SchedulerSettings | WorkerSettings) -> str:
    """Write settings, for :func:`decode`."""
    return json.dumps([type(settings).__name__, settings._asdict()])


def decode(text: str) -> SchedulerSettings | WorkerSettings:
    """Read what :func:`encode` wrote. Raises ValueError or TypeError for anything else."""
    kind, fields = json.loads(text)
    kinds: dict[str, Any] = {"SchedulerSettings": SchedulerSettings, "WorkerSettings": WorkerSettings}
    if kind not in kinds:
        raise ValueError(f"there are no settings {kind!r}")
    return kinds[kind](**fields)  # type: ignore[no-any-return]
