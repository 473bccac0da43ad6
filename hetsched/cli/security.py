"""Who may come in: tokens and certificates out of files, and where a listener needs them."""

from __future__ import annotations

import socket
import ssl
from typing import NamedTuple, Protocol

from hetsched.comm.auth import client_tls, needs_secret, read_token_file, server_tls
from hetsched.comm.transports import parse_address

__all__ = ["Credentials", "Files", "Unprotected", "own_host", "shown_address", "url"]


class Unprotected(ValueError):
    """More than this machine could come in, and nothing asks who it is: an option is missing."""


class Files(Protocol):
    """The files that credentials are read from: paths, None where not given."""

    @property
    def token_file(self) -> str | None:
        """The cluster's token."""

    @property
    def tls_cert(self) -> str | None:
        """This end's certificate."""

    @property
    def tls_key(self) -> str | None:
        """The certificate's key."""

    @property
    def tls_ca(self) -> str | None:
        """The authority that signs peers' certificates."""


class Credentials(NamedTuple):
    """What opens a cluster's doors: a token, and TLS contexts for either side."""

    token: bytes | None
    server_tls: ssl.SSLContext | None
    client_tls: ssl.SSLContext | None
    mutual: bool

    @classmethod
    def read(cls, files: Files) -> Credentials:
        """Read the files. Raises OSError and ValueError with a sentence that says which one is wrong and what to do."""
        cert, key, ca = files.tls_cert, files.tls_key, files.tls_ca
        token = read_token_file(files.token_file) if files.token_file else None
        client = client_tls(cert, key, ca) if cert or key or ca else None
        server = server_tls(cert, key, ca) if cert and key else None
        return cls(token, server, client, server is not None and ca is not None)

    def check(self, address: str) -> None:
        """Raise Unprotected, with the remedy, where more than this machine could come in without a secret."""
        if self.token is None and not self.mutual and needs_secret(address):
            raise Unprotected(
                f"{address} can be reached by other machines, and whoever comes in can run what they like: make a "
                "token with `hetsched-scheduler --new-token FILE` and give it to the scheduler, the workers and the "
                "clients (--token-file FILE), or use mutual TLS (--tls-cert, --tls-key and --tls-ca)"
            )


def url(host: str, port: int, tls: bool) -> str:
    """The address of a host and a port; a ``host`` that is a whole address stays as it is."""
    if "://" in host:
        return host
    place = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"{'tls' if tls else 'tcp'}://{place}:{port}"


def own_host(towards: str) -> str:
    """This machine's address on the way to a host; nothing is sent. Raises OSError where there is no way."""
    family, kind, _, _, place = socket.getaddrinfo(towards, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(place)
        return str(probe.getsockname()[0])


def shown_address(address: str) -> str:
    """Where others find a listener: of one at all of this machine's addresses, that of the way out."""
    where = parse_address(address)
    anywhere = {"0.0.0.0": "192.0.2.1", "::": "2001:db8::1"}  # addresses kept for documentation: nobody is there
    if where.place not in anywhere:
        return address
    try:
        host = own_host(anywhere[where.place])
    except OSError:
        host = socket.gethostname()
    return str(where._replace(place=host))
