"""hetsched: a scheduler for dask graphs on machines that are not all alike.

``dask.compute(x, scheduler=hetsched.get)`` runs a graph in this process, with lanes for CPU, GPU and I/O work.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hetsched.compiled import install as _install

if TYPE_CHECKING:
    from hetsched import errors
    from hetsched.annotating import annotate, task
    from hetsched.computing import get
    from hetsched.report import Report, TaskRow, last_report

__all__ = ["Report", "TaskRow", "annotate", "errors", "get", "last_report", "task"]

_install()  # before any other module of ours is imported

_HOMES = {
    "Report": "report",
    "TaskRow": "report",
    "annotate": "annotating",
    "get": "computing",
    "last_report": "report",
    "task": "annotating",
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
