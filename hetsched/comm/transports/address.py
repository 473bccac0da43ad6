"""Addresses: ``tcp://host:port``, ``tls://host:port``, ``unix:///path`` and ``inproc://name``."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

__all__ = ["Address", "Scheme", "parse_address"]

Scheme: TypeAlias = Literal["inproc", "tcp", "tls", "unix"]


class Address(NamedTuple):
    """Where a peer is. ``place`` is a host, the path of a socket or a name; ``port`` is 0 where there is none."""

    scheme: Scheme
    place: str
    port: int = 0

    def __str__(self) -> str:
        if self.scheme in ("inproc", "unix"):
            return f"{self.scheme}://{self.place}"
        host = f"[{self.place}]" if ":" in self.place else self.place
        return f"{self.scheme}://{host}:{self.port}"


def parse_address(text: str) -> Address:
    """Read an address; ``host:port`` alone is ``tcp://host:port``. Raises ValueError that says what is wrong."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "tcp", text
    match scheme:
        case "tcp" | "tls":
            return Address(scheme, *_host_and_port(text, rest))
        case "unix" | "inproc":
            if not rest or "\0" in rest:
                example = "unix:///run/hetsched.sock" if scheme == "unix" else "inproc://name"
                raise ValueError(f"{text!r} does not say where; an address is like {example}")
            return Address(scheme, rest)
        case _:
            raise ValueError(f"{text!r}: no such transport; there are tcp://, tls://, unix:// and inproc://")


def _host_and_port(text: str, rest: str) -> tuple[str, int]:
    host, colon, port = rest.rstrip("/").rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if bracketed:
        host = host[1:-1]
    if not colon or not host or any(c.isspace() or c in "/@[]\0" for c in host) or (":" in host) != bracketed:
        raise ValueError(f"{text!r} is no address; one is like tcp://10.0.0.7:8786 or tcp://[::1]:8786")
    if not (port.isascii() and port.isdigit() and int(port[:6]) < 65536):
        raise ValueError(f"{text!r}: the port is a number from 0 to 65535")
    return host, int(port)
