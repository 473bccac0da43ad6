"""What two processes tell each other first, and what they agree on.

Each end says :class:`Hello`. Both then call :func:`agree`, which looks at nothing but the two Hellos, so they come to
the same :class:`Terms` (each seen from its own end), or to the same sentence that says why they cannot speak.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import msgpack

from hetsched.errors import ProtocolError

__all__ = [
    "HELLO_LIMIT",
    "LOWEST_PICKLE",
    "NONCE_BYTES",
    "PINS",
    "PROTOCOLS",
    "Hello",
    "Role",
    "Terms",
    "agree",
    "decode_hello",
    "encode_hello",
]

PROTOCOLS: tuple[int, ...] = (1,)
"""The versions of the protocol that this release speaks."""

HELLO_LIMIT = 65536
"""The most bytes that an encoded Hello may have."""

NONCE_BYTES = 32
"""The bytes of a Hello's nonce."""

LOWEST_PICKLE = 4
"""The lowest pickle protocol that values are sent with."""

PINS = ("send-compression", "receive-compression", "pickle-protocol")
"""What a person can pin instead of leaving it to be agreed on."""

Role: TypeAlias = Literal["scheduler", "worker", "client"]

_TEXT = 256  # characters
_ITEMS = 64
_LIBRARIES = 512


class Hello(NamedTuple):
    """What one end says of itself.

    ``compressions`` are what it can both make and undo, the ones it likes best first. ``devices`` are the kinds of
    devices whose objects it can take, such as ``("cuda",)``. ``libraries`` gives versions by name. ``max_frame`` and
    ``max_header`` are the bytes it takes in one frame and in one header. ``nonce`` is made anew for each connection.
    ``pins`` holds what a person wants whatever the peers like: a compression's name or ``"none"`` under
    ``"send-compression"`` and ``"receive-compression"``, a number under ``"pickle-protocol"``. ``device_counts``
    tells how many devices of each kind it has; a peer need not say, and nothing is agreed on by it.
    """

    role: Role
    name: str
    protocols: tuple[int, ...]
    python: tuple[int, int, int]
    pickle: int
    compressions: tuple[str, ...]
    byteorder: Literal["little", "big"]
    devices: tuple[str, ...]
    libraries: dict[str, str]
    max_frame: int
    max_header: int
    nonce: bytes = b""
    pins: dict[str, str | int] = {}  # noqa: RUF012 - never changed
    device_counts: dict[str, int] = {}  # noqa: RUF012 - never changed


class Terms(NamedTuple):
    """What two ends have agreed on, seen from one of them. Limits are in bytes.

    ``send_devices`` are the kinds of device objects that may be sent as they are; all others become host objects first.
    ``python`` is the other end's version.
    """

    protocol: int
    send_compression: str | None
    receive_compression: str | None
    pickle: int
    send_devices: tuple[str, ...]
    receive_devices: tuple[str, ...]
    send_limit: int
    receive_limit: int
    send_header: int
    receive_header: int
    python: tuple[int, int, int]

    def __str__(self) -> str:
        """Say for a log what was agreed on: ``Python 3.12.1, pickle protocol 5, sends lz4, receives none``."""
        python = ".".join(map(str, self.python))
        sends, receives = self.send_compression or "none", self.receive_compression or "none"
        return f"Python {python}, pickle protocol {self.pickle}, sends {sends}, receives {receives}"

    def flipped(self, python: tuple[int, int, int]) -> Terms:
        """The terms seen from the other end; ``python`` is this end's version."""
        return self._replace(
            send_compression=self.receive_compression,
            receive_compression=self.send_compression,
            send_devices=self.receive_devices,
            receive_devices=self.send_devices,
            send_limit=self.receive_limit,
            receive_limit=self.send_limit,
            send_header=self.receive_header,
            receive_header=self.send_header,
            python=python,
        )


class _Disagreement(Exception):
    """Holds the sentence that :func:`agree` returns."""


