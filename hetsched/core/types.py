"""The words every room uses: keys, ids, what to run, what a worker can do."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from .capacity import ANY_POOL, MOST_AHEAD, Capacity
from .each import EACH

__all__ = [
    "ANY_POOL",
    "EACH",
    "MOST_AHEAD",
    "Capacity",
    "ClientId",
    "Key",
    "Outcome",
    "Ref",
    "TaskId",
    "TaskSpec",
    "WorkerId",
    "prefix_of",
]

Key: TypeAlias = Hashable
"""What a person calls a task: a string, a number or a tuple of such."""

TaskId: TypeAlias = int
"""What hetsched calls a task: unique in one scheduler, and smaller means submitted (or ordered) earlier."""

WorkerId: TypeAlias = str
ClientId: TypeAlias = str

Outcome: TypeAlias = "tuple[TaskId, int, float, float, int, int]"
"""One finished task: id, attempt, start and stop (seconds on the worker's clock), nbytes, cuda_nbytes of its result."""

class Ref:
    """Stands in a task's arguments for the result of its ``position``-th dependency."""

    __slots__ = ("position",)

    def __init__(self, position: int) -> None:
        self.position = position

    def __repr__(self) -> str:
        return f"Ref({self.position})"

    def __eq__(self, other: object) -> bool:
        return type(other) is Ref and other.position == self.position

    def __hash__(self) -> int:
        return hash((Ref, self.position))

    def __reduce__(self) -> tuple[type[Ref], tuple[int]]:
        return Ref, (self.position,)


class TaskSpec:
    """What to run: a function, its arguments, and the tasks whose results it reads.

    ``dependencies`` are positions in the graph the spec belongs to, all smaller than the spec's own. ``args`` and the
    values of ``kwargs`` are passed as they are, except a :class:`Ref`, which is replaced by a dependency's result;
    ``args is EACH`` means all dependencies in order. ``annotations`` is a dict shared by the tasks of one layer, or
    None. The scheduler reads ``key``, ``dependencies`` and ``annotations`` and never looks into the rest.
    """

    __slots__ = ("annotations", "args", "dependencies", "func", "key", "kwargs")

    def __init__(
        self,
        key: Key,
        func: Callable[..., Any],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        dependencies: Sequence[int] = (),
        annotations: Mapping[str, Any] | None = None,
    ) -> None:
        self.key = key
        self.func = func
        self.args = args
        self.kwargs = kwargs
        self.dependencies = dependencies
        self.annotations = annotations

    def __repr__(self) -> str:
        return f"TaskSpec({self.key!r}, dependencies={list(self.dependencies)})"

    def __reduce__(self) -> tuple[Callable[..., TaskSpec], tuple[Any, ...]]:
        # EACH is recognised by identity, so it must not be copied by a pickle.
        args = None if self.args is EACH else self.args
        return _spec, (self.key, self.func, args, self.kwargs, self.dependencies, self.annotations)

    def loaded(self) -> TaskSpec:
        """Return a spec whose function and arguments are here: itself, unless it is one that was sent."""
        return self

    def __call__(self, inputs: Sequence[Any]) -> Any:
        """Run the task on the results of its dependencies, given in their order."""
        args = self.args
        if args is EACH:
            return self.func(*inputs)
        call = [inputs[a.position] if type(a) is Ref else a for a in args]
        if self.kwargs:
            named = {k: inputs[a.position] if type(a) is Ref else a for k, a in self.kwargs.items()}
            return self.func(*call, **named)
        return self.func(*call)


def _spec(
    key: Key,
    func: Callable[..., Any],
    args: tuple[Any, ...] | None,
    kwargs: dict[str, Any] | None,
    dependencies: Sequence[int],
    annotations: Mapping[str, Any] | None,
) -> TaskSpec:
    return TaskSpec(key, func, EACH if args is None else args, kwargs, dependencies, annotations)


_HEX: Final = frozenset("0123456789abcdef")
_names: Final[dict[str, str]] = {}


def prefix_of(key: Key) -> str:
    """Name the kind of task a key belongs to: its first word without token and number.

    >>> prefix_of(("sum-aggregate-0f1e2d3c4b5a69788796a5b4c3d2e1f0", 0, 1))
    'sum-aggregate'
    >>> prefix_of("add-7300ad64-b988-4048-9c3f-6d1f2a3b4c5d")
    'add'
    >>> prefix_of("inc-12"), prefix_of("x7"), prefix_of(3)
    ('inc', 'x', 'int')
    """
    in_tuple = False
    while type(key) is tuple and key:
        key = key[0]
        in_tuple = True
    if type(key) is not str:
        return type(key).__name__
    if not in_tuple:
        return _without_token(key)
    # The first item of a tuple key is the name of a whole layer, so it is worth remembering.
    name = _names.get(key)
    if name is None:
        if len(_names) >= 10_000:
            _names.clear()
        name = _names[key] = _without_token(key)
    return name


def _without_token(name: str) -> str:
    if len(name) > 37 and name[-37] == "-" == name[-13] and name.count("-", -36) == 4:
        name = name[:-37]  # a uuid
    else:
        head, dash, tail = name.rpartition("-")
        if dash and head and tail and _HEX.issuperset(tail):
            name = head
    return name.rstrip("0123456789").rstrip("-_") or name
