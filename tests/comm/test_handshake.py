"""Two Hellos give the same answer at both ends, and whatever else comes as a Hello is turned away."""

from __future__ import annotations

import random
import tracemalloc

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetsched.comm.handshake import (
    _FIELDS,
    HELLO_LIMIT,
    LOWEST_PICKLE,
    PINS,
    PROTOCOLS,
    Hello,
    Terms,
    agree,
    decode_hello,
    encode_hello,
)
from hetsched.errors import ProtocolError

WORKER = Hello(
    role="worker",
    name="w1",
    protocols=PROTOCOLS,
    python=(3, 11, 7),
    pickle=5,
    compressions=("lz4", "zlib"),
    byteorder="little",
    devices=("cuda",),
    libraries={"numpy": "2.4.0", "msgpack": "1.2.4"},
    max_frame=2**40,
    max_header=2**26,
    nonce=bytes(range(32)),
    device_counts={"cuda": 4},
)
CLIENT = WORKER._replace(
    role="client",
    name="",
    python=(3, 13, 1),
    compressions=("zstd", "zlib", "lz4"),
    devices=(),
    libraries={},
    max_frame=2**30,
    max_header=2**20,
    nonce=bytes(32),
    device_counts={},
)

words = st.text(st.characters(categories=["L", "N", "P"]), max_size=8)
names = st.sampled_from(["lz4", "zstd", "zlib", "snappy"])
pins = st.fixed_dictionaries(
    {},
    optional={
        "send-compression": names | st.just("none"),
        "receive-compression": names | st.just("none"),
        "pickle-protocol": st.integers(3, 6),
    },
)
hellos = st.builds(
    Hello,
    role=st.sampled_from(["scheduler", "worker", "client"]),
    name=words,
    protocols=st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple),
    python=st.tuples(st.just(3), st.integers(11, 14), st.integers(0, 20)),
    pickle=st.integers(3, 6),
    compressions=st.lists(names, max_size=4).map(tuple),
    byteorder=st.sampled_from(["little"] * 5 + ["big"]),
    devices=st.lists(st.sampled_from(["cuda", "rocm"])).map(tuple),
    libraries=st.dictionaries(words, words, max_size=3),
    max_frame=st.integers(1, 2**63 - 1),
    max_header=st.integers(1, 2**32 - 1),
    nonce=st.binary(min_size=32, max_size=32),
    pins=pins,
    device_counts=st.dictionaries(words, st.integers(0, 65535), max_size=3),
)


def test_what_two_ends_agree_on():
    terms = Terms(
        protocol=1,
        send_compression="lz4",
        receive_compression="zlib",
        pickle=5,
        send_devices=(),
        receive_devices=("cuda",),
        send_limit=2**30,
        receive_limit=2**40,
        send_header=2**20,
        receive_header=2**26,
        python=(3, 13, 1),
    )
    assert agree(WORKER, CLIENT._replace(compressions=("zlib", "lz4"))) == terms
    assert agree(CLIENT._replace(compressions=("zlib", "lz4")), WORKER) == terms.flipped((3, 11, 7))


@settings(max_examples=300)
@given(hellos, hellos)
def test_both_ends_come_to_the_same(a, b):
    here, there = agree(a, b), agree(b, a)
    if isinstance(here, str):
        assert here == there
        assert here.isprintable()
        return
    assert isinstance(there, Terms)
    assert here.flipped(a.python) == there
    assert there.flipped(b.python) == here
    assert here.protocol in set(a.protocols) & set(b.protocols)
    assert LOWEST_PICKLE <= here.pickle <= min(a.pickle, b.pickle)
    assert here.send_compression in {None, *a.compressions} & {None, *b.compressions}
    assert (here.send_limit, here.send_header) == (b.max_frame, b.max_header)
    assert set(here.send_devices) == set(b.devices)
    for end, terms in ((a, here), (b, there)):
        none = {"none": None}
        for pin, agreed in zip(PINS, (terms.send_compression, terms.receive_compression, terms.pickle), strict=True):
            if pin in end.pins:
                assert none.get(end.pins[pin], end.pins[pin]) == agreed


