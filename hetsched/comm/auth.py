"""Who may speak with us: tokens in files, proofs that a peer has the token, TLS contexts."""

from __future__ import annotations

import hmac
import ipaddress
import os
import secrets
import ssl
import stat
import struct
from typing import Literal, NoReturn, TypeAlias

__all__ = ["End", "client_tls", "needs_secret", "new_token_file", "proof", "read_token_file", "server_tls", "verify"]

End: TypeAlias = Literal["opener", "acceptor"]
"""The two ends of a connection: who opened it and who accepted it."""

_Path: TypeAlias = "str | os.PathLike[str]"

_TOKEN_LIMIT = 4096
_OTHER: dict[End, End] = {"opener": "acceptor", "acceptor": "opener"}


def new_token_file(path: _Path) -> None:
    """Write a new random token of 256 bits to a file that only its owner can read.

    Raises FileExistsError if there is such a file, which stays as it is; OSError where it cannot be written.
    """
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise FileExistsError(
            f"{os.fspath(path)} exists already: a token in use is not overwritten; give another name or remove it first"
        ) from None
    with os.fdopen(fd, "w", encoding="ascii") as file:
        os.fchmod(fd, 0o600)  # whatever the umask
        file.write(secrets.token_hex(32) + "\n")


def read_token_file(path: _Path) -> bytes:
    """The token in a file, without the blanks around it.

    Raises PermissionError if others than the owner can read or write the file, ValueError if it holds no token, other
    kinds of OSError if it cannot be read. Each says which file and what to do.
    """
    name = os.fspath(path)
    try:
        # Not waiting: a pipe without a writer would hold us up for ever.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"there is no token file {name}: make one with `hetsched-scheduler --new-token {name}`, "
            "or copy the one that the scheduler uses"
        ) from None
    except PermissionError:
        raise PermissionError(f"the token file {name} may not be read by this user: it has to be this user's") from None
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"the token file {name} is not a plain file")
        mode = stat.S_IMODE(status.st_mode)
        if mode & 0o077:
            raise PermissionError(
                f"the token file {name} is open to other users (mode {mode:04o}): run `chmod 600 {name}`, "
                "and make a new token if they may have read it"
            )
        data = file.read(_TOKEN_LIMIT + 1)
    if len(data) > _TOKEN_LIMIT:
        raise ValueError(f"the token file {name} has more than {_TOKEN_LIMIT} bytes: this is not a token")
    if not (token := data.strip()):
        raise ValueError(
            f"the token file {name} is empty: remove it and make one with `hetsched-scheduler --new-token {name}`"
        )
    return token


def proof(token: bytes, mine: bytes, theirs: bytes, role: End) -> bytes:
    """The 32 bytes that prove to the peer that we have the token, without giving it away.

    ``mine`` and ``theirs`` are the encoded Hellos as they crossed, with nonces made for this connection alone; ``role``
    is the end of the connection that we are. Raises ValueError for an empty token.
    """
    if not token:
        raise ValueError("an empty token proves nothing")
    if role not in _OTHER:
        raise ValueError(f"{role!r} is no end of a connection: opener or acceptor")
    said = b"".join(struct.pack(">I", len(part)) + part for part in (role.encode(), mine, theirs))
    return hmac.digest(token, b"hetsched proof 1\0" + said, "sha256")


def verify(token: bytes, mine: bytes, theirs: bytes, role: End, given: bytes) -> bool:
    """Whether ``given`` is the peer's proof; the other arguments are those that our own :func:`proof` takes.

    Takes the same time wherever the first wrong byte is. What the peer has from us proves nothing when sent back:
    neither our proof, of this connection or another, nor our Hello.
    """
    expected = proof(token, theirs, mine, _OTHER[role])
    return hmac.compare_digest(expected, given) and mine != theirs


def needs_secret(address: str) -> bool:
    """Whether a listener there needs a token or mutual TLS, since more than this machine can reach it.

    ``address`` is ``tcp://host:port`` and the like, or a host alone. No name is looked up: of names only ``localhost``
    is known to stay here.
    """
    scheme, found, rest = address.partition("://")
    if not found:
        rest = address
    elif scheme in ("unix", "inproc"):
        return False
    if rest.startswith("["):
        host = rest[1:].partition("]")[0]
    else:
        host = rest.partition(":")[0] if rest.count(":") == 1 else rest
    if host.lower() == "localhost":
        return False
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return True
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    return not ip.is_loopback


def server_tls(cert: _Path, key: _Path, ca: _Path | None = None) -> ssl.SSLContext:
    """The TLS context of a listener: TLS 1.3 with this certificate and key, both PEM files.

    With ``ca`` only peers with a certificate signed by it are let in. Raises OSError or ValueError with a sentence that
    says which file is wrong and what to do.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # Nobody resumes sessions, and a ticket not yet read when the peer closes resets the connection.
    context.num_tickets = 0
    _load_cert(context, cert, key)
    if ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        _load_ca(context, ca)
    return context


def client_tls(cert: _Path | None = None, key: _Path | None = None, ca: _Path | None = None) -> ssl.SSLContext:
    """The TLS context for opening connections: TLS 1.3, the peer's certificate and its host name are checked.

    The peer's certificate has to be signed by ``ca``, or by an authority that the system trusts where that is None.
    ``cert`` and ``key`` are shown to a listener that asks for them. All are PEM files. Raises OSError or ValueError
    with a sentence that says which file is wrong and what to do.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if ca is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        _load_ca(context, ca)
    if (cert is None) != (key is None):
        raise ValueError("a TLS certificate and its key go together: give both --tls-cert and --tls-key, or neither")
    if cert is not None and key is not None:
        _load_cert(context, cert, key)
    return context


def _pem(path: _Path, what: str, option: str, mark: bytes) -> str:
    """The path, once the file is known to hold a PEM block of the kind wanted."""
    name = os.fspath(path)
    try:
        with open(path, "rb") as file:
            data = file.read(1 << 22)
    except OSError as error:
        raise type(error)(f"the TLS {what} {name} cannot be read ({error.strerror}): check {option}") from error
    if mark not in data:
        raise ValueError(f"the TLS {what} {name} holds no {what} in PEM form: check {option}")
    return name


def _load_cert(context: ssl.SSLContext, cert: _Path, key: _Path) -> None:
    cert = _pem(cert, "certificate", "--tls-cert", b"-----BEGIN CERTIFICATE-----")
    key = _pem(key, "private key", "--tls-key", b" PRIVATE KEY-----")

    def no_password() -> NoReturn:  # else OpenSSL asks on the terminal, where nobody may sit
        raise ValueError(
            f"the TLS private key {key} is protected by a password: write one without, readable by its owner alone"
        )

    try:
        context.load_cert_chain(cert, key, password=no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ValueError(
                f"the TLS private key {key} does not belong to the certificate {cert}: check --tls-cert and --tls-key"
            ) from error
        raise ValueError(
            f"the TLS certificate {cert} or its key {key} is damaged ({error.reason or error}): make or copy them again"
        ) from error


def _load_ca(context: ssl.SSLContext, ca: _Path) -> None:
    ca = _pem(ca, "certificate", "--tls-ca", b"-----BEGIN CERTIFICATE-----")
    try:
        context.load_verify_locations(ca)
    except ssl.SSLError as error:
        raise ValueError(
            f"the TLS certificate {ca} of the authority is damaged ({error.reason or error}): copy it again"
        ) from error
