"""Plugins: other people's code that has a say in where tasks run, and is told what becomes of them.

It is code that this library has not seen, so there is one place where it is called, and whatever it raises ends there:
it is counted and said, and scheduling goes on as if the plugin had no opinion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from .needs import Needs
from .remembered import Remembered
from .state import State, TaskState
from .types import Capacity, ClientId, Key, TaskId, WorkerId

__all__ = ["MOST_NAMES", "Plugin", "Plugins", "TaskView", "WorkerView"]

MOST_NAMES: Final = 100_000
"""So many of the names that a plugin gives are looked at."""

_SAID_IN_FULL: Final = 3  # errors of a plugin; of more, the 10th, the 100th, and so on


class TaskView(NamedTuple):
    """A task as plugins see it: to be looked at and not to be changed.

    ``annotations`` has all that was said of the task, also under names that are not in hetsched's vocabulary. ``id`` is
    one of its own in this scheduler; keys of different clients may be equal.
    """

    key: Key
    prefix: str
    annotations: Mapping[str, Any]
    id: TaskId
    client: ClientId


class WorkerView(NamedTuple):
    """A worker as plugins see it: its name, its pool (None: none), slots by executor, resources, and its Python."""

    name: WorkerId
    pool: str | None
    executors: Mapping[str, int]
    resources: Mapping[str, float]
    python: str | None


class Plugin:
    """Base class of plugins. What it does not override does nothing, and costs nothing.

    The methods are called in the scheduler's own thread, so while one runs nothing else is scheduled. An exception in
    one of them is logged and counted, and passed over.
    """

    def valid_workers(self, task: TaskView, workers: Sequence[WorkerView]) -> Iterable[WorkerId | WorkerView] | None:
        """Say on which of the workers, by name, a task may run as far as this plugin is concerned; None: on any.

        It is asked for each task when its inputs are there (or a worker is making the last of them), and about every
        task that still waits for a worker when workers come, go or change, or where it allowed none, again after
        a while (a second or more). What the task's own annotations demand holds as well. Where no worker is left the
        task waits.
        """
        return None

    def task_moved(self, task: TaskView, phase: str, why: str, now: float) -> None:
        """Hear that a task came to a phase: WAITING, READY, ASSIGNED, MEMORY, RELEASED or FAILED.

        ``why`` is a word on the cause, of ASSIGNED and MEMORY the worker's name; ``now`` is in seconds on the
        scheduler's clock. RELEASED is the last that is heard of a task, unless its result is needed once more.
        """

    def worker_joined(self, worker: WorkerView) -> None:
        """Hear that there is a worker, or that one can do something else than before."""

    def worker_left(self, worker: WorkerView) -> None:
        """Hear that a worker is there no more."""


class _Trouble:
    __slots__ = ("count", "last")

    def __init__(self) -> None:
        self.count = 0
        self.last = ""


class Plugins:
    """The plugins of one scheduler. ``say`` is called with a sentence and an exception where one has raised it.

    They may be added and removed in another thread than the scheduler's: dicts are replaced, and never changed.
    """

    def __init__(self, say: Callable[[str, BaseException], None] | None = None) -> None:
        self.narrows = False
        self.again = True
        self._say = say
        self._state: State | None = None
        self._plugins: dict[str, Plugin] = {}
        self._narrowing: dict[str, Plugin] = {}
        self._watching: dict[str, Plugin] = {}
        self._troubles: dict[str, _Trouble] = {}
        self._views: dict[WorkerId, WorkerView] = {}
        self._workers: tuple[WorkerView, ...] = ()
        self._noted: list[tuple[list[TaskState], str, str, float]] = []
        self._narrowed = False
        self._known: Remembered[Needs] = Remembered()
        """What tasks demand after plugins were asked, so that those who demand the same share it."""

    def steer(self, state: State, again: bool = True) -> None:
        """Belong to a scheduler, whose state this is. See :class:`hetsched.core.steering.Steering` for ``again``."""
        self._state = state
        self.again = again
        self._noted = []
        self._sort()

    def add(self, plugin: Plugin, name: str | None = None) -> str:
        """Take a plugin in, whose opinion counts from the next event on; return what it is called."""
        first = name = name or type(plugin).__name__
        serial = 1
        while name in self._plugins:
            serial += 1
            name = f"{first}-{serial}"
        self._troubles = {**self._troubles, name: _Trouble()}
        self._plugins = {**self._plugins, name: plugin}
        self._sort()
        for worker in self._workers:
            self._call(name, plugin, "worker_joined", worker)
        return name

    def remove(self, plugin: Plugin) -> None:
        """Let a plugin go; nothing if it is not there. It is for the caller to see to an event."""
        self._plugins = {name: known for name, known in self._plugins.items() if known is not plugin}
        self._sort()

    def report(self) -> dict[str, dict[str, Any]]:
        """Of each plugin that is or was here, by name: how often it raised something, and what the last was."""
        return {name: {"errors": trouble.count, "last": trouble.last} for name, trouble in self._troubles.items()}

    def __len__(self) -> int:
        return len(self._plugins)

    def _sort(self) -> None:
        self._narrowing = {n: p for n, p in self._plugins.items() if _overrides(p, "valid_workers")}
        self._watching = {n: p for n, p in self._plugins.items() if _overrides(p, "task_moved")}
        # A task that waits because of a plugin which was removed is to be set free.
        self.narrows = bool(self._narrowing or self._narrowed)
        if self._state is not None:
            self._state.steering = self if self._plugins or self.narrows else None
            self._look(self._state.capacities())

    # What the mind calls

    def narrow(self, task: TaskState) -> Needs:
        """See :class:`hetsched.core.steering.Steering`; so for what follows."""
        needs = task.needs
        whole = needs if needs.whole is None else needs.whole
        if not self._workers:
            return whole
        view = _view(task)
        only = []
        for name, plugin in self._narrowing.items():
            allowed = self._call(name, plugin, "valid_workers", view, self._workers)
            if allowed is not None:
                only.append((name, allowed))
        if not only:
            return whole
        said = tuple(only)
        known = self._known.get((whole, said))
        if known is None:
            known = self._known[whole, said] = whole.narrowed(said)
            self._narrowed = True
        return known

    def moved(self, tasks: Sequence[TaskState], phase: str, cause: str, now: float) -> None:
        """Note a change of phase, for plugins that care."""
        if self._watching:
            self._noted.append(([*tasks], phase, cause, now))

    def changed(self, workers: Mapping[WorkerId, Capacity]) -> None:
        """Note which workers there are, and tell those who care of the difference."""
        before = self._views
        self._look(workers)
        for worker in before.values():
            if worker.name not in self._views:
                self._tell_all("worker_left", worker)
        for worker in self._workers:
            if before.get(worker.name) != worker:
                self._tell_all("worker_joined", worker)

    def tell(self) -> None:
        """Tell of tasks that were moved, in the order in which they were."""
        noted, self._noted = self._noted, []
        for tasks, phase, cause, now in noted:
            for task in tasks:
                view = _view(task)
                for name, plugin in self._watching.items():
                    self._call(name, plugin, "task_moved", view, phase, cause, now)

    def _tell_all(self, hook: str, *args: Any) -> None:
        for name, plugin in self._plugins.items():
            if _overrides(plugin, hook):
                self._call(name, plugin, hook, *args)

    def _look(self, workers: Mapping[WorkerId, Capacity]) -> None:
        self._views = {
            name: WorkerView(name, c.pool, MappingProxyType(c.executors), MappingProxyType(c.resources), c.python)
            for name, c in workers.items()
        }
        self._workers = tuple(self._views.values())

    def _call(self, name: str, plugin: Plugin, hook: str, *args: Any) -> tuple[WorkerId, ...] | None:
        """Call a plugin: the only place where that happens."""
        try:
            found = getattr(plugin, hook)(*args)
            return None if hook != "valid_workers" or found is None else self._names(found)
        except (Exception, SystemExit) as error:
            trouble = self._troubles[name]
            trouble.count = count = trouble.count + 1
            trouble.last = f"{hook}: {type(error).__name__}: {_text(error)}"
            if self._say is not None and (count <= _SAID_IN_FULL or count == 10 ** (len(str(count)) - 1)):
                times = "" if count == 1 else f", which makes {count} errors of it"
                self._say(f"the plugin {name!r} raised {type(error).__name__} in {hook}{times}", error)
            return None

    def _names(self, found: Any) -> tuple[WorkerId, ...]:
        """The workers that a plugin has named, in the order in which they came. Raises TypeError."""
        if isinstance(found, str | bytes):
            raise TypeError(f"valid_workers gives workers or their names in a list, or None, not {found!r:.200}")
        names = {item.name if isinstance(item, WorkerView) else item for item in islice(found, MOST_NAMES)}
        for name in names:
            if not isinstance(name, str):
                raise TypeError(f"valid_workers gives workers or their names, not {name!r:.200}")
        return tuple(worker.name for worker in self._workers if worker.name in names)


def _overrides(plugin: Plugin, hook: str) -> bool:
    return getattr(type(plugin), hook, None) is not getattr(Plugin, hook)


def _view(task: TaskState) -> TaskView:
    return TaskView(task.key, task.prefix.name, MappingProxyType(task.annotations), task.id, task.graph.client)


def _text(error: BaseException) -> str:
    try:
        return str(error)[:500]
    except Exception:  # its own code, too
        return "an error that cannot be shown"
