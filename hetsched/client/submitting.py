"""What the Client and the AsyncClient have in common: all that does not wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar
from uuid import uuid4

from dask.base import compute, get_annotations, persist
from dask.utils import funcname

from hetsched.comm.pickling import itself
from hetsched.core.annotations import combine, resolve, validate, varies
from hetsched.core.types import Key, TaskSpec
from hetsched.graph.build import Built, build
from hetsched.graph.carried import carried
from hetsched.graph.groups import Measured
from hetsched.provenance import call_site

from .broadcasting import copies_of, spread
from .futures import BaseFuture
from .joining import futures_in, join
from .results import Ordered
from .session import Session
from .sharing import shared_values

__all__ = ["Submitting"]

F = TypeVar("F", bound=BaseFuture)


class Submitting(Generic[F]):
    """Submits tasks and graphs. In these calls ``workers``, ``pool``, ``resources``, ``priority``, ``retries`` and
    ``executor`` annotate the tasks as :func:`hetsched.annotate` does, and other keywords are the function's.
    """

    session: Session
    _future: Callable[[Any, Any, Any], F]

    @property
    def address(self) -> str:
        """The scheduler's address."""
        return self.session.address

    def submit(
        self,
        func: Callable[..., Any],
        /,
        *args: Any,
        key: Key = None,
        workers: Any = None,
        pool: Any = None,
        resources: Mapping[str, float] | None = None,
        priority: float | None = None,
        retries: int | None = None,
        executor: str | None = None,
        annotations: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> F:
        """Have ``func(*args, **kwargs)`` run on the cluster; Futures among the arguments are replaced by their values.

        ``key`` is a name for people: two tasks of the same name are two tasks. ``annotations`` has what there is no
        keyword for: ``annotations={"job": "nightly"}``. Raises what pickling the arguments
        raises, AnnotationError, and ConnectionLost.
        """
        said = (workers, pool, resources, priority, retries, executor)
        note = _note(func, _said(said, annotations))
        key = f"{funcname(func)}-{uuid4().hex}" if key is None else key
        (future,) = self._submit([TaskSpec(key, func, args, kwargs or None, (), _of_key(note, key))])
        return future

    def map(
        self,
        func: Callable[..., Any],
        /,
        *iterables: Iterable[Any],
        key: str | None = None,
        workers: Any = None,
        pool: Any = None,
        resources: Mapping[str, float] | None = None,
        priority: float | None = None,
        retries: int | None = None,
        executor: str | None = None,
        annotations: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> list[F]:
        """Have ``func`` run on the cluster for the items of iterables, as the builtin ``map`` does; returns Futures.

        ``key`` is the name that all these tasks share. Raises as :meth:`submit` does.
        """
        said = (workers, pool, resources, priority, retries, executor)
        note = _note(func, _said(said, annotations))
        name = f"{funcname(func)}-{uuid4().hex}" if key is None else key
        rows = zip(*iterables, strict=False)
        named = kwargs or None
        each = note is not None and varies(note)
        return self._submit([
            TaskSpec((name, n), func, args, named, (), _of_key(note, (name, n)) if each else note)
            for n, args in enumerate(rows)
        ])  # fmt: skip

    def scatter(self, data: Any, *, workers: Any = None, pool: Any = None, broadcast: bool | int = False) -> Any:
        """Send values to workers; a list, tuple, set or dict of them gives Futures in its shape, else a Future.

        ``broadcast`` has each value copied to so many workers, to all that are there if it is True; of those that
        ``workers`` and ``pool`` allow. Copies are made in the background, from worker to worker.
        """
        copies = copies_of(broadcast) if broadcast is not False else 1
        note = _note(None, _said((workers, pool), None))
        made = self._scattered(data, note)
        if copies != 1:
            found: dict[BaseFuture, None] = {}
            futures_in(made, found)
            self.session.begin_soon(spread, self.session, self._submit, list(found), copies, note or {})
        return made

    def _scattered(self, data: Any, note: dict[str, Any] | None) -> Any:
        if isinstance(data, dict):
            return dict(zip(data, self._scatter([*data.values()], note), strict=True))
        if type(data) in (list, tuple, set):
            return type(data)(self._scatter([*data], note))
        return self._scatter([data], note)[0]

    def _scatter(self, values: Sequence[Any], note: dict[str, Any] | None) -> list[F]:
        name = f"scatter-{uuid4().hex}"
        return self._submit([TaskSpec((name, n), itself, (v,), None, (), note) for n, v in enumerate(values)])

    def persist(
        self, collections: Any, optimize_graph: bool = True, *, workers: Any = None, pool: Any = None,
        resources: Mapping[str, float] | None = None, priority: float | None = None, retries: int | None = None,
        executor: str | None = None, annotations: Mapping[Key, Mapping[str, Any]] | None = None, **others: Any,
    ) -> Any:  # fmt: skip
        """Have dask collections computed and the results stay on the workers; returns collections of those.

        Takes one or a list of them, and returns at once, before they are computed. ``annotations`` are by key or prefix
        as in :func:`hetsched.get`; ``others`` annotate all tasks. ``dask.persist(x, scheduler=client)`` does the same.
        Raises as :func:`hetsched.get` does for a graph that cannot be run.
        """
        said = {name: value for name, value in others.items() if name not in _NO_ANNOTATIONS}
        note = _said((workers, pool, resources, priority, retries, executor), said)
        several = isinstance(collections, list | tuple | set)
        given = [*collections] if several else [collections]
        schedule = self._scheduling(note, annotations)
        done = _persist(*given, traverse=False, optimize_graph=optimize_graph, scheduler=schedule)
        return list(done) if several else done[0]

    def cancel(self, futures: Any) -> None:
        """Give Futures up, one or nested lists of them: see :meth:`hetsched.Future.cancel`."""
        self.session.give_up([future._result for future in self._futures_in(futures)])  # noqa: SLF001 - of this room

    def _compute(self, collections: Sequence[Any], optimize_graph: bool, traverse: bool, said: dict[str, Any]) -> Any:
        by_key = said.pop("annotations", None)
        schedule = self._scheduling(validate(said, per_key=True) or None, by_key)
        done = _compute(*collections, optimize_graph=optimize_graph, traverse=traverse, scheduler=schedule)
        return done[0] if len(collections) == 1 else list(done)

    def _scheduling(
        self, note: dict[str, Any] | None, by_key: Mapping[Key, Mapping[str, Any]] | None
    ) -> Callable[..., list[Any]]:
        """A ``get`` that returns Futures. A plain function: of a method, dask would look for its object's persist."""

        def get(dsk: Any, keys: Any, **kwargs: Any) -> list[Any]:
            around = combine(get_annotations(), note) if note else get_annotations()
            built = build(dsk, keys, around, by_key, measured=self._measured())
            futures = self._futures_of(built)
            return [futures[key] for key in keys]

        return get

    def _measured(self) -> Measured | None:
        """What tells the sizes that were measured, where it can be asked from the thread that builds graphs."""
        return None

    def _futures_of(self, built: Built) -> dict[Key, Any]:
        """A Future for each key that was asked for; what is a plain value already becomes the result of a task."""
        tasks = [*built.tasks]
        places = dict(built.places)
        futures: dict[Key, Any] = {}
        for key, value in built.values.items():
            if isinstance(value, BaseFuture):
                futures[key] = value
            else:
                places[key] = len(tasks)
                tasks.append(TaskSpec(key, itself, (value,)))
        wanted = list(dict.fromkeys(places.values()))
        made = dict(zip(wanted, self._submit(tasks, wanted), strict=True))
        futures.update((key, made[place]) for key, place in places.items())
        return futures

    def _submit(self, tasks: Sequence[TaskSpec], wanted: Sequence[int] | None = None) -> list[F]:
        """Submit a graph; returns Futures of what is wanted, of all if that is not said."""
        if not tasks:
            return []
        graph = self._order(tasks, range(len(tasks)) if wanted is None else wanted)
        return [self._future(self.session, result, self) for result in graph.results.values()]

    def _order(self, tasks: Sequence[TaskSpec], wanted: Iterable[int]) -> Ordered:
        values = shared_values(tasks)
        shared = dict(zip(map(id, values), self._scatter(values, None), strict=True)) if values else {}
        joined, futures = join(tasks, shared)
        self._check_own(futures)
        return self.session.submit(joined, wanted, [future._result for future in futures], futures)  # noqa: SLF001

    def _check_own(self, futures: Iterable[BaseFuture]) -> None:
        for future in futures:
            if future._session is not self.session:  # noqa: SLF001 - of this room
                raise ValueError(f"{future!r} belongs to another Client: gather it there, and scatter the value here")

    def _futures_in(self, obj: Any) -> dict[BaseFuture, None]:
        found: dict[BaseFuture, None] = {}
        futures_in(obj, found)
        self._check_own(found)
        return found


def _said(given: Iterable[Any], others: Mapping[str, Any] | None) -> dict[str, Any]:
    """The annotations given with a call: the keywords, in the order of their names, and others."""
    keywords = {name: value for name, value in zip(_NAMES, given, strict=False) if value is not None}
    return validate({**(validate(others, per_key=True) if others else {}), **keywords}, per_key=True)


def _note(func: Any, said: dict[str, Any]) -> dict[str, Any] | None:
    """The annotations of a task: those around, those its function carries, those given with the call."""
    note = validate(get_annotations(), per_key=True)
    if func is not None and (own := carried(func)):
        note = combine(note, own)
    note = combine(note, said)
    if note and "provenance" not in said and (site := call_site()):
        return {**note, "provenance": site}
    return note or None


def _of_key(note: dict[str, Any] | None, key: Key) -> dict[str, Any] | None:
    return resolve(note, key) if note and varies(note) else note


_persist: Any = persist
_compute: Any = compute
_NAMES = ("workers", "pool", "resources", "priority", "retries", "executor")
_NO_ANNOTATIONS = frozenset(
    {"cache", "callbacks", "chunksize", "get_id", "num_workers", "raise_exception", "rerun_exceptions_locally"}
)
"""Options of other schedulers, which ``dask.persist`` passes on."""