@given(hellos)
def test_what_is_agreed_does_not_depend_on_the_order_in_a_dict(hello):
    dicts = ("libraries", "pins", "device_counts")
    turned = hello._replace(**{name: dict(reversed(getattr(hello, name).items())) for name in dicts})
    assert encode_hello(hello) == encode_hello(turned)
    assert agree(WORKER, hello) == agree(WORKER, turned)


@pytest.mark.parametrize(
    ("mine", "theirs", "compressions"),
    [
        ({}, {}, ("lz4", "zstd")),
        ({"compressions": ()}, {}, (None, None)),
        ({"compressions": ("zlib",)}, {}, ("zlib", "zlib")),
        ({"pins": {"send-compression": "zlib"}}, {}, ("zlib", "zstd")),
        ({"pins": {"receive-compression": "none"}}, {}, ("lz4", None)),
        ({}, {"pins": {"receive-compression": "zstd"}}, ("zstd", "zstd")),
        ({"pins": {"send-compression": "none"}}, {"pins": {"receive-compression": "none"}}, (None, "zstd")),
    ],
)
def test_the_compression_of_each_direction(mine, theirs, compressions):
    all_three = WORKER._replace(compressions=("lz4", "zstd", "zlib"))
    terms = agree(all_three._replace(**mine), CLIENT._replace(**theirs))
    assert isinstance(terms, Terms)
    assert (terms.send_compression, terms.receive_compression) == compressions


@pytest.mark.parametrize(
    ("mine", "theirs", "pickle"),
    [
        ({"pickle": 4}, {}, 4),
        ({"pickle": 6}, {}, 5),
        ({"pins": {"pickle-protocol": 4}}, {}, 4),
        ({"pins": {"pickle-protocol": 4}}, {"pins": {"pickle-protocol": 4}}, 4),
    ],
)
def test_the_pickle_protocol(mine, theirs, pickle):
    terms = agree(WORKER._replace(**mine), CLIENT._replace(**theirs))
    assert isinstance(terms, Terms)
    assert terms.pickle == pickle


@pytest.mark.parametrize(
    ("mine", "theirs", "says"),
    [
        (
            {"role": "client", "name": "a"},
            {"name": "b"},
            "client 'a' and client 'b' have nothing to say to each other: both are clients",
        ),
        (
            {"protocols": (2,)},
            {"protocols": (4, 3)},
            "no protocol version in common: an unnamed client speaks 3, 4 and worker 'w1' speaks 2; "
            "use releases of hetsched closer to each other",
        ),
        (
            {"byteorder": "big"},
            {},
            "an unnamed client is little-endian and worker 'w1' is big-endian: "
            "their memory cannot be exchanged as it is",
        ),
        ({"pickle": 3}, {}, "pickle protocol 3 (worker 'w1' knows no other) is too old: at least 4 is needed"),
        ({"pins": {"pickle-protocol": 2}}, {}, "pickle protocol 2 (pinned) is too old: at least 4 is needed"),
        (
            {"pins": {"pickle-protocol": 6}},
            {"pickle": 4},
            "pickle protocol 6 is pinned, and an unnamed client knows none above 4",
        ),
        (
            {"pins": {"pickle-protocol": 5}},
            {"pins": {"pickle-protocol": 4}},
            "an unnamed client is pinned to pickle protocol 4 and worker 'w1' to 5",
        ),
        (
            {"pins": {"send-compression": "zstd"}},
            {},
            "compression 'zstd' is pinned from worker 'w1' to an unnamed client, "
            "and worker 'w1' does not have it (it has: lz4, zlib)",
        ),
        (
            {"pins": {"receive-compression": "lz4"}},
            {"compressions": ()},
            "compression 'lz4' is pinned from an unnamed client to worker 'w1', "
            "and an unnamed client does not have it (it has: none)",
        ),
        (
            {"pins": {"send-compression": "lz4"}},
            {"pins": {"receive-compression": "none"}},
            "worker 'w1' is pinned to send with compression 'lz4' and an unnamed client to receive with 'none'",
        ),
    ],
)
def test_the_sentence_that_says_why_not(mine, theirs, says):
    a, b = WORKER._replace(**mine), CLIENT._replace(**theirs)
    assert agree(a, b) == says
    assert agree(b, a) == says


