"""`hetsched.explain`: what has become of a task, wherever `hetsched.get` goes."""

from __future__ import annotations

from typing import Any

from hetsched.client import active
from hetsched.client.client import configured_client
from hetsched.computing import embedded
from hetsched.core.explain import explain as explain_task
from hetsched.core.explain import find
from hetsched.core.scheduler import Scheduler
from hetsched.core.types import Key
from hetsched.report import last_report
from hetsched.worker.current import current_batch

__all__ = ["explain"]


def explain(key: Key) -> dict[str, Any]:
    """Tell what has become of a task and why, as :meth:`hetsched.Client.explain` does: ``text`` has it in words.

    On the cluster that :func:`hetsched.get` goes to, else in this process: there a task is known while its computation
    is under way (ask from another thread), and in the last report after that. Raises KeyError for one not known.
    """
    if active.clients or (current_batch() is None and active.configured_address() is not None):
        client = configured_client()
        if client is not None:
            return client.explain(key)

    def look(scheduler: Scheduler) -> dict[str, Any] | None:
        for ts in find(scheduler.state, key):
            return explain_task(scheduler.state, ts)
        return None

    known = embedded().ask(look)
    if known is not None:
        return known  # type: ignore[no-any-return]
    report = last_report()
    for row in report.tasks if report is not None else ():
        if row.key == key:
            lasted = f"from {row.start:.6f} s to {row.stop:.6f} s of its call"
            where = f"on the executor {row.executor!r} of {row.worker}"
            text = f"{key}: it ran {where}, {lasted}, and made {row.nbytes} bytes"
            return {**row._asdict(), "phase": "RELEASED", "text": text}
    raise KeyError(f"there is no task {key!r} under way in this process, nor in the last report")
