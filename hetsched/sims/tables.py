"""Tables of a file into what they stand for; what is not right is told in words that say what to write instead."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from hetsched.errors import HetschedError

__all__ = ["a_table", "checked", "made", "tables"]

_WORDS: Final[Mapping[Any, str]] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    Mapping: "a table",
    Sequence: "a list",
}


def made(what: str, call: Callable[..., Any], table: Any, signed: bool = False, **given: Any) -> Any:
    """Call something with the words of a table, and with what is given beside them.

    ``what`` is what to call the table. Numbers below 0 are wrong unless ``signed``. Raises HetschedError where words
    are unknown, missing, or of a wrong type.
    """
    table = a_table(what, table)
    parameters = inspect.signature(call).parameters
    known = [name for name in parameters if name not in given]
    for word in table:
        if word not in known:
            raise HetschedError(f"{what} has no {word!r}; it has {', '.join(sorted(known))}")
    for name in known:
        if parameters[name].default is inspect.Parameter.empty and name not in table:
            raise HetschedError(f"{what} lacks {name!r}; write {name} = ...")
    types = get_type_hints(call)
    words = {word: checked(f"{word} in {what}", value, types.get(word, Any), signed) for word, value in table.items()}
    return call(**words, **given)


def a_table(what: str, said: Any) -> dict[str, Any]:
    """A copy of a table. Raises HetschedError where it is none."""
    if not isinstance(said, Mapping):
        raise HetschedError(f"{what} is {said!r}; it has to be a table")
    return dict(said)


def tables(what: str, said: Any) -> list[dict[str, Any]]:
    """One table, or several. Raises HetschedError for anything else."""
    return [a_table(what, table) for table in (said if isinstance(said, list) else [said])]


def checked(what: str, value: Any, kind: Any, signed: bool = False) -> Any:
    """A value that is of the type of a hint; 8e9 is a whole number, too, and 1 a number. Raises HetschedError else."""
    kinds = _kinds(kind)
    fitting = next((each for each in kinds if _is_a(value, each)), None)
    if fitting is None:
        raise HetschedError(f"{what} is {value!r}; write {_wanted(kinds)}")
    if _is_number(value):
        if not isfinite(value):
            raise HetschedError(f"{what} is {value}; write a number that is finite")
        if value < 0 and not signed:
            raise HetschedError(f"{what} is {value}; write a number of at least 0")
    if fitting is int:
        return int(value)
    parts = get_args(fitting)
    if get_origin(fitting) is Mapping and parts:
        return {word: checked(f"{word} of {what}", each, parts[1], signed) for word, each in value.items()}
    if get_origin(fitting) is Sequence and parts:
        return [checked(f"{each!r} of {what}", each, parts[0], signed) for each in value]
    return value


def _kinds(kind: Any) -> list[Any]:
    """The types that a hint allows; None is left out, which no file can say."""
    if get_origin(kind) in (Union, UnionType):
        return [each for part in get_args(kind) for each in _kinds(part)]
    return [] if kind is type(None) else [kind]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_a(value: Any, kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if kind is float:
        return _is_number(value)
    if kind is int:
        return _is_number(value) and (isinstance(value, int) or value.is_integer())
    kind = get_origin(kind) or kind
    if kind is Sequence:
        return isinstance(value, list)
    return not isinstance(kind, type) or isinstance(value, kind)


def _wanted(kinds: Sequence[Any]) -> str:
    """What may be written, in words."""
    found: list[str] = []
    for kind in kinds:
        if get_origin(kind) is Literal:
            found += map(repr, get_args(kind))
        else:
            kind = get_origin(kind) or kind
            found.append(_WORDS.get(kind, getattr(kind, "__name__", str(kind))))
    return " or ".join(dict.fromkeys(found))
