"""The Client for everybody: threads, notebooks, scripts."""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self

import dask
from dask.base import get_annotations
from dask.callbacks import local_callbacks

from hetsched.callbacks import Callbacks, with_known
from hetsched.core.types import EACH, Key, TaskSpec
from hetsched.core.verdicts import GpuRow
from hetsched.graph.build import Built, build
from hetsched.outcome import shaped

from . import active, calls
from .following import Following, look
from .futures import Future
from .loop import process_loop
from .reaching import reach
from .submitting import Submitting
from .waiting import AsCompleted, as_completed

__all__ = ["Client", "configured_client", "default_client"]


class Client(Submitting[Future]):
    """A connection to a scheduler, for any number of threads; a context manager.

    Args:
        address_or_cluster: ``"tcp://host:port"`` and the like, or a cluster that has a ``scheduler_address``; None for
            the one in ``HETSCHED_ADDRESS`` or in dask's configuration under ``hetsched.address``.
        scheduler_file: the file that the scheduler writes its address to (``hetsched-scheduler --scheduler-file``), in
            place of an address; it is waited for.
        token_file: the cluster's token; default ``hetsched.comm.token-file`` in the configuration.
        tls: for ``tls://``; default made of ``hetsched.comm.tls.cert``, ``.key`` and ``.ca`` in the configuration.
        timeout: how long a scheduler that is not there yet is waited for, in seconds.
        name: what logs call it.

    Raises:
        Rejected where the scheduler does not take this client, ConnectionLost or TimeoutError where it cannot be
        reached, ValueError for an address that is none.

    While it is open, and the last one opened, ``hetsched.get`` goes to it. Every call that waits can be interrupted by
    Ctrl-C, which cancels what was waited for and leaves the Client as it was. When the scheduler goes away all
    calls raise ConnectionLost.
    """

    asynchronous = False
    _future = Future

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
        self.cluster = None if isinstance(address_or_cluster, str | None) else address_or_cluster
        """The cluster it was made with; it is not closed with the Client."""
        self._loop = process_loop()
        self.session = self._loop.run(reach, address_or_cluster, scheduler_file, token_file, tls, name, timeout)
        active.activate(self)

    def __enter__(self) -> Self:
        active.activate(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the results of all Futures are let go. Does nothing the second time."""
        active.deactivate(self)
        self._loop.run(self.session.aclose)

    def __repr__(self) -> str:
        return f"<Client {self.address}{': ' + self.session.ended if self.session.ended else ''}>"

    def get(
        self,
        dsk: Any,
        keys: Any,
        *,
        annotations: Mapping[Key, Mapping[str, Any]] | None = None,
        cache: MutableMapping[Key, Any] | None = None,
        callbacks: Any = None,
        rerun_exceptions_locally: bool | None = None,
        **options: Any,
    ) -> Any:
        """Run a dask graph on the cluster and return the values of ``keys``: see :func:`hetsched.get`.

        dask's callbacks are told of tasks a tenth of a second late or so, and in place of the value of one that was not
        asked for, which stays on its worker, get None. ``rerun_exceptions_locally`` brings the inputs of a task that
        failed here, which are made again for it. ``options`` are those of other schedulers, and have no effect:
        ``num_workers`` neither, since a cluster's workers run as many tasks at once as they have slots.
        """
        rerun = rerun_exceptions_locally
        if rerun is None:
            rerun = bool(dask.config.config.get("rerun_exceptions_locally"))
        with local_callbacks(callbacks) as found:
            built = build(dsk, keys, get_annotations(), annotations, cache, self.measured_sizes)
            values = self._get_followed(built, found, rerun) if found else self._get(built, rerun)
        if cache is not None:
            cache.update(values)
        return shaped(keys, values)

    def _get(self, built: Built, rerun: bool, following: Following | None = None) -> dict[Key, Any]:
        graph = self._order(built.tasks, built.places.values()) if built.tasks else None
        try:
            if following is not None and graph is not None:
                while (phases := self._loop.run(look, self.session, graph, following)) is not None:
                    following.take(phases)
            return self._loop.run(calls.get, self.session, built, graph, following.fetched if following else {})
        except BaseException as error:
            if graph is not None and not graph.over and self.session.ended is None:  # interrupted before it began
                self._loop.soon(lambda: self.session.orders.drop(graph, cancel=True))
            if rerun and graph is not None and graph.culprit is not None and graph.culprit[0] is error:
                self._run_again(built, graph.culprit[1])
            raise

    def _get_followed(self, built: Built, found: Any, rerun: bool) -> dict[Key, Any]:
        callbacks = Callbacks(built, found)
        with callbacks.around() as changed:
            following = Following(callbacks, changed, self.address)
            values = self._get(changed, rerun, following)
            following.end(values)
            return values

    def _run_again(self, built: Built, place: int) -> None:
        """Run the task that raised again in this thread, so that a debugger stops where it fails."""
        spec = built.tasks[place]
        inputs: dict[Key, int] = {d: d for d in spec.dependencies}
        found = self._get(with_known(built._replace(places=inputs, values={}), {}), False) if inputs else {}
        args = spec.args if spec.args is EACH else self.gather(spec.args)
        local = TaskSpec(spec.key, spec.func, args, self.gather(spec.kwargs), spec.dependencies)
        local([found[d] for d in spec.dependencies])

    def compute(
        self, *collections: Any, sync: bool = False, optimize_graph: bool = True, traverse: bool = True,
        **annotations: Any,
    ) -> Any:  # fmt: skip
        """Compute dask collections on the cluster: a Future for one, a list of Futures for several.

        A collection within a list or dict is found too. ``sync`` waits, and gives the values. ``annotations`` are for
        all tasks: ``client.compute(x, pool="A")``; one called ``annotations`` has them by key or prefix instead, as in
        :func:`hetsched.get`. Raises as :func:`hetsched.get` does.
        """
        futures = self._compute(collections, optimize_graph, traverse, annotations)
        return self.gather(futures) if sync else futures

    def gather(self, futures: Any, errors: Literal["raise", "skip"] = "raise") -> Any:
        """Replace Futures, one or nested in lists, tuples, sets and dicts, by their values, several at once.

        Raises the error of the first that fails; with ``errors="skip"`` those are left out (one that stands alone gives
        None).
        """
        return self._loop.run(calls.gather, self.session, futures, self._futures_in(futures), errors)

    def wait(
        self, futures: Sequence[Future], timeout: float | None = None, return_when: calls.ReturnWhen = "ALL_COMPLETED"
    ) -> calls.DoneAndNotDone:
        """See :func:`hetsched.wait`."""
        return self._loop.run(calls.wait, list(futures), timeout, return_when)

    def as_completed(self, futures: Any, *, with_results: bool = False) -> AsCompleted:
        """See :func:`hetsched.as_completed`."""
        return as_completed(futures, with_results=with_results)

    def who_has(self, futures: Any) -> dict[Key, list[str]]:
        """Tell by key which workers hold the results of Futures, one or nested lists of them."""
        return self._loop.run(calls.who_has, self.session, self._futures_in(futures))

    def scheduler_info(self) -> dict[str, Any]:
        """Tell what the scheduler knows of its workers and clients, with the terms agreed on each connection."""
        return self._loop.run(calls.info, self.session)

    def gpu_report(self) -> list[GpuRow]:
        """Tell what the scheduler thinks of the kinds of tasks that may be for the GPU, and how they were placed."""
        return self._loop.run(calls.gpu_report, self.session)

    def measured_sizes(self, prefixes: Iterable[str]) -> dict[str, float]:
        """Tell the mean bytes of a result for those kinds of tasks, told by prefix, that have run on the cluster."""
        return self._loop.run(calls.sizes, self.session, prefixes)

    def _measured(self) -> Any:
        return self.measured_sizes

    def explain(self, task: Future | Key) -> dict[str, Any]:
        """Tell what has become of a task and why: ``phase``, ``story``, ``restrictions``, ``inputs``, and ``text``.

        ``restrictions`` says for each demand of the task how many of how many workers meet it, ``workers`` who could
        run it, ``evidence`` why it is for its executor. A task is named by its Future, or by its key: of several with
        that key the newest is told of, those of this Client before those of others. Raises KeyError where the scheduler
        knows of none (any more).
        """
        return self._loop.run(calls.explain, self.session, task)

    def register_plugin(self, name: str) -> str:
        """Have the scheduler load a plugin, ``"module:Class"``; returns what it is called in ``scheduler_info()``.

        The scheduler imports the module, so it has to be installed there; nothing is sent but the name. Raises
        ProtocolError where that fails, and where the scheduler was not started with ``--client-plugins``
        (a :class:`LocalCluster` is).
        """
        return self._loop.run(calls.register_plugin, self.session, name)


def default_client() -> Client:
    """Return the Client that ``hetsched.get`` would use: the last one opened, else one for the configured address.

    Raises ValueError where there is neither.
    """
    client = configured_client()
    if client is None:
        raise ValueError("no hetsched.Client is open, and no hetsched.address is configured")
    return client


def configured_client() -> Client | None:
    """The last Client opened, else one for the configured address, made at the first call; None without either."""
    if active.clients:
        client: Client = active.clients[-1]
        return client
    address = active.configured_address()
    if address is None:
        return None
    with _lock:
        client_there = _configured.get(address)
        if client_there is None or client_there.session.ended is not None:
            client_there = _configured[address] = Client(address)
            active.deactivate(client_there)  # it is found by the address, and only while that is configured
        return client_there


_configured: dict[str, Client] = {}
_lock = threading.Lock()


def _forget_after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    _configured.clear()


os.register_at_fork(after_in_child=_forget_after_fork)
