"""Frames without bytes: what costs a sender nothing costs a receiver little."""

from __future__ import annotations

import time
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

from hetsched.comm.channel import Channel
from hetsched.comm.packets import MOST_EMPTY, FrameSize, decode_header, encode_header
from hetsched.comm.serialize import serialize
from hetsched.errors import OversizeError, ProtocolError
from hetsched.server.links import Link

NONE = FrameSize(0, 0)


def test_so_many_may_be_empty_and_no_more() -> None:
    header = encode_header([("x",)], [NONE] * MOST_EMPTY + [FrameSize(1, 1)] * 5)
    assert len(decode_header(header, 5)[1]) == MOST_EMPTY + 5
    header = encode_header([("x",)], [NONE] * (MOST_EMPTY + 1))
    with pytest.raises(ProtocolError, match=f"{MOST_EMPTY + 1} frames without bytes; {MOST_EMPTY} are allowed"):
        decode_header(header, 5)


def test_those_with_bytes_are_paid_for_by_who_sends_them() -> None:
    header = encode_header([("x",)], [FrameSize(1, 1)] * (MOST_EMPTY + 1))
    assert len(decode_header(header, MOST_EMPTY + 1)[1]) == MOST_EMPTY + 1


@pytest.mark.parametrize("count", [MOST_EMPTY, 2_000_000])
def test_they_take_little_memory_and_time(count) -> None:
    header = encode_header([], [NONE] * count)
    began = time.process_time()
    tracemalloc.start()
    try:
        frames = decode_header(header, 0)[1]
    except ProtocolError:
        frames = []
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(frames) in (0, MOST_EMPTY)
    assert most < 20 * len(header)
    assert time.process_time() - began < 2


class Silent:
    """A stream that takes what it is given and counts it."""

    peername, local = "silent", True

    async def send_all(self, buffers):
        self.sent = sum(map(len, buffers))


async def test_a_sender_is_told_before_anything_is_sent(monkeypatch) -> None:
    monkeypatch.setattr("hetsched.comm.channel.MOST_EMPTY", 100)
    terms = SimpleNamespace(send_compression=None, send_limit=1 << 30, send_header=1 << 28)
    hello = SimpleNamespace(pins={})
    channel = Channel(Silent(), None, (hello, hello, terms))
    with pytest.raises(OversizeError, match="silent takes 100 frames without bytes at once, not 101"):
        await channel.send([("x",)], [b""] * (101))
    assert channel.packets_out == 0
    await channel.send([("x",)], [b""] * 100 + [b"x"] * 10)
    assert channel.packets_out == 1


def test_buffers_without_bytes_are_not_made_frames_by_those_who_send_values() -> None:
    """So that a list of very many empty arrays is no packet that its reader refuses."""
    _, frames = serialize([np.empty(0, "u1") for _ in range(3000)], 5, ())
    assert len(frames) < 10


def test_messages_that_wait_for_a_peer_leave_in_packets_of_as_many_as_it_takes() -> None:
    link = Link("w", None, 0.0)
    for _ in range(5):
        link.say(("m", "x"), [b""] * (MOST_EMPTY // 2))
    assert [(len(messages), len(frames)) for messages, frames in link._packets] == [
        (2, MOST_EMPTY), (2, MOST_EMPTY), (1, MOST_EMPTY // 2),
    ]  # fmt: skip