@given(hellos)
def test_a_hello_comes_back_as_it_was(hello):
    data = encode_hello(hello)
    assert decode_hello(data) == hello
    assert decode_hello(memoryview(data)) == hello


def test_every_field_is_known_to_the_decoder():
    assert tuple(_FIELDS) == Hello._fields


def packed(**changes):
    return msgpack.packb({**WORKER._asdict(), **changes})


def test_what_a_newer_peer_says_beside_is_left_out():
    newer = packed(mood="good", _asdict=[1], pins={"colour": "red", "pickle-protocol": 5}, extra={"a": [{}]})
    assert decode_hello(newer) == WORKER._replace(pins={"pickle-protocol": 5})


def test_a_peer_need_not_count_its_devices():
    fields = WORKER._asdict()
    del fields["device_counts"]
    assert decode_hello(msgpack.packb(fields)) == WORKER._replace(device_counts={})


@pytest.mark.parametrize("field", Hello._fields[:-1])
def test_a_field_that_is_missing(field):
    fields = WORKER._asdict()
    del fields[field]
    with pytest.raises(ProtocolError, match=f"the Hello has no '{field}'"):
        decode_hello(msgpack.packb(fields))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("role", "king"),
        ("role", None),
        ("name", b"w1"),
        ("name", "two\nlines"),
        ("name", "x" * 257),
        ("protocols", []),
        ("protocols", [0]),
        ("protocols", 1),
        ("protocols", [True]),
        ("protocols", list(range(1, 100))),
        ("python", [3, 11]),
        ("python", [3, 11, 7, 0]),
        ("python", [3, 11, -7]),
        ("pickle", 5.0),
        ("pickle", 256),
        ("compressions", "lz4"),
        ("compressions", [1]),
        ("byteorder", "middle"),
        ("devices", [["cuda"]]),
        ("libraries", ["numpy"]),
        ("libraries", {"numpy": 2}),
        ("libraries", {f"l{i}": "1" for i in range(513)}),
        ("max_frame", 0),
        ("max_frame", 2**64 - 1),
        ("max_header", 2**32),
        ("nonce", bytes(31)),
        ("nonce", "x" * 32),
        ("pins", []),
        ("pins", {"send-compression": 4}),
        ("pins", {"pickle-protocol": "5"}),
        ("pins", {"pickle-protocol": -1}),
        ("device_counts", 2),
        ("device_counts", {"cuda": -1}),
        ("device_counts", {"cuda": 65536}),
        ("device_counts", {"cuda": True}),
        ("device_counts", {"cuda": None}),
        ("device_counts", {"two\nlines": 2}),
        ("device_counts", {f"k{i}": 1 for i in range(65)}),
    ],
)
def test_a_field_that_is_wrong(field, value):
    with pytest.raises(ProtocolError) as caught:
        decode_hello(packed(**{field: value}))
    assert len(str(caught.value)) < 300
    if field != "libraries" and not isinstance(value, list):
        assert field in str(caught.value)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "the Hello is not msgpack"),
        (b"\x01", "a Hello is a map, not int"),
        (b"GET / HTTP/1.1\r\n\r\n", "the Hello is not msgpack"),
        (b"\x80\x00", "the Hello is not msgpack"),
        (b"\x80", "the Hello has no 'role'"),
        (b"\x81\xa1", "the Hello is not msgpack"),
        (b"\x81\x80\x00", "the Hello is not msgpack"),  # a dict as a key
        (b"\x81\xa1\xff\x00", "the Hello is not msgpack"),  # not UTF-8
        (b"\x91" * 60_000 + b"\x00", "the Hello is not msgpack"),  # deeper than anyone needs
        (b"\xc1", "the Hello is not msgpack"),
        (b"\xd7\xff" + b"\xff" * 8, "the Hello is not msgpack"),  # a date that there is not
        (bytes(HELLO_LIMIT + 1), f"a Hello of {HELLO_LIMIT + 1} bytes; {HELLO_LIMIT} are allowed"),
        (memoryview(bytes(4 * HELLO_LIMIT)).cast("I"), f"a Hello of {4 * HELLO_LIMIT} bytes"),
    ],
    ids=range(13),
)
def test_what_is_no_hello(data, says):
    with pytest.raises(ProtocolError, match=says):
        decode_hello(data)


