"""A hundred thousand inputs that are nearly right, or not at all: only ProtocolError, and no memory to speak of."""

from __future__ import annotations

import random
import tracemalloc

import msgpack
import pytest

from hetsched.comm.handshake import decode_hello, encode_hello
from hetsched.comm.introduction import introduce
from hetsched.comm.messages import FROM_CLIENT, FROM_HOLDER, FROM_READER, FROM_WORKER, TO_CLIENT, TO_WORKER
from hetsched.comm.packets import FrameSize, decode_header, encode_header
from hetsched.comm.wire import from_client, from_holder, from_reader, from_worker, to_client, to_worker
from hetsched.errors import ProtocolError

INPUTS = 50_000
PARTS = 5
LIMIT = 1 << 20

NUMBERS = [0, 1, 0x7F, 0x80, 0xC0, 0xC4, 0xC6, 0xD9, 0xDB, 0xDC, 0xDD, 0xDE, 0xDF, 0xFF]


def mutate(rng: random.Random, data: bytes) -> bytes:
    """Change some bytes, cut some out, put some in; now and then nothing of it is left."""
    if rng.random() < 0.05:
        return rng.randbytes(rng.randint(0, 80))
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(changed) + 1)
        match rng.randrange(4):
            case 0 if at < len(changed):
                changed[at] = rng.choice([rng.randrange(256), rng.choice(NUMBERS)])
            case 1:
                del changed[at : at + rng.choice([1, 1, 4, 100])]
            case 2:
                changed[at:at] = bytes(rng.choice(NUMBERS) for _ in range(rng.choice([1, 2, 5])))
            case _:
                other = rng.randrange(len(changed) + 1)
                changed[at:at] = changed[min(at, other) : max(at, other)][:50]
    return bytes(changed)


def feed(decode, seeds: list[bytes], part: int) -> tuple[int, int]:
    """Decode an equal share of the inputs; how many were taken, and how many refused."""
    rng = random.Random(part)
    good = bad = 0
    for _ in range(INPUTS // PARTS):
        try:
            decode(mutate(rng, rng.choice(seeds)))
        except ProtocolError:
            bad += 1
        else:
            good += 1
    return good, bad


@pytest.mark.parametrize("part", range(PARTS))
def test_hellos(part):
    hello = introduce("client", "name", devices={"cuda": 2})
    seeds = [encode_hello(hello._replace(nonce=bytes(32), pins={"pickle-protocol": 4}))]
    good, bad = feed(decode_hello, seeds, part)
    assert good + bad == INPUTS // PARTS
    assert bad > good


@pytest.mark.parametrize("part", range(PARTS))
def test_headers_and_their_messages(part):
    messages = [
        ("Asked", 1, "info", None),
        ("KeysReleased", 3, [1, 2]),
        ("TasksFinished", "cpu", [[1, 0, 0.0, 1.0, 2, 3]], [[1, ["ran", 0.9, "memory"]]], True),
    ]
    messages.append(("WorkerOffered", [{"cpu": 2}, {}, None, 2, 0.05, "3.11"], "tcp://127.0.0.1:1", {"a": 1}))
    columns = ["a", ["b", 1]], [[], [0]], [1], [{"pool": "p"}], [0, 1], [b"d"], [[2, 1, [0]]]
    messages.append(("GraphPart", 1, 2, 0, *columns, 0, [], [["d", "f", [["code", 0.9, "cupy"]]]], [0, 0]))
    messages.append(("ResultsSent", [[1, ["value", 3], 0]], [2], [[3, b"error"]], True, [4, 5], [6, "a"]))
    seeds = [encode_header(messages, [FrameSize(3, 3), FrameSize(2, 10)]), encode_header(messages[:1], [])]
    decoders = (from_client, to_client, from_worker, to_worker, from_reader, from_holder)
    known = 0

    def decode(data: bytes) -> None:
        nonlocal known
        found, sizes = decode_header(data, LIMIT)
        assert sum(size.nbytes for size in sizes) <= LIMIT
        for message in found:
            for decoder in decoders:
                try:
                    assert type(decoder.decode(message, "x")) in decoder.kinds.values()
                except ProtocolError:
                    continue
                known += 1

    good, bad = feed(decode, seeds, part)
    assert good + bad == INPUTS // PARTS
    assert bad > good
    assert known > 1000


@pytest.mark.parametrize(
    "header",
    [
        b"\xdd\xff\xff\xff\xff" * 20,
        b"\x92\xdd\x7f\xff\xff\xff" + b"\x90" * 1000,
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\x92\x90\x91\xcf\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x91" * 100_000,
        msgpack.packb([[], [1 << 40]]),
        msgpack.packb([[], [[1, 1 << 40]]]),
    ],
)
def test_a_promise_costs_no_memory(header):
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            decode_header(header, LIMIT)
        assert tracemalloc.get_traced_memory()[1] < 4 * len(header) + 200_000
    finally:
        tracemalloc.stop()


def test_every_message_has_a_direction():
    kinds = [*FROM_CLIENT, *TO_CLIENT, *FROM_WORKER, *TO_WORKER, *FROM_READER, *FROM_HOLDER]
    assert len({kind.__name__ for kind in kinds}) == len(set(kinds))
