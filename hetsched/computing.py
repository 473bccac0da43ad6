"""`hetsched.get`: run a dask graph in this process."""

from __future__ import annotations

import atexit
import operator
import os
import threading
import warnings
from collections.abc import Iterable, Mapping
from time import perf_counter
from typing import Any

import dask
from dask.base import get_annotations
from dask.callbacks import Callback, local_callbacks
from dask.sizeof import sizeof
from dask.system import CPU_COUNT

from hetsched import config
from hetsched.client import active
from hetsched.core.annotations import executor_of
from hetsched.core.types import Key
from hetsched.detection import keep, look
from hetsched.embedded.cluster import WORKER, Embedded
from hetsched.gpu.devices import count_devices
from hetsched.graph.build import Built, build
from hetsched.outcome import run, shaped, values_of
from hetsched.plugins import here
from hetsched.report import Report, remember
from hetsched.watch import Watch
from hetsched.worker.current import current_batch, leave

__all__ = ["embedded", "get", "measured_sizes"]

_lock = threading.Lock()
_cluster: Embedded | None = None

_UNDERSTOOD_ELSEWHERE = frozenset({"optimize_graph", "traverse", "pool", "chunksize", "get_id", "raise_exception"})
"""Options of dask's own schedulers that mean nothing here and change no result."""


def get(
    dsk: Any,
    keys: Any,
    *,
    num_workers: int | None = None,
    callbacks: Any = None,
    annotations: Mapping[Key, Mapping[str, Any]] | None = None,
    rerun_exceptions_locally: bool | None = None,
    cache: Any = None,
    **kwargs: Any,
) -> Any:
    """Run a dask graph and return the values of ``keys``, in their shape (a list gives a tuple).

    It runs on the cluster of the last :class:`hetsched.Client` opened, else of the scheduler that
    ``HETSCHED_ADDRESS`` or dask's configuration (``hetsched.address``) names, else in this process.

    Args:
        dsk: an expression, a HighLevelGraph or a mapping, as dask passes it; it is not changed.
        keys: a key, or a list of keys, nested at will.
        num_workers: how many CPU tasks of this graph may run at once in this process (a cluster has as many slots as
            its workers); default dask's ``num_workers`` setting, else the CPUs this process may use.
        callbacks: dask callbacks for this call; default those that are active.
        annotations: per key or prefix, e.g. ``{"load": {"executor": "io"}}``; stronger than any in the graph.
        rerun_exceptions_locally: run a task that failed again in the calling thread, for a debugger; default dask's
            setting of that name.
        cache: a mapping with values of keys already known.
        kwargs: options of other schedulers; those nobody knows are warned about.

    Raises:
        the exception of the first task that fails, as it was raised, with a note that names the task and where it ran;
        GraphError, AnnotationError or NoWorkerError at once for a graph that cannot be run. KeyboardInterrupt cancels
        the computation: what has not started never will, and later calls are not affected.
    """
    if active.clients or active.ENVIRONMENT_KEY in active.ENVIRONMENT or "hetsched" in dask.config.config:
        client = _client()
        if client is not None:
            return client.get(
                dsk, keys, annotations=annotations, cache=cache, callbacks=callbacks,
                rerun_exceptions_locally=rerun_exceptions_locally, **kwargs,
            )  # fmt: skip
    if kwargs:
        _warn_of_unknown(kwargs)
    cpus = _slots(num_workers, kwargs.get("pool"))
    settings = dask.config.config
    rerun = settings.get("rerun_exceptions_locally") if rerun_exceptions_locally is None else rerun_exceptions_locally
    cache = settings.get("cache") if cache is None else cache
    started = perf_counter()
    cluster = embedded()
    if callbacks is None and not Callback.active and not rerun:
        built = build(dsk, keys, get_annotations(), annotations, cache, cluster.measured_sizes)
        _warn_of_pretending(cluster, built)
        if cache is not None:
            cache.update(built.literals)
        call = run(cluster, built, cpus, None, look(built.tasks, cluster))
        values = values_of(built, call)
    else:
        with local_callbacks(callbacks) as found:
            built = build(dsk, keys, get_annotations(), annotations, cache, cluster.measured_sizes)
            _warn_of_pretending(cluster, built)
            if cache is not None:
                cache.update(built.literals)
            call, values = Watch(built, found, bool(rerun)).run(cluster, cpus)
    cases = cluster.cases()
    if cases:
        keep(cluster)
    remember(Report(built.tasks, call, WORKER, started, cluster.pretends, here().report(), cases))
    if cache is not None:
        cache.update(values)
    return shaped(keys, values)


