"""TCP and Unix sockets.

System calls are tried first and waited for only where they would block, which saves a round through trio's loop for
each. A budget makes sure that the loop gets its turn all the same.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from collections.abc import Sequence

import trio

from hetsched.errors import ConnectionLost

from .address import Address
from .stream import Buffer, Listener, Stream, flat

__all__ = ["ALIVE_SECONDS", "SocketListener", "SocketStream", "connect_socket", "listen_socket"]

ALIVE_SECONDS = 10
"""After so many seconds of silence the system asks the peer's whether the connection is still there."""

_GATHERED = 1024  # buffers of one sendmsg: IOV_MAX of Linux and macOS
_BUDGET = 1 << 20  # bytes moved between two turns of the loop
_CALL = 1 << 14  # what a system call costs, in bytes
_BACKLOG = 1024
_NO_MORE_FILES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_GONE_ALREADY = frozenset({errno.ECONNABORTED, errno.EPROTO, errno.EPERM, errno.ENETDOWN, errno.ENETUNREACH})


class SocketStream(Stream):
    """A connected socket, which this takes over."""

    __slots__ = ("_budget", "_socket", "_taken")

    def __init__(self, sock: socket.socket, peername: str) -> None:
        sock.setblocking(False)
        unix = hasattr(socket, "AF_UNIX") and sock.family == socket.AF_UNIX
        if not unix:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _keep_alive(sock)
        self._socket = sock
        self._budget = _BUDGET
        self._taken = 0
        self.peername = peername
        self.local = unix or _is_loopback(sock)

    @property
    def taken(self) -> int:
        """See :attr:`Stream.taken`."""
        return self._taken

    async def send_all(self, buffers: Sequence[Buffer]) -> None:
        """See :meth:`Stream.send_all`."""
        views = [view for buffer in buffers if (view := flat(buffer)).nbytes]
        first = 0
        try:
            while first < len(views):
                if self._budget <= 0:
                    await self._take_turns()
                try:
                    sent = self._socket.sendmsg(views[first : first + _GATHERED])
                except BlockingIOError:
                    await trio.lowlevel.wait_writable(self._socket)
                    continue
                self._budget -= sent + _CALL
                self._taken += sent
                while sent and sent >= len(views[first]):
                    sent -= len(views[first])
                    first += 1
                if sent:
                    views[first] = views[first][sent:]
        except (OSError, ValueError, trio.ClosedResourceError) as error:
            raise self._lost(error) from error

    async def receive_some_into(self, view: memoryview) -> int:
        """See :meth:`Stream.receive_some_into`."""
        try:
            if self._budget <= 0:
                await self._take_turns()
            while True:
                try:
                    got = self._socket.recv_into(view)
                except BlockingIOError:
                    await trio.lowlevel.wait_readable(self._socket)
                    continue
                self._budget -= got + _CALL
                return got
        except (OSError, ValueError, trio.ClosedResourceError) as error:
            raise self._lost(error) from error

    async def _take_turns(self) -> None:
        await trio.lowlevel.checkpoint()
        self._budget = _BUDGET

    def _lost(self, error: BaseException) -> ConnectionLost:
        if self._socket.fileno() < 0:
            return ConnectionLost(f"the connection to {self.peername} is closed")
        return ConnectionLost(f"the connection to {self.peername} is lost: {_reason(error)}")

    async def linger(self) -> None:
        """See :meth:`Stream.linger`."""
        waste = memoryview(bytearray(_CALL))
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            while await self.receive_some_into(waste):
                pass

    def abort(self) -> None:
        """See :meth:`Stream.abort`."""
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()


def _reason(error: BaseException) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__