LIMIT = 32 * HELLO_LIMIT

BOMBS = {
    "arrays that claim to be long": b"\xdd\x7f\xff\xff\xff",
    "long arrays in long arrays": b"\xdc\xff\xff" * 20_000,
    "allowed arrays in allowed arrays": b"\xdc\x00\x40" * 20_000,
    "a long map": b"\xdf\xff\xff\xff\xff",
    "a long text": b"\xdb\xff\xff\xff\xff",
    "long bytes": b"\xc6\xff\xff\xff\xff",
    "a long extension": b"\xc9\xff\xff\xff\xff\x01",
    "maps in maps": b"\x81\xa0" * 30_000,
}


@pytest.mark.parametrize("data", BOMBS.values(), ids=BOMBS)
def test_no_memory_is_taken_for_what_is_only_claimed(data):
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            decode_hello(data)
        assert tracemalloc.get_traced_memory()[1] < LIMIT
    finally:
        tracemalloc.stop()


def mutated(rng):
    """A Hello with some bytes changed, cut out, put in or repeated; or bytes alone."""
    if rng.random() < 0.2:
        return rng.randbytes(rng.randrange(200))
    data = bytearray(encode_hello(rng.choice((WORKER, CLIENT))))
    for _ in range(rng.randrange(1, 5)):
        at, length = rng.randrange(len(data) + 1), rng.randrange(1, 9)
        what = rng.randrange(4)
        if what == 0:
            data[at : at + length] = rng.randbytes(length)
        elif what == 1:
            del data[at : at + length]
        elif what == 2:
            # the bytes that begin containers and long things
            data[at : at + 1] = bytes([rng.choice(b"\xc1\xc4\xc6\xc7\xc9\xd9\xdb\xdc\xdd\xde\xdf\x8f\x9f\xbf")])
        else:
            data[at:at] = data[at : at + length] * rng.randrange(1, 50)
    return bytes(data)


def outcome(data):
    """Whether the decoder takes it; anything but a ProtocolError goes through."""
    try:
        hello = decode_hello(data)
    except ProtocolError as error:
        said = str(error)
    else:
        assert decode_hello(encode_hello(hello)) == hello
        return True
    assert said.isprintable()
    assert len(said) < 500
    return False


def test_five_thousand_broken_hellos():
    rng = random.Random(7)
    tracemalloc.start()
    try:
        taken = [outcome(mutated(rng)) for _ in range(5000)]
        assert tracemalloc.get_traced_memory()[1] < LIMIT
    finally:
        tracemalloc.stop()
    assert 0 < sum(taken) < 2500


@settings(max_examples=300)
@given(
    st.binary(max_size=300)
    | st.dictionaries(
        st.sampled_from(Hello._fields),
        st.recursive(
            st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | words | st.binary(max_size=40),
            lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
            max_leaves=8,
        ),
    ).map(lambda changes: packed(**changes))
)
def test_whatever_hypothesis_thinks_of(data):
    outcome(data)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"nonce": b""}, "this Hello cannot be sent: 'nonce' of the Hello is b''; it has to be 32 bytes"),
        (
            {"pins": {"pickle": 5}},
            "no such pin: pickle; there are send-compression, receive-compression, pickle-protocol",
        ),
        ({"name": "a\n"}, "this Hello cannot be sent: 'name' of the Hello is 'a\\n'; it has to be a printable text"),
        ({"max_frame": 2**70}, "this Hello cannot be sent: Integer value out of range"),
        ({"name": "\ud800"}, None),
        (
            {"libraries": {f"{i}": "x" * 250 for i in range(300)}},
            f"this Hello cannot be sent: a Hello of 76911 bytes; {HELLO_LIMIT} are allowed",
        ),
    ],
    ids=range(6),
)
def test_a_hello_that_cannot_be_sent(changes, says):
    with pytest.raises(ValueError) as caught:
        encode_hello(WORKER._replace(**changes))
    assert says in (None, str(caught.value))