def measured_sizes(prefixes: Iterable[str]) -> Mapping[str, float]:
    """The bytes of one result of those kinds of tasks that ran before, where `hetsched.get` would run them now."""
    client = _client()
    if client is not None:
        return client.measured_sizes(prefixes)  # type: ignore[no-any-return]
    return _cluster.measured_sizes(prefixes) if _cluster is not None else {}


def _client() -> Any:
    """The Client that this call goes to, None for the cluster in this process."""
    if not active.clients and (current_batch() is not None or active.configured_address() is None):
        return None  # a task's own computations stay where it runs
    from hetsched.client.client import configured_client

    return configured_client()


def _warn_of_unknown(options: Mapping[str, Any]) -> None:
    unknown = [name for name in options if name not in _UNDERSTOOD_ELSEWHERE]
    if unknown:
        names = ", ".join(sorted(unknown))
        warnings.warn(f"hetsched.get does not know these options, they have no effect: {names}", stacklevel=3)


def _slots(num_workers: Any, pool: Any) -> int | None:
    """How many CPU tasks may run at once: as asked for, or as many as a pool that other schedulers would use has."""
    settings = dask.config.config
    given = settings.get("num_workers") if num_workers is None else num_workers
    if given is None:
        pool = settings.get("pool") if pool is None else pool
        given = getattr(pool, "_max_workers", None) or getattr(pool, "_processes", None)
    if given is None:
        return None
    slots = operator.index(given)
    if slots < 1:
        raise ValueError(f"num_workers must be 1 or more, not {given!r}")
    return slots


def _shorten_tracebacks() -> None:
    """Add our own frames to those that dask leaves out of tracebacks."""
    patterns = dask.config.get("admin.traceback.shorten", None)
    if isinstance(patterns, list) and _OUR_FRAMES not in patterns:
        patterns.append(_OUR_FRAMES)


_OUR_FRAMES = r"hetsched[\\\/](computing|outcome|watch|callbacks|embedded|client[\\\/]\w+)\.py"
_shorten_tracebacks()

_pretending_told = False


def _warn_of_pretending(cluster: Embedded, built: Built) -> None:
    """Say, once in a process, that there is no device for GPU tasks."""
    global _pretending_told
    if _pretending_told or not cluster.pretends or not any(executor_of(note) == "gpu" for note in built.annotations):
        return
    if any(executor_of(spec.annotations) == "gpu" for spec in built.tasks if spec.annotations):
        _pretending_told = True
        warnings.warn(
            "no GPU was found: tasks for the GPU run one at a time, on a lane without a device", stacklevel=3
        )


# The one embedded cluster of this process


def embedded() -> Embedded:
    """Return this process's embedded cluster, started at the first call."""
    global _cluster
    cluster = _cluster
    if cluster is None:
        with _lock:
            cluster = _cluster
            if cluster is None:
                cluster = _cluster = Embedded(
                    CPU_COUNT, count_devices(), sizeof, here(), config.get("scheduler.policy")
                )
    return cluster


def _close() -> None:
    global _cluster
    cluster, _cluster = _cluster, None
    if cluster is not None:
        keep(cluster, everything=True)
        cluster.close()


def _forget_after_fork() -> None:
    """A child has none of its parent's threads: it starts afresh."""
    global _cluster, _lock
    _cluster = None
    _lock = threading.Lock()
    leave(None)


atexit.register(_close)
os.register_at_fork(after_in_child=_forget_after_fork)
