"""The Client for programs that run in trio."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self

import trio
from dask.base import get_annotations

from hetsched.core.types import Key
from hetsched.core.verdicts import GpuRow
from hetsched.graph.build import build
from hetsched.outcome import shaped

from . import calls
from .futures import AsyncFuture
from .reaching import reach
from .submitting import Submitting
from .waiting import AsCompleted, as_completed

__all__ = ["AsyncClient"]


class AsyncClient(Submitting[AsyncFuture]):
    """:class:`hetsched.Client` for trio: ``async with AsyncClient(address) as client:``.

    What waits is awaited, and safe to cancel; what does not is called. A large graph is read and packed in the thread
    of the loop by ``submit``, ``map``, ``scatter``, ``compute`` and ``persist``, and in another by ``get``.
    """

    asynchronous = True
    _future = AsyncFuture

    def __init__(
        self,
        address_or_cluster: Any = None,
        *,
        scheduler_file: Any = None,
        token_file: Any = None,
        tls: ssl.SSLContext | None = None,
        timeout: float = 10,
        name: str = "",
    ) -> None:
        self._open = partial(reach, address_or_cluster, scheduler_file, token_file, tls, name, timeout)

    async def __aenter__(self) -> Self:
        self.session = await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with trio.CancelScope(shield=True):
            await self.close()

    async def close(self) -> None:
        """Close the connection; the results of all Futures are let go."""
        await self.session.aclose()

    async def get(
        self, dsk: Any, keys: Any, *, annotations: Mapping[Key, Mapping[str, Any]] | None = None, **options: Any
    ) -> Any:
        """Run a dask graph on the cluster; see :func:`hetsched.get`. Cancelled, it cancels the computation."""
        around = get_annotations()

        def make() -> Any:
            built = build(dsk, keys, around, annotations)
            return built, self._order(built.tasks, built.places.values()) if built.tasks else None

        built, graph = await trio.to_thread.run_sync(make)
        return shaped(keys, await calls.get(self.session, built, graph))

    def compute(
        self, *collections: Any, sync: bool = False, optimize_graph: bool = True, traverse: bool = True,
        **annotations: Any,
    ) -> Any:  # fmt: skip
        """See :meth:`hetsched.Client.compute`; with ``sync`` what this returns is to be awaited."""
        futures = self._compute(collections, optimize_graph, traverse, annotations)
        return self.gather(futures) if sync else futures

    async def gather(self, futures: Any, errors: Literal["raise", "skip"] = "raise") -> Any:
        """See :meth:`hetsched.Client.gather`."""
        return await calls.gather(self.session, futures, self._futures_in(futures), errors)

    async def wait(
        self, futures: Sequence[AsyncFuture], timeout: float | None = None,  # noqa: ASYNC109
        return_when: calls.ReturnWhen = "ALL_COMPLETED",
    ) -> calls.DoneAndNotDone:  # fmt: skip
        """See :func:`hetsched.wait`."""
        return await calls.wait(list(futures), timeout, return_when)

    def as_completed(self, futures: Any, *, with_results: bool = False) -> AsCompleted:
        """See :func:`hetsched.as_completed`; for ``async for``."""
        return as_completed(futures, with_results=with_results)

    async def who_has(self, futures: Any) -> dict[Key, list[str]]:
        """See :meth:`hetsched.Client.who_has`."""
        return await calls.who_has(self.session, self._futures_in(futures))

    async def scheduler_info(self) -> dict[str, Any]:
        """See :meth:`hetsched.Client.scheduler_info`."""
        return await calls.info(self.session)

    async def gpu_report(self) -> list[GpuRow]:
        """See :meth:`hetsched.Client.gpu_report`."""
        return await calls.gpu_report(self.session)

    async def explain(self, task: AsyncFuture | Key) -> dict[str, Any]:
        """See :meth:`hetsched.Client.explain`."""
        return await calls.explain(self.session, task)

    async def register_plugin(self, name: str) -> str:
        """See :meth:`hetsched.Client.register_plugin`."""
        return await calls.register_plugin(self.session, name)
