"""Several calls run as one task: a chain, or a small graph whose order was settled when it was built.

dask orders the inner graph of a fused task anew each time it runs; here that is done once, and what runs is a list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from hetsched.core.types import EACH, Ref

from .current import check_stopped

__all__ = ["Chain", "Link", "OnList", "OwnCall", "Plan", "Step", "make_dict", "make_list", "make_set", "make_tuple"]

Link: TypeAlias = "tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any] | None]"
"""One call of a chain; ``Ref(0)`` in it is the result of the call before."""

Step: TypeAlias = "tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any] | None, tuple[int, ...]]"
"""One call of a plan: function, arguments, named arguments, and the slots nobody reads after it."""


def make_list(*items: Any) -> list[Any]:
    """Gather arguments in a list."""
    return list(items)


def make_tuple(*items: Any) -> tuple[Any, ...]:
    """Gather arguments in a tuple."""
    return items


def make_set(*items: Any) -> set[Any]:
    """Gather arguments in a set."""
    return set(items)


def make_dict(*items: Any) -> dict[Any, Any]:
    """Gather arguments, keys and values in turn, in a dict."""
    return dict(zip(items[::2], items[1::2], strict=True))


def call(link: Link, values: Sequence[Any]) -> Any:
    """Call a function with its Refs replaced by values."""
    func, args, kwargs = link
    if args is EACH and not kwargs:
        return func(*values)
    given = [values[a.position] if type(a) is Ref else a for a in args]
    if kwargs:
        return func(*given, **{k: values[a.position] if type(a) is Ref else a for k, a in kwargs.items()})
    return func(*given)


class OnList:
    """A function that takes its inputs in one list."""

    __slots__ = ("func",)

    def __init__(self, func: Callable[[list[Any]], Any]) -> None:
        self.func = func

    def __call__(self, *items: Any) -> Any:
        """Call it with the list of all arguments; raises what it raises."""
        return self.func(list(items))

    def __repr__(self) -> str:
        return f"OnList({_name(self.func)})"

    def __reduce__(self) -> tuple[type[OnList], tuple[Callable[[list[Any]], Any]]]:
        return OnList, (self.func,)


class OwnCall:
    """A callable that takes its inputs in one dict, by name."""

    __slots__ = ("func", "names")

    def __init__(self, func: Callable[[dict[Any, Any]], Any], names: Sequence[Any]) -> None:
        self.func = func
        self.names = names

    def __call__(self, *items: Any) -> Any:
        """Call it; raises what it raises."""
        return self.func(dict(zip(self.names, items, strict=True)))

    def __repr__(self) -> str:
        return f"OwnCall({_name(self.func)})"

    def __reduce__(self) -> tuple[type[OwnCall], tuple[Any, Sequence[Any]]]:
        return OwnCall, (self.func, self.names)


class Chain:
    """Calls of which each takes the result of the one before."""

    __slots__ = ("links",)

    def __init__(self, links: Sequence[Link]) -> None:
        self.links = links

    def __call__(self, *inputs: Any) -> Any:
        """Run the first on the inputs, each other on what came before; raises what they raise."""
        values: Sequence[Any] = inputs
        for link in self.links:
            check_stopped()
            values = (call(link, values),)
        return values[0]

    def __repr__(self) -> str:
        return "Chain(" + ", ".join(_name(link[0]) for link in self.links) + ")"

    def __reduce__(self) -> tuple[type[Chain], tuple[Sequence[Link]]]:
        return Chain, (self.links,)


class Plan:
    """A small graph of calls, settled into a list.

    Slots 0 to n-1 hold the inputs, each step fills the next; the last one is the result.
    """

    __slots__ = ("steps",)

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = steps

    def __call__(self, *inputs: Any) -> Any:
        """Run the steps in turn, forgetting each value after its last reader; raises what they raise."""
        values = list(inputs)
        for func, args, kwargs, drops in self.steps:
            check_stopped()
            values.append(call((func, args, kwargs), values))
            for slot in drops:
                values[slot] = None
        return values[-1]

    def __repr__(self) -> str:
        return "Plan(" + ", ".join(_name(step[0]) for step in self.steps) + ")"

    def __reduce__(self) -> tuple[type[Plan], tuple[Sequence[Step]]]:
        return Plan, (self.steps,)


def _name(func: Callable[..., Any]) -> str:
    return getattr(func, "__name__", None) or type(func).__name__
