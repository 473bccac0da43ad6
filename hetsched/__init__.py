"""hetsched: a scheduler for dask graphs on machines that are not all alike.

``dask.compute(x, scheduler=hetsched.get)`` runs a graph in this process, with lanes for CPU, GPU and I/O work.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hetsched.compiled import install as _install

if TYPE_CHECKING:
    from hetsched import annotations, errors
    from hetsched.annotating import annotate, pool, task
    from hetsched.client.asynchronous import AsyncClient
    from hetsched.client.client import Client, default_client
    from hetsched.client.futures import AsyncFuture, Future
    from hetsched.client.holding import futures_of
    from hetsched.client.waiting import as_completed, wait
    from hetsched.computing import get
    from hetsched.core.graph_task import GraphTask, Task
    from hetsched.core.plugins import Plugin, TaskView, WorkerView
    from hetsched.explaining import explain
    from hetsched.local_cluster import LocalCluster
    from hetsched.plugins import register_plugin, unregister_plugin
    from hetsched.pools.collection import get_pool, propagate_pools_in_collection
    from hetsched.pools.drawing import visualize_pools
    from hetsched.pools.report import PoolReport, PoolRow, pool_report
    from hetsched.pools.switch import propagate_pools
    from hetsched.report import Report, TaskRow, last_report
    from hetsched.worker.inside import TaskInfo, current_task

__all__ = [
    "AsyncClient", "AsyncFuture", "Client", "Future", "GraphTask", "LocalCluster", "Plugin", "PoolReport", "PoolRow",
    "Report", "Task", "TaskInfo", "TaskRow", "TaskView", "WorkerView", "annotate", "annotations", "as_completed",
    "current_task", "default_client", "errors", "explain", "futures_of", "get", "get_pool", "last_report", "pool",
    "pool_report", "propagate_pools", "propagate_pools_in_collection", "register_plugin", "task", "unregister_plugin",
    "visualize_pools", "wait",
]  # fmt: skip

_install()  # before any other module of ours is imported

_HOMES = {
    "AsyncClient": "client.asynchronous",
    "AsyncFuture": "client.futures",
    "Client": "client.client",
    "Future": "client.futures",
    "GraphTask": "core.graph_task",
    "LocalCluster": "local_cluster",
    "Plugin": "core.plugins",
    "PoolReport": "pools.report",
    "PoolRow": "pools.report",
    "Report": "report",
    "Task": "core.graph_task",
    "TaskInfo": "worker.inside",
    "TaskRow": "report",
    "TaskView": "core.plugins",
    "WorkerView": "core.plugins",
    "annotate": "annotating",
    "as_completed": "client.waiting",
    "current_task": "worker.inside",
    "default_client": "client.client",
    "explain": "explaining",
    "futures_of": "client.holding",
    "get": "computing",
    "get_pool": "pools.collection",
    "last_report": "report",
    "pool": "annotating",
    "pool_report": "pools.report",
    "propagate_pools": "pools.switch",
    "propagate_pools_in_collection": "pools.collection",
    "register_plugin": "plugins",
    "task": "annotating",
    "unregister_plugin": "plugins",
    "visualize_pools": "pools.drawing",
    "wait": "client.waiting",
}


def __getattr__(name: str) -> Any:
    # Loaded at first use (PEP 562): `import hetsched.core` must load neither dask nor trio.
    home = _HOMES.get(name)
    if home is None:
        if name in __all__:
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