def agree(mine: Hello, theirs: Hello) -> Terms | str:
    """The terms on which two ends can speak, or the one sentence that says why they cannot.

    ``agree(a, b)`` and ``agree(b, a)`` are the same sentence, or ``agree(a, b).flipped(a.python) == agree(b, a)``.
    Never raises for Hellos that :func:`decode_hello` lets through.
    """
    # In an order that does not depend on which of them is ours, so that both ends give the same reason.
    first, second = sorted((mine, theirs), key=repr)
    try:
        _check_pair(first, second)
        terms = Terms(
            protocol=_protocol(first, second),
            pickle=_pickle(first, second),
            send_compression=_compression(first, second),
            receive_compression=_compression(second, first),
            send_devices=tuple(sorted(set(second.devices))),
            receive_devices=tuple(sorted(set(first.devices))),
            send_limit=second.max_frame,
            receive_limit=first.max_frame,
            send_header=second.max_header,
            receive_header=first.max_header,
            python=second.python,
        )
    except _Disagreement as why:
        return str(why)
    return terms if first is mine else terms.flipped(first.python)


def _who(hello: Hello) -> str:
    return f"{hello.role} {hello.name!r}" if hello.name else f"an unnamed {hello.role}"


def _release(hello: Hello) -> str:
    return f" (hetsched {hello.libraries['hetsched']})" if "hetsched" in hello.libraries else ""


def _check_pair(a: Hello, b: Hello) -> None:
    if a.role == b.role != "worker":
        raise _Disagreement(f"{_who(a)} and {_who(b)} have nothing to say to each other: both are {a.role}s")
    if a.byteorder != b.byteorder:
        raise _Disagreement(
            f"{_who(a)} is {a.byteorder}-endian and {_who(b)} is {b.byteorder}-endian: "
            "their memory cannot be exchanged as it is"
        )


def _protocol(a: Hello, b: Hello) -> int:
    shared = set(a.protocols) & set(b.protocols)
    if shared:
        return max(shared)
    spoken = " and ".join(
        f"{_who(h)}{_release(h)} speaks {', '.join(map(str, sorted(set(h.protocols))))}" for h in (a, b)
    )
    raise _Disagreement(f"no protocol version in common: {spoken}; use releases of hetsched closer to each other")


def _pickle(a: Hello, b: Hello) -> int:
    pins = {h.pins["pickle-protocol"] for h in (a, b) if "pickle-protocol" in h.pins}
    if len(pins) > 1:
        raise _Disagreement(
            f"{_who(a)} is pinned to pickle protocol {a.pins['pickle-protocol']} "
            f"and {_who(b)} to {b.pins['pickle-protocol']}"
        )
    able = min((a, b), key=lambda h: h.pickle)
    chosen = int(pins.pop()) if pins else able.pickle
    if chosen > able.pickle:
        raise _Disagreement(f"pickle protocol {chosen} is pinned, and {_who(able)} knows none above {able.pickle}")
    if chosen < LOWEST_PICKLE:
        why = f"{_who(able)} knows no other" if chosen == able.pickle else "pinned"
        raise _Disagreement(f"pickle protocol {chosen} ({why}) is too old: at least {LOWEST_PICKLE} is needed")
    return chosen


def _compression(sender: Hello, receiver: Hello) -> str | None:
    wanted, accepted = sender.pins.get("send-compression"), receiver.pins.get("receive-compression")
    if wanted is not None and accepted is not None and wanted != accepted:
        raise _Disagreement(
            f"{_who(sender)} is pinned to send with compression {wanted!r} "
            f"and {_who(receiver)} to receive with {accepted!r}"
        )
    pin = accepted if wanted is None else wanted
    if pin is None:
        return next((name for name in sender.compressions if name in receiver.compressions), None)
    if pin == "none":
        return None
    for end in (sender, receiver):
        if pin not in end.compressions:
            raise _Disagreement(
                f"compression {pin!r} is pinned from {_who(sender)} to {_who(receiver)}, "
                f"and {_who(end)} does not have it (it has: {', '.join(end.compressions) or 'none'})"
            )
    return str(pin)


def _is_text(value: object) -> bool:
    # Names reach logs and sentences: none may hold a line of its own.
    return type(value) is str and len(value) <= _TEXT and value.isprintable()


def _is_int(low: int, high: int) -> Callable[[object], bool]:
    return lambda value: type(value) is int and low <= value <= high


def _is_tuple(item: Callable[[object], bool], low: int = 0, high: int = _ITEMS) -> Callable[[object], bool]:
    return lambda value: type(value) is tuple and low <= len(value) <= high and all(map(item, value))


