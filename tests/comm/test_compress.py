"""What goes in comes out, what is not worth it is left alone, and no peer makes us take memory with a lie."""

from __future__ import annotations

import mmap
import random
import struct
import subprocess
import sys
import threading
import tracemalloc
import zlib

import lz4.block
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetsched.comm.compress import LARGEST, SMALLEST, available, compress, decompress
from hetsched.errors import ProtocolError

ALL = pytest.mark.parametrize("name", available())
RANDOM = random.Random(5).randbytes(1_000_000)


def test_the_names_best_first():
    assert [name for name in ("lz4", "zstd", "zlib") if name in available()] == list(available())
    assert {"lz4", "zlib"} <= set(available())


@pytest.mark.parametrize(
    ("missing", "left"),
    [(["lz4", "zstandard"], "('zlib',)"), (["zstandard"], "('lz4', 'zlib')")],
    ids=["zlib", "lz4 and zlib"],
)
def test_a_process_without_some_of_them(missing, left):
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({missing!r}))\n"
        "from hetsched.comm import compress\n"
        "print(compress.available())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == left


@ALL
@pytest.mark.parametrize("nbytes", [SMALLEST, 5000, 300_000, 3_000_000])
def test_there_and_back(name, nbytes):
    data = (b"some text that repeats " * (nbytes // 23 + 1))[:nbytes]
    made = compress(name, data)
    assert type(made) is bytes
    assert len(made) < nbytes / 4
    for kind in (bytes, bytearray, memoryview):
        out = decompress(name, kind(made), nbytes)
        assert type(out) is bytearray
        assert out == data


@ALL
@settings(max_examples=50)
@given(st.binary(min_size=1, max_size=200), st.integers(1, 2000))
def test_whatever_is_repeated_comes_back(name, piece, times):
    data = piece * times
    made = compress(name, data)
    assert made is None or decompress(name, made, len(data)) == data


@ALL
def test_arrays_of_any_shape(name):
    array = np.arange(60_000, dtype="i8").reshape(30, 20, 100)
    for buffer in (memoryview(array), memoryview(array[3:7])):
        made = compress(name, buffer)
        assert made is not None
        assert decompress(name, made, buffer.nbytes) == buffer.tobytes()
    for left in (array[:, ::2], array.T, array[:0], np.zeros(())):
        assert compress(name, memoryview(left)) is None


@ALL
@pytest.mark.parametrize("nbytes", [SMALLEST, 100_000, 1_000_000])
def test_what_does_not_shrink_is_left_alone(name, nbytes):
    assert compress(name, RANDOM[:nbytes]) is None


@ALL
def test_small_buffers_are_left_alone(name):
    assert compress(name, b"") is None
    assert compress(name, bytes(SMALLEST - 1)) is None


@ALL
def test_very_large_buffers_are_left_alone(name):
    with mmap.mmap(-1, LARGEST + 1) as large, memoryview(large) as view:  # pages that nobody touches take no memory
        assert compress(name, view) is None


@ALL
def test_a_large_buffer_is_tried_on_a_sample_first(name):
    """Of a buffer that is random where samples are taken nothing else is looked at."""
    large = bytearray(RANDOM * 20)
    tracemalloc.start()
    try:
        assert compress(name, large) is None
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    # A random beginning does not hide what follows.
    large[100_000:] = bytes(len(large) - 100_000)
    made = compress(name, large)
    assert made is not None
    assert decompress(name, made, len(large)) == large


@ALL
def test_many_threads_at_once(name):
    wrong = []

    def work(seed):
        data = random.Random(seed).randbytes(500) * 400
        for _ in range(20):
            made = compress(name, data)
            if made is None or decompress(name, made, len(data)) != data:
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@ALL
@pytest.mark.parametrize("nbytes", [0, -1, 1, 3999, 4001, 400_000, LARGEST, LARGEST + 1, 2**63, 2**70])
def test_a_size_that_is_not_true(name, nbytes):
    made = compress(name, b"abcd" * 1000)
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            decompress(name, made, nbytes)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@ALL
def test_broken_data(name):
    data = bytes(range(256)) * 20
    made = compress(name, data)
    broken = [b"", b"\0", RANDOM[:500], made[:-1], made[: len(made) // 2], made[1:]]
    for bad in broken:
        with pytest.raises(ProtocolError):
            decompress(name, bad, len(data))


@ALL
def test_mutated_data(name):
    """Nothing but a ProtocolError, or as many bytes as were said."""
    data = bytes(range(256)) * 20
    made = compress(name, data)
    rng = random.Random(3)
    refused = 0
    for _ in range(2000):
        bad = bytearray(made)
        for _ in range(rng.randrange(1, 4)):
            bad[rng.randrange(len(bad))] = rng.randrange(256)
        try:
            assert len(decompress(name, bad, len(data))) == len(data)
        except ProtocolError:
            refused += 1
    assert refused > 200


def test_what_comes_behind_zlib():
    made = zlib.compress(bytes(5000))
    for more in (b"x", made):
        with pytest.raises(ProtocolError, match="more than 5000 bytes"):
            decompress("zlib", made + more, 5000)
    pieces = zlib.compress(RANDOM[:200_000])
    assert decompress("zlib", pieces, 200_000) == RANDOM[:200_000]
    with pytest.raises(ProtocolError, match="more than 199999 bytes"):
        decompress("zlib", pieces, 199_999)
    with pytest.raises(ProtocolError, match="fewer than 200001 bytes"):
        decompress("zlib", pieces, 200_001)


def test_lz4_reads_what_others_make():
    data = b"abcdef" * 1000
    assert decompress("lz4", lz4.block.compress(data, mode="high_compression", store_size=False), 6000) == data


def test_zstd_states_its_size():
    zstandard = pytest.importorskip("zstandard")
    data = bytes(5000)
    silent = zstandard.ZstdCompressor(write_content_size=False).compress(data)
    with pytest.raises(ProtocolError, match="states -1 bytes, and its header 5000"):
        decompress("zstd", silent, 5000)
    # A single-segment frame that states 2 GB: its header is all there is.
    liar = struct.pack("<IBI", 0xFD2FB528, 0b10100000, LARGEST)
    with pytest.raises(ProtocolError, match=f"states {LARGEST} bytes, and its header 5000"):
        decompress("zstd", liar, 5000)


def test_a_name_that_is_not_there():
    for call in (lambda: compress("snappy", bytes(5000)), lambda: decompress("snappy", b"x", 5000)):
        with pytest.raises(ValueError, match="no compression 'snappy' here; there is lz4, "):
            call()