def _keep_alive(sock: socket.socket) -> None:
    """Have the system notice, while nothing is sent, that the peer's machine or the way to it is gone."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", ALIVE_SECONDS), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _is_loopback(sock: socket.socket) -> bool:
    try:
        host = str(sock.getpeername()[0])
    except OSError:  # gone already
        return False
    return host.startswith(("127.", "::ffff:127.")) or host == "::1"


class SocketListener(Listener):
    """A listening socket, which this takes over. ``path`` is the file to remove at the end, for a Unix socket."""

    __slots__ = ("_path", "_socket")

    def __init__(self, sock: socket.socket, address: str, path: str | None = None) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._path = None if path is None else (path, os.stat(path).st_ino)
        self.address = address

    async def accept(self) -> Stream:
        """See :meth:`Listener.accept`. Where the system has no file descriptors left it waits until it has."""
        while True:
            try:
                sock, peer = self._socket.accept()
                return SocketStream(sock, _peername(self.address, peer))
            except BlockingIOError:
                try:
                    await trio.lowlevel.wait_readable(self._socket)
                except trio.ClosedResourceError as error:
                    raise self._closed() from error
            except OSError as error:
                if self._socket.fileno() < 0:
                    raise self._closed() from error
                if error.errno in _NO_MORE_FILES:
                    await trio.sleep(0.1)
                elif error.errno not in _GONE_ALREADY:
                    raise

    def _closed(self) -> ConnectionLost:
        return ConnectionLost(f"{self.address} does not listen any more")

    async def aclose(self) -> None:
        """See :meth:`Listener.aclose`."""
        if self._socket.fileno() < 0:
            return
        if self._path is not None:
            path, inode = self._path
            with contextlib.suppress(OSError):
                # Another process may have taken the path over.
                if os.stat(path).st_ino == inode:
                    os.unlink(path)
        trio.lowlevel.notify_closing(self._socket)
        self._socket.close()


def _peername(address: str, peer: object) -> str:
    if isinstance(peer, tuple):
        return str(Address("tls" if address.startswith("tls:") else "tcp", str(peer[0]), int(peer[1])))
    return address


async def connect_socket(address: Address) -> SocketStream:
    """Connect by TCP or to a Unix socket. Raises ConnectionLost; cancelled, nothing is left behind."""
    try:
        if address.scheme == "unix":
            sock = (await trio.open_unix_socket(_path(address))).socket
        else:
            sock = (await trio.open_tcp_stream(address.place, address.port)).socket
    except (OSError, RuntimeError, UnicodeError) as error:
        raise ConnectionLost(f"cannot connect to {address}: {_first(error)}") from error
    return SocketStream(socket.socket(fileno=sock.detach()), str(address))


def _first(error: BaseException) -> str:
    # trio gathers the failures of all addresses of a host in a group below the error.
    while isinstance(error, BaseExceptionGroup) or isinstance(error.__cause__, BaseExceptionGroup):
        error = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error.__cause__  # type: ignore[assignment]
    cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
    return _reason(cause)


async def listen_socket(address: Address) -> SocketListener:
    """Listen by TCP or on a Unix socket. Raises OSError, such as for a port that is taken; safe to cancel."""
    if address.scheme == "unix":
        return SocketListener(_bind_unix(_path(address)), str(address), address.place)
    try:
        found = await trio.socket.getaddrinfo(
            address.place, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise OSError(error.errno, f"cannot listen at {address}: {_reason(error)}") from error
    # One socket, so that there is one port; of both families a name has most peers come by IPv4.
    family, kind, protocol, _, where = min(found, key=lambda info: info[0] != socket.AF_INET)
    sock = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(where)
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise OSError(error.errno, f"cannot listen at {address}: {_reason(error)}") from error
    return SocketListener(sock, str(address._replace(port=sock.getsockname()[1])))


def _path(address: Address) -> str:
    if not hasattr(socket, "AF_UNIX"):
        raise OSError(f"{address}: this system has no Unix sockets")
    return address.place


def _bind_unix(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_if_dead(path)
        sock.bind(path)
        os.chmod(path, 0o600)  # before anybody can connect: nothing is accepted until it listens
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise OSError(error.errno, f"cannot listen at unix://{path}: {_reason(error)}") from error
    return sock


def _remove_if_dead(path: str) -> None:
    """Remove the socket of a process that has ended without doing so, and nothing else."""
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            return
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        if probe.connect_ex(path) == errno.ECONNREFUSED:
            os.unlink(path)
