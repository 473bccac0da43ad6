"""Which results are in memory, how many bytes they take, and which was used longest ago."""

from __future__ import annotations

from collections import deque

from hetsched.core.types import TaskId

__all__ = ["SMALL", "Usage"]

SMALL = 1000
"""Results of fewer bytes than this stay in host memory: a file of each would not be worth it."""

_READS = 4096


class Usage:
    """Counts bytes, and picks what should leave. Not safe to use from several threads, but for ``reads``."""

    __slots__ = ("_device", "_host", "_leaving", "cuda_nbytes", "host_nbytes", "reads", "sizes")

    def __init__(self) -> None:
        self.sizes: dict[TaskId, tuple[int, int]] = {}
        """Bytes in host and in device memory of each result that was counted."""
        self.host_nbytes = 0
        self.cuda_nbytes = 0
        self.reads: deque[TaskId] = deque(maxlen=_READS)
        """What was read of late, the latest last; any thread may append to it."""
        self._host: dict[TaskId, None] = {}
        self._device: dict[TaskId, None] = {}
        """What may leave host or device memory, that used longest ago first."""
        self._leaving: dict[TaskId, tuple[int, int]] = {}

    def count(self, key: TaskId, host: int, cuda: int, movable: bool = True) -> None:
        """Count a result, as the one used last; what was counted of it before counts no more."""
        if key in self.sizes:
            self.forget(key)
        self.sizes[key] = host, cuda
        self.host_nbytes += host
        self.cuda_nbytes += cuda
        if movable:
            self._may_leave(key, host, cuda)
        if len(self.reads) > _READS // 2:
            self._replay()

    def forget(self, key: TaskId) -> None:
        """Count a result no more, if it was."""
        size = self.sizes.pop(key, None)
        if size is not None:
            self.host_nbytes -= size[0]
            self.cuda_nbytes -= size[1]
            if size[1] or size[0] >= SMALL:  # else it is in none of these
                self._host.pop(key, None)
                self._device.pop(key, None)
                self._leaving.pop(key, None)

    def take_host(self, goal: int, keep: TaskId | None = None) -> TaskId | None:
        """Pick a result that should leave host memory, where more than ``goal`` bytes will be left of it.

        What is picked is not picked again before :meth:`put_back` or :meth:`count`, and is taken for gone in the sum.
        """
        if self.host_nbytes - sum(host for host, cuda in self._leaving.values() if not cuda) <= goal:
            return None
        return self._take(self._host, keep)

    def take_device(self, goal: int, keep: TaskId | None = None) -> TaskId | None:
        """Pick a result that should leave device memory; see :meth:`take_host`."""
        if self.cuda_nbytes - sum(cuda for _, cuda in self._leaving.values()) <= goal:
            return None
        return self._take(self._device, keep)

    def put_back(self, key: TaskId, movable: bool = True) -> None:
        """A picked result has not left: it may be picked again, if it is ``movable``."""
        size = self._leaving.pop(key, None)
        if size is not None and movable:
            self._may_leave(key, *size)

    def _may_leave(self, key: TaskId, host: int, cuda: int) -> None:
        if cuda:
            self._device[key] = None
        elif host >= SMALL:
            self._host[key] = None

    def _take(self, order: dict[TaskId, None], keep: TaskId | None) -> TaskId | None:
        self._replay()
        for key in order:
            if key != keep:
                del order[key]
                self._leaving[key] = self.sizes[key]
                return key
        return None

    def _replay(self) -> None:
        reads = self.reads
        for _ in range(len(reads)):  # not more: readers may be as fast
            key = reads.popleft()
            for order in (self._host, self._device):
                if key in order:
                    del order[key]
                    order[key] = None
