"""What a scheduler keeps of functions and arguments: it believes no client about a function that is also others'."""

from __future__ import annotations

import pytest

from hetsched.comm.digests import digest_of
from hetsched.comm.messages import GraphPart
from hetsched.comm.payloads import Depot
from hetsched.errors import ProtocolError

TRUE, FALSE = b"\0\0a function", b"\0\0another function"


def part(client, digest):
    return GraphPart(client, 1, 1, 0, ("x",), ((),), (0,), (), (), (digest,), ((1, 1, (0,)),))


def take(depot, client, digest, data):
    """Have a depot take a graph of one task; returns its function and its arguments."""
    event = depot.take(part(client, digest), iter([data, b"arguments"]))
    payload, _ = event.tasks[0].args
    return event, [code.data for code in payload.code]


def test_the_same_function_of_two_clients_is_kept_once() -> None:
    depot = Depot()
    one, first = take(depot, "a", digest_of(TRUE), TRUE)
    other, second = take(depot, "b", digest_of(TRUE), bytearray(TRUE))
    assert first == second == [TRUE]
    assert first[0] is second[0]
    del one
    assert depot.gone() == [0]  # the first's arguments, and not the function
    del other
    assert set(depot.gone()) == {1, digest_of(TRUE)}


@pytest.mark.parametrize("lied_first", [True, False])
@pytest.mark.parametrize("digest", [digest_of(TRUE), b"", digest_of(FALSE)[:8], digest_of(TRUE) + b"x"])
def test_a_client_that_lies_about_a_digest_is_told_and_replaces_nothing(lied_first, digest) -> None:
    depot = Depot()
    honest = None if lied_first else take(depot, "a", digest_of(TRUE), TRUE)
    with pytest.raises(ProtocolError, match="a function came under a digest that is not its own"):
        take(depot, "liar", digest, FALSE)
    assert depot.gone() == []
    assert take(depot, "b", digest_of(TRUE), memoryview(TRUE))[1] == [TRUE]
    assert honest is None or honest[1] == [TRUE]
