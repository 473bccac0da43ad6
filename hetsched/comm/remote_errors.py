"""Carry exceptions to another process, with their tracebacks, causes, contexts and notes.

Each exception of a chain is pickled by itself, so that one which cannot be carried is replaced alone. Tracebacks are
sent as plain data. A text of everything goes along, for the case that loading fails.
"""

from __future__ import annotations

import pickle as pickling
import traceback
from contextlib import suppress
from types import FunctionType, TracebackType
from typing import Any, NamedTuple

import msgpack
from tblib import Traceback

from hetsched.errors import RemoteError

from .pickling import PYTHON, check_python, dumps

__all__ = ["MOST_BYTES", "MOST_ERRORS", "MOST_FRAMES", "MOST_TEXT", "dump_error", "load_error"]

MOST_BYTES = 8 * 2**20
"""The pickles of a chain of exceptions may have so many bytes together; those beyond are replaced by their text."""

MOST_ERRORS = 1000
"""So many exceptions of a chain, or a group, are carried."""

MOST_FRAMES = 100
"""So many frames of a traceback are carried: half of them from its start, half from its end."""

MOST_TEXT = 20_000
"""So many letters of a message or of a traceback's text are carried."""


class _Entry(NamedTuple):
    """An exception as it is sent. Other exceptions are named by their places in the list."""

    pickled: bytes
    python: tuple[int, int] | None
    type_name: str
    message: str
    text: str
    frames: tuple[tuple[str, str, int, str], ...]
    notes: tuple[str, ...]
    cause: int | None
    context: int | None
    suppress: bool
    members: tuple[int, ...] | None


def dump_error(exc: BaseException, pickle: int) -> bytes:
    """Pack an exception and what hangs on it, with pickles of a protocol of at most ``pickle``. Never raises."""
    try:
        return _pack(_entries(exc, pickle))
    except KeyboardInterrupt:
        raise
    except BaseException:  # code of the exception's own, or too little memory
        name = type.__getattribute__(type(exc), "__name__")
        return _pack([_Entry(b"", None, name, "", "", (), (), None, None, False, None)])


def load_error(data: bytes | bytearray | memoryview) -> BaseException:
    """Make the exception that :func:`dump_error` packed, ready to be raised. Never raises.

    One that cannot be made here, or could not be packed there, becomes a :class:`hetsched.errors.RemoteError`.
    """
    try:
        entries = msgpack.unpackb(data, use_list=False, unicode_errors="surrogatepass")
        return _load([_Entry(*entry) for entry in entries])
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever was sent
        return RemoteError(f"an error came that cannot be read: {type(error).__name__}: {_message(error)}")


def _pack(entries: list[_Entry]) -> bytes:
    packed: bytes = msgpack.packb(entries, unicode_errors="surrogatepass")
    return packed


def _entries(exc: BaseException, protocol: int) -> list[_Entry]:
    places = {id(exc): 0}
    found = [exc]

    def place(other: BaseException | None) -> int | None:
        if other is not None and id(other) not in places and len(found) < MOST_ERRORS:
            places[id(other)] = len(found)
            found.append(other)
        return places.get(id(other))

    entries = []
    left = MOST_BYTES
    for each in found:  # it grows
        pickled, python = _pickle(each, protocol)
        if len(pickled) > left:
            pickled, python = b"", None
        left -= len(pickled)
        members = None
        if isinstance(each, BaseExceptionGroup):
            members = tuple(at for at in map(place, each.exceptions) if at is not None)
        entries.append(
            _Entry(
                pickled,
                python,
                _type_name(type(each)),
                _message(each),
                _text(each),
                _frames(each.__traceback__),
                _notes(each),
                place(each.__cause__),
                place(each.__context__),
                bool(each.__suppress_context__),
                members,
            )
        )
    return entries


def _pickle(exc: BaseException, protocol: int) -> tuple[bytes, tuple[int, int] | None]:
    kind = type(exc)
    what: Any = exc
    try:
        if isinstance(exc, BaseExceptionGroup):
            what = kind, exc.message, _state(exc)  # its members are carried apart
        elif _has_own_init(kind):
            what = kind, exc.args, _state(exc)
        pickled = dumps(what, protocol)
    except KeyboardInterrupt:
        raise
    except BaseException:  # the exception's own code
        return b"", None
    return pickled.data, PYTHON if pickled.has_code else None


def _has_own_init(kind: type[BaseException]) -> bool:
    """Whether exceptions are pickled as Python does, by their ``args``, but take other arguments."""
    plain = (
        kind.__reduce__ is BaseException.__reduce__
        and kind.__reduce_ex__ is object.__reduce_ex__
        and kind.__setstate__ is BaseException.__setstate__
    )
    return plain and isinstance(kind.__init__, FunctionType)