def _are_libraries(value: object) -> bool:
    return type(value) is dict and len(value) <= _LIBRARIES and all(_is_text(x) for pair in value.items() for x in pair)


def _are_pins(value: object) -> bool:
    return (
        type(value) is dict
        and len(value) <= _ITEMS
        and all(_is_text(value[pin]) for pin in ("send-compression", "receive-compression") if pin in value)
        and ("pickle-protocol" not in value or _is_int(0, 255)(value["pickle-protocol"]))
    )


def _are_counts(value: object) -> bool:
    count = _is_int(0, 65535)
    return type(value) is dict and len(value) <= _ITEMS and all(_is_text(k) and count(n) for k, n in value.items())


# What each field must be, in words and in code.
_FIELDS: dict[str, tuple[str, Callable[[object], bool]]] = {
    "role": ("scheduler, worker or client", ("scheduler", "worker", "client").__contains__),
    "name": ("a printable text", _is_text),
    "protocols": ("numbers of protocols, at least one", _is_tuple(_is_int(1, 65535), low=1)),
    "python": ("three numbers", _is_tuple(_is_int(0, 65535), low=3, high=3)),
    "pickle": ("a number from 0 to 255", _is_int(0, 255)),
    "compressions": ("printable names", _is_tuple(_is_text)),
    "byteorder": ("little or big", ("little", "big").__contains__),
    "devices": ("printable names", _is_tuple(_is_text)),
    "libraries": ("printable versions by name", _are_libraries),
    "max_frame": ("a number of bytes", _is_int(1, 2**63 - 1)),
    "max_header": ("a number of bytes below 4 GiB", _is_int(1, 2**32 - 1)),
    "nonce": (f"{NONCE_BYTES} bytes", lambda value: type(value) is bytes and len(value) == NONCE_BYTES),
    "pins": ("texts and a number by name", _are_pins),
    "device_counts": ("numbers by printable name", _are_counts),
}


def encode_hello(hello: Hello) -> bytes:
    """The bytes to send; the same for equal Hellos.

    Raises ValueError for a Hello that :func:`decode_hello` would not take, or with a pin that does not exist.
    """
    if unknown := sorted(set(hello.pins) - set(PINS)):
        raise ValueError(f"no such pin: {', '.join(unknown)}; there are {', '.join(PINS)}")
    fields = hello._asdict()
    for name in ("libraries", "pins", "device_counts"):
        fields[name] = dict(sorted(fields[name].items()))
    try:
        data = cast("bytes", msgpack.packb(fields))
        decode_hello(data)
    except (ProtocolError, OverflowError) as error:
        raise ValueError(f"this Hello cannot be sent: {error}") from error
    return data


def decode_hello(data: bytes | memoryview) -> Hello:
    """The Hello that a peer has sent. Fields and pins that this release does not know are left out.

    Raises ProtocolError for anything else, without taking more memory than a small multiple of ``HELLO_LIMIT``.
    """
    size = memoryview(data).nbytes
    if size > HELLO_LIMIT:
        raise ProtocolError(f"a Hello of {size} bytes; {HELLO_LIMIT} are allowed")
    fields = _unpack(data)
    if type(fields) is not dict:
        raise ProtocolError(f"a Hello is a map, not {type(fields).__name__}")
    fields.setdefault("device_counts", {})
    for name, (meaning, holds) in _FIELDS.items():
        if name not in fields:
            raise ProtocolError(f"the Hello has no {name!r}")
        if not holds(fields[name]):
            raise ProtocolError(f"{name!r} of the Hello is {reprlib.repr(fields[name])}; it has to be {meaning}")
    fields["pins"] = {pin: fields["pins"][pin] for pin in PINS if pin in fields["pins"]}
    return Hello(**{name: fields[name] for name in _FIELDS})


def _unpack(data: bytes | memoryview) -> Any:
    try:
        return msgpack.unpackb(
            data,
            use_list=False,
            # Room for an array is taken as soon as its length is read, and arrays nest.
            max_array_len=_ITEMS,
            max_map_len=_LIBRARIES,
            max_str_len=4096,
            max_bin_len=4096,
            max_ext_len=16,
        )
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise ProtocolError(f"the Hello is not msgpack: {error or type(error).__name__}") from error
