"""What a person's settings make of the search for GPU tasks: whether to look, and whether to remember."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hetsched import config
from hetsched.core.makers import Maker
from hetsched.core.types import TaskSpec
from hetsched.core.verdicts import lessons
from hetsched.gpu.learned import Learned

if TYPE_CHECKING:  # the scheduler's process uses this module too, and is not to load what a worker loads
    from hetsched.embedded.cluster import Embedded

__all__ = ["Seen", "keep", "learned", "look", "wanted"]

Seen = tuple[Sequence[Maker], Sequence[int]]
"""The functions of a graph, and for each of its tasks the place of its own among them."""

_files: dict[str | None, Learned] = {}
"""By the user's cache directory, which a program may change."""
_lock = threading.Lock()


def wanted() -> bool:
    """Whether GPU tasks are to be looked for: the setting ``hetsched.gpu.detect``."""
    return bool(config.get("gpu.detect"))


def learned() -> Learned | None:
    """The file of what was learned; None where the setting ``hetsched.gpu.learn`` says that there shall be none."""
    if not config.get("gpu.learn"):
        return None
    folder = os.environ.get("XDG_CACHE_HOME")
    found = _files.get(folder)
    if found is None:
        with _lock:
            found = _files.setdefault(folder, Learned())
    return found


def look(tasks: Sequence[TaskSpec], cluster: Embedded) -> Seen:
    """Look into the functions of a graph's tasks, and recall what was learned of them; nothing where that is off.

    Where no device was found for the ``cluster`` that they are to run on, code whose libraries are not there says
    nothing. What a person has had forgotten since the last look, it forgets.
    """
    if not wanted():
        return (), ()
    from hetsched.gpu.usable import credible
    from hetsched.graph.makers import Makers

    makers, made_by = Makers().take(tasks)
    if cluster.pretends:
        makers = [m._replace(evidence=credible(m.evidence)) if m.evidence else m for m in makers]
    file = learned()
    if file is None:
        return makers, made_by
    found = file.recall(makers)
    patterns, last = file.forgotten(cluster.told)
    if patterns:
        cluster.forget(patterns, last)
    return found, made_by


def keep(cluster: Embedded, everything: bool = False) -> None:
    """Write down what a cluster has learned since the last time, or all of it."""
    told = cluster.told
    found = lessons(cluster.cases(), everything)
    file = learned() if found else None
    if file is not None:
        file.note(found, told)