def _state(exc: BaseException) -> dict[str, Any]:
    return {name: value for name, value in vars(exc).items() if name != "__notes__"}


def _type_name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _message(exc: BaseException) -> str:
    try:
        return _cut(str(exc))
    except BaseException:  # the exception's own code
        return "(its text cannot be shown)"


def _text(exc: BaseException) -> str:
    # Not traceback.format_exception: that looks at the whole chain each time.
    lines = ["Traceback (most recent call last):\n"] if exc.__traceback__ else []
    with suppress(Exception):  # the program's loaders of source text
        lines += traceback.format_tb(exc.__traceback__, limit=-MOST_FRAMES)
    lines.append(f"{_headline(_type_name(type(exc)), _message(exc))}\n")
    return _cut("".join([*lines, *(f"{note}\n" for note in _notes(exc))]))


def _headline(type_name: str, message: str) -> str:
    return f"{type_name}: {message}" if message else type_name


def _cut(text: str) -> str:
    half = MOST_TEXT // 2
    return text if len(text) <= MOST_TEXT else f"{text[:half]}\n... ({len(text) - 2 * half} letters)\n{text[-half:]}"


def _notes(exc: BaseException) -> tuple[str, ...]:
    notes = getattr(exc, "__notes__", ())
    return tuple(_cut(note) for note in notes if isinstance(note, str)) if isinstance(notes, list | tuple) else ()


def _frames(tb: TracebackType | None) -> tuple[tuple[str, str, int, str], ...]:
    frames = []
    while tb is not None:
        code = tb.tb_frame.f_code
        line = tb.tb_lineno or code.co_firstlineno
        frames.append((code.co_filename, code.co_name, line, str(tb.tb_frame.f_globals.get("__name__", ""))))
        tb = tb.tb_next
    half = MOST_FRAMES // 2
    return tuple(frames if len(frames) <= MOST_FRAMES else frames[:half] + frames[-half:])


def _load(entries: list[_Entry]) -> BaseException:
    made: dict[int, BaseException | None] = {}
    whole = [_made(at, entries, made) for at in range(len(entries))]
    for exc, entry in zip(whole, entries, strict=True):
        with suppress(Exception):  # a class may forbid any of them
            exc.__cause__ = None if entry.cause is None else whole[entry.cause]
            exc.__context__ = None if entry.context is None else whole[entry.context]
            exc.__suppress_context__ = entry.suppress
            if entry.notes:
                exc.__notes__ = list(entry.notes)
            exc.__traceback__ = _traceback(entry.frames)
    return whole[0]


def _made(at: int, entries: list[_Entry], made: dict[int, BaseException | None]) -> BaseException:
    if at in made:
        exc = made[at]
        if exc is None:
            raise ValueError("a group of exceptions that is its own member")
        return exc
    made[at] = None
    entry = entries[at]
    members = None if entry.members is None else [_made(member, entries, made) for member in entry.members]
    exc = made[at] = _exception(entry, members)
    return exc


def _exception(entry: _Entry, members: list[BaseException] | None) -> BaseException:
    if entry.pickled:
        try:
            if entry.python is not None:
                check_python(entry.python)
            exc: Any = pickling.loads(entry.pickled)
            if isinstance(exc, tuple):
                kind, args, state = exc
                exc = _make(kind, args, state, members)
            if isinstance(exc, BaseException):
                return exc
        except KeyboardInterrupt:
            raise
        except BaseException:  # the exception's own code, or a class that is not here
            pass
    if members:
        return BaseExceptionGroup(entry.message, members)
    text = _headline(entry.type_name, entry.message)
    return RemoteError(text, type_name=entry.type_name, message=entry.message, remote_traceback=entry.text)


def _make(
    kind: type[BaseException], args: Any, state: dict[str, Any], members: list[BaseException] | None
) -> BaseException:
    """Make an exception without calling the ``__init__`` that a person wrote: its arguments are not known."""
    if members is not None:
        exc: BaseException = BaseExceptionGroup.__new__(kind, args, members)  # type: ignore[type-var]
    else:
        exc = kind.__new__(kind, *args)
        for base in kind.__mro__:
            init = base.__dict__.get("__init__")
            if init is not None and not isinstance(init, FunctionType):
                with suppress(Exception):
                    init(exc, *args)
                break
    exc.__dict__.update(state)
    return exc


def _traceback(frames: tuple[tuple[str, str, int, str], ...]) -> TracebackType | None:
    chain = None
    for filename, name, line, module in reversed(frames):
        code = {"co_filename": filename, "co_name": name}
        frame = {"f_globals": {"__file__": filename, "__name__": module}, "f_code": code, "f_lineno": line}
        chain = {"tb_frame": frame, "tb_lineno": line, "tb_next": chain}
    made: TracebackType | None = None if chain is None else Traceback.from_dict(chain).as_traceback()
    return made
