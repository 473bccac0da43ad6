"""A small cluster in a thread of its own, for tests of what blocks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import trio
from small_cluster import SmallCluster, small_cluster

__all__ = ["ThreadedCluster", "threaded_cluster"]


class ThreadedCluster:
    """Start it with :func:`threaded_cluster`."""

    def __init__(self, cluster: SmallCluster, token: trio.lowlevel.TrioToken) -> None:
        self.cluster = cluster
        self.scheduler_address = cluster.address
        self._token = token

    def call(self, func: Callable[..., Any], *args: Any) -> Any:
        """Call something in the cluster's loop."""
        return trio.from_thread.run_sync(func, *args, trio_token=self._token)

    def settled(self) -> tuple[int, int]:
        """Wait until the scheduler has no task left; returns its numbers of tasks and graphs."""

        async def look() -> tuple[int, int]:
            state = self.cluster.server.scheduler.state
            while state.tasks or state.graphs:
                await trio.sleep(0.001)
            return len(state.tasks), len(state.graphs)

        result: tuple[int, int] = trio.from_thread.run(look, trio_token=self._token)
        return result


@contextmanager
def threaded_cluster(*names: str, **options: Any) -> Iterator[ThreadedCluster]:
    """A cluster with these workers."""
    made: list[ThreadedCluster] = []
    started, stop = threading.Event(), trio.Event()

    async def main() -> None:
        async with small_cluster(*names, **options) as cluster:
            made.append(ThreadedCluster(cluster, trio.lowlevel.current_trio_token()))
            started.set()
            await stop.wait()

    thread = threading.Thread(target=trio.run, args=(main,), name="cluster")
    thread.start()
    started.wait(10)
    try:
        yield made[0]
    finally:
        made[0].call(stop.set)
        thread.join()
