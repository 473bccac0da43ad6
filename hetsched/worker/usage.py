"""Which results are in memory, how many bytes they take, and which was used longest ago."""

from __future__ import annotations

from collections import deque

from hetsched.core.types import TaskId

__all__ = ["SMALL", "UNKNOWN", "Usage"]

SMALL = 1000
"""Results of fewer bytes than this stay in host memory: a file of each would not be worth it."""

UNKNOWN = -1
"""Stands for the device of results on several devices, or on one that nobody knows."""

_READS = 4096


class Usage:
    """Counts bytes, and picks what should leave. Not safe to use from several threads, but for ``reads``."""

    __slots__ = (
        "_device", "_host", "_leaving", "_on", "cuda_nbytes", "devices", "held", "host_nbytes", "reads", "sizes",
    )  # fmt: skip

    def __init__(self) -> None:
        self.sizes: dict[TaskId, tuple[int, int]] = {}
        """Bytes in host and in device memory of each result that was counted."""
        self.devices: dict[TaskId, int] = {}
        """The device of each of them that has bytes on one, or :data:`UNKNOWN`."""
        self.host_nbytes = 0
        self.cuda_nbytes = 0
        self.held: dict[int, int] = {}
        """The bytes on each device."""
        self.reads: deque[TaskId] = deque(maxlen=_READS)
        """What was read of late, the latest last; any thread may append to it."""
        self._host: dict[TaskId, None] = {}
        self._device: dict[TaskId, None] = {}
        """What may leave host or device memory, that used longest ago first; and what may leave each device."""
        self._on: dict[int, dict[TaskId, None]] = {}
        self._leaving: dict[TaskId, tuple[int, int]] = {}

    def count(self, key: TaskId, host: int, cuda: int, movable: bool = True, device: int = UNKNOWN) -> None:
        """Count a result, as the one used last; what was counted of it before counts no more."""
        if key in self.sizes:
            self.forget(key)
        self.sizes[key] = host, cuda
        self.host_nbytes += host
        if cuda:
            self.cuda_nbytes += cuda
            self.devices[key] = device
            self.held[device] = self.held.get(device, 0) + cuda
        if movable:
            self._may_leave(key, host, cuda)
        if len(self.reads) > _READS // 2:
            self._replay()

    def forget(self, key: TaskId) -> None:
        """Count a result no more, if it was."""
        size = self.sizes.pop(key, None)
        if size is not None:
            self.host_nbytes -= size[0]
            if size[1]:
                self.cuda_nbytes -= size[1]
                device = self.devices.pop(key)
                self.held[device] -= size[1]
                self._device.pop(key, None)
                self._on.get(device, {}).pop(key, None)
                self._leaving.pop(key, None)
            elif size[0] >= SMALL:  # else it is in none of these
                self._host.pop(key, None)
                self._leaving.pop(key, None)

    def take_host(self, goal: int, keep: TaskId | None = None) -> TaskId | None:
        """Pick a result that should leave host memory, where more than ``goal`` bytes will be left of it.

        What is picked is not picked again before :meth:`put_back` or :meth:`count`, and is taken for gone in the sum.
        """
        if self.host_nbytes - sum(host for host, cuda in self._leaving.values() if not cuda) <= goal:
            return None
        return self._take(self._host, keep)

    def take_device(self, goal: int, keep: TaskId | None = None, device: int | None = None) -> TaskId | None:
        """Pick a result that should leave device memory, or that of one ``device``; see :meth:`take_host`."""
        held = self.cuda_nbytes if device is None else self.held.get(device, 0)
        leaving = self._leaving.items()
        if held - sum(cuda for k, (_, cuda) in leaving if device is None or self.devices.get(k) == device) <= goal:
            return None
        return self._take(self._device if device is None else self._on.get(device, {}), keep)

    def put_back(self, key: TaskId, movable: bool = True) -> None:
        """A picked result has not left: it may be picked again, if it is ``movable``."""
        size = self._leaving.pop(key, None)
        if size is not None and movable:
            self._may_leave(key, *size)

    def _may_leave(self, key: TaskId, host: int, cuda: int) -> None:
        if cuda:
            self._device[key] = None
            self._on.setdefault(self.devices[key], {})[key] = None
        elif host >= SMALL:
            self._host[key] = None

    def _take(self, order: dict[TaskId, None], keep: TaskId | None) -> TaskId | None:
        self._replay()
        for key in order:
            if key != keep:
                for orders in self._orders(key):
                    orders.pop(key, None)
                self._leaving[key] = self.sizes[key]
                return key
        return None

    def _replay(self) -> None:
        reads = self.reads
        for _ in range(len(reads)):  # not more: readers may be as fast
            key = reads.popleft()
            for order in self._orders(key):
                if key in order:
                    del order[key]
                    order[key] = None

    def _orders(self, key: TaskId) -> tuple[dict[TaskId, None], ...]:
        """Those that a result may be in."""
        device = self.devices.get(key)
        return (self._host,) if device is None else (self._device, self._on.get(device, {}))
