"""Which pickle protocol clients are to use: what they send may go to any worker, and is not pickled anew on its way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hetsched.comm.handshake import Hello
from hetsched.comm.messages import PickleLimited

from .links import ClientLink, WorkerLink

__all__ = ["limit_clients", "suited"]


def suited(hello: Hello, workers: Mapping[str, WorkerLink], peer: Hello) -> Hello:
    """The scheduler's Hello for a peer: to a client it knows no higher protocol than those workers that are here."""
    if peer.role != "client":
        return hello
    lowest = min((link.channel.terms.pickle for link in workers.values()), default=hello.pickle)
    return hello._replace(pickle=lowest) if lowest < hello.pickle else hello


def limit_clients(clients: Iterable[ClientLink], workers: Iterable[WorkerLink]) -> None:
    """Tell clients of workers, where the one or the other are new, that know no such protocol as they use."""
    known = [worker.channel.terms.pickle for worker in workers]
    for client in clients:
        if known and min(known) < client.channel.terms.pickle:
            client.say(PickleLimited(client.name, min(known)))
