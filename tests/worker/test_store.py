"""The store: a dict that keeps what was used longest ago on disk, whatever happens meanwhile."""

from __future__ import annotations

import errno
import gc
import os
import pickle
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsched.worker import spill_files
from hetsched.worker.spill_files import SpillFiles
from hetsched.worker.spilling import RETRY_SECONDS, dump_here, load_here
from hetsched.worker.store import Store, StoreStats
from hetsched.worker.usage import SMALL, Usage


def dump(value):
    frames = []
    return pickle.dumps(value, protocol=5, buffer_callback=frames.append), frames


def load(header, frames):
    return pickle.loads(header, buffers=frames)


def sized(value):
    return (0, 0) if value is None else (value.nbytes if hasattr(value, "nbytes") else len(value), 0)


class Fixture:
    """A store in a folder of its own, and what it said."""

    def __init__(self, folder, **options):
        self.folder = folder
        self.said = []
        options = {"dump": dump, "load": load, "measure": sized, **options}
        self.store = Store(options.pop("target", None), folder, say=self.said.append, **options)

    def on_disk(self):
        return [key for key, away in self.store._away.items() if away.path is not None]

    def files(self):
        return [file for _, _, files in os.walk(self.folder) for file in files]


@pytest.fixture
def make(tmp_path):
    made = []

    def make(**options):
        made.append(Fixture(tmp_path, **options))
        return made[-1]

    yield make
    for fixture in made:
        check(fixture.store)
        fixture.store.close()
    assert os.listdir(tmp_path) == []


def check(store):
    """The books agree with what is there."""
    usage, away = store._usage, store._away
    assert set(store._fast).isdisjoint(away)
    assert set(usage.sizes) <= set(store._fast) | set(away)
    assert usage.host_nbytes == sum(host for host, _ in usage.sizes.values())
    assert usage.cuda_nbytes == sum(cuda for _, cuda in usage.sizes.values())
    assert store._spiller.disk_nbytes == sum(a.stored for a in away.values())
    written = {a.path for a in away.values() if a.path is not None}
    assert {path for folder in {path.parent for path in written} for path in folder.iterdir()} == written
    on_device = {key: cuda for key, (_, cuda) in usage.sizes.items() if cuda}
    assert set(usage.devices) == set(on_device)
    held = {n: sum(on_device[key] for key, device in usage.devices.items() if device == n) for n in usage.held}
    assert usage.held == held
    assert {key for order in usage._on.values() for key in order} == set(usage._device) <= set(on_device)
    assert all(usage.devices[key] == n for n, order in usage._on.items() for key in order)
    assert usage._leaving == {}


def test_what_is_used_longest_ago_goes_and_comes_back(make):
    f = make(target=10_000)
    for key in range(5):
        f.store[key] = bytes([key]) * 2000
    assert f.on_disk() == []
    assert f.store[0] == bytes(2000)  # used now
    f.store[5] = bytes([5]) * 2000
    f.store[6] = bytes([6]) * 2000
    assert f.on_disk() == [1, 2]
    assert (len(f.files()), f.said) == (2, [])
    assert f.store[1] == b"\1" * 2000
    assert f.on_disk() == [2, 3]
    written = f.store._spiller.disk_nbytes
    assert 4000 < written < 4400
    assert f.store.stats() == StoreStats(5, 0, 2, 10_000, 0, written, 3, 1, 0)
    assert [f.store[key] for key in range(7)] == [bytes([key]) * 2000 for key in range(7)]


def test_small_ones_and_uncounted_ones_stay(make):
    f = make(target=1500, measure=None)
    for key in range(4):
        f.store[key] = b"x" * (SMALL - 1)
        f.store.note(key, SMALL - 1)
    f.store[9] = b"x" * 5000
    assert (f.on_disk(), len(f.store)) == ([], 5)
    f.store.note_many([(9, 5000, 0), (77, 10_000, 0)])
    assert (f.on_disk(), len(f.store)) == ([9], 5)
    assert f.store[9] == b"x" * 5000  # the one that is asked for stays, though it is too much by itself
    assert f.on_disk() == []


@pytest.mark.parametrize("target", [None, 0])
def test_without_a_limit_nothing_goes_by_itself(make, target):
    f = make(target=target)
    for key in range(3):
        f.store[key] = bytes(10**6)
    assert f.on_disk() == []
    assert f.store.make_room() == 0
    assert f.store.make_room(1_500_000) == 2 * 10**6
    assert f.on_disk() == [0, 1]


def test_pop_and_del_do_not_read(make):
    f = make(load=None)
    for key in range(4):
        f.store[key] = bytes(2000)
    f.store.make_room(0)
    assert f.on_disk() == [0, 1, 2, 3]
    assert f.store.pop(0, None) is None
    del f.store[1]
    f.store[2] = b"new"
    assert (sorted(f.store), f.on_disk(), len(f.files())) == ([2, 3], [3], 1)
    assert [key in f.store for key in range(5)] == [False, False, True, True, False]


def test_drop_does_not_read(make):
    f = make(load=None)
    for key in range(4):
        f.store[key] = bytes(2000)
    f.store.make_room(0)
    f.store[4] = b"here"
    assert f.store.drop([0, 1, 4, 5, 0]) == [None, None, b"here", None, None]
    assert (sorted(f.store), f.on_disk(), len(f.files())) == ([2, 3], [2, 3], 2)


def test_pop_without_a_default_reads(make):
    f = make()
    f.store[0] = bytes(2000)
    f.store.make_room(0)
    assert f.store.pop(0) == bytes(2000)
    for call in (f.store.pop, f.store.__delitem__, f.store.__getitem__):
        with pytest.raises(KeyError):
            call(0)
    assert (f.store.get(0), f.store.get(0, 5), f.store.pop(0, 5), list(f.store), f.files()) == (None, 5, 5, [], [])


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["set", "get", "pop", "del", "drop", "room", "in"]), st.integers(0, 5), st.integers(0, 3000)
    ),
    max_size=40,
)


@given(operations=OPERATIONS)
def test_it_is_a_dict(tmp_path_factory, operations):
    f = Fixture(tmp_path_factory.mktemp("s"), target=5000)
    model = {}
    try:
        for number, (operation, key, size) in enumerate(operations):
            match operation:
                case "set":
                    f.store[key] = model[key] = bytes([number]) * size
                case "get":
                    assert f.store.get(key) == model.get(key)
                case "pop":
                    assert f.store.pop(key, None) in (model.pop(key, None), None)
                case "del" if key in model:
                    del f.store[key], model[key]
                case "drop":
                    keys = [key, (key + size) % 6, 7]
                    values = [model.pop(one, None) for one in keys]
                    assert all(got in (value, None) for got, value in zip(f.store.drop(keys), values, strict=True))
                case "room":
                    f.store.make_room(size)
                case _:
                    assert (key in f.store) == (key in model)
            check(f.store)
            assert (len(f.store), sorted(f.store)) == (len(model), sorted(model))
            assert f.store.stats().nbytes <= max(5000, size) + 5 * SMALL
        assert dict(f.store) == model
    finally:
        f.store.close()


def test_values_come_back_as_they_were(make):
    arrays = [
        np.arange(6000.0).reshape(2, 3000),
        np.asfortranarray(np.arange(6000.0).reshape(2, 3000)),
        np.empty((0, 3)),
        np.array(5.0),
        np.arange(3000)[::-2].copy(),
        np.array(["a", None], object),
    ]
    others = [b"x" * 5000, "text" * 1000, [1, {"a": (2.5, np.float32(3))}], None, {"f": len}, bytearray(3000), 2**70]
    f = make(measure=lambda value: (2000, 0), dump=dump_here, load=load_here)
    for key, value in enumerate([*arrays, *others]):
        f.store[key] = value
    count = len(arrays) + len(others)
    assert f.store.make_room(0) == 2000 * count
    for key, array in enumerate(arrays):
        back = f.store[key]
        assert (back.dtype, back.shape, back.flags.f_contiguous) == (array.dtype, array.shape, array.flags.f_contiguous)
        assert (back == array).all()
        assert back.flags.writeable
    for key, value in enumerate(others, len(arrays)):
        assert (f.store[key], type(f.store[key])) == (value, type(value))
    assert f.store.stats() == StoreStats(count, 0, 0, 2000 * count, 0, 0, count, count, 0)


# Several threads


def test_many_readers_of_one_file_read_it_once(make):
    loads = []
    start = threading.Barrier(8)

    def slowly(header, frames):
        loads.append(threading.get_ident())
        return load(header, frames)

    f = make(load=slowly)
    for _ in range(20):
        f.store[1] = bytearray(100_000)
        f.store.make_room(0)
        loads.clear()

        def read(store=f.store):
            start.wait()
            return store[1]

        with ThreadPoolExecutor(8) as pool:
            values = [future.result() for future in [pool.submit(read) for _ in range(8)]]
        assert len({id(value) for value in values}) == 1
        assert (values[0], len(loads)) == (bytearray(100_000), 1)
    assert f.files() == []


@pytest.mark.parametrize("when", ["serialised", "written"])
@pytest.mark.parametrize("what", ["popped", "replaced", "closed", "read"])
def test_what_changes_while_it_is_written(make, monkeypatch, when, what):
    value = bytes(5000)

    def strike(*args):
        match what:
            case "popped":
                f.store.pop(1, None)
            case "replaced":
                f.store[1] = b"new"
            case "closed":
                f.store.close()
            case "read":
                assert f.store[1] is value
        return inner(*args)

    inner = dump if when == "serialised" else spill_files.write_file
    if when == "written":
        monkeypatch.setattr(spill_files, "write_file", strike)
    f = make(dump=strike if when == "serialised" else dump, measure=None)
    f.store[1] = value
    f.store.note(1, 5000)
    freed = f.store.make_room(0)
    if what == "read":
        assert (freed, f.on_disk(), f.store[1]) == (5000, [1], value)
    else:
        left = {"popped": None, "replaced": b"new", "closed": value}[what]
        assert (freed, f.on_disk(), f.files(), f.store.get(1)) == (0, [], [], left)
        assert (1 in f.store) == (left is not None)
    assert f.said == []


@pytest.mark.parametrize("what", ["popped", "replaced", "closed"])
def test_what_changes_while_it_is_read(make, what):
    def strike(header, frames):
        match what:
            case "popped":
                f.store.pop(1, None)
            case "replaced":
                f.store[1] = b"new"
            case "closed":
                f.store.close()
        return load(header, frames)

    f = make(load=strike)
    f.store[1] = bytes(5000)
    f.store.make_room(0)
    assert f.store[1] == bytes(5000)
    assert f.store.get(1) == (b"new" if what == "replaced" else None)
    assert (f.on_disk(), f.files(), f.said) == ([], [], [])


def test_what_is_popped_before_its_file_is_opened(make, monkeypatch):
    def strike(self, path):
        f.store.pop(1, None)
        return inner(self, path)

    inner = SpillFiles.read
    f = make()
    f.store[1] = bytes(5000)
    f.store.make_room(0)
    monkeypatch.setattr(SpillFiles, "read", strike)
    with pytest.raises(KeyError):
        f.store[1]
    assert (f.said, f.store.stats().lost) == ([], 0)


@pytest.mark.parametrize("seed", range(3))
def test_threads_that_do_everything_at_once(make, seed):
    f = make(target=20_000)
    start = threading.Barrier(4)

    def work(number):
        random = Random(f"{seed} {number}")
        start.wait()
        for _ in range(400):
            key = random.randrange(20)
            match random.randrange(8):
                case 0 | 1 | 2:
                    f.store[key] = bytes([key]) * random.choice([10, 1500, 3000])
                case 3 | 4 | 5:
                    value = f.store.get(key)
                    assert value is None or set(value) == {key}
                case 6:
                    assert set(f.store.pop(key, b"")) <= {key}
                case 7:
                    f.store.make_room(random.randrange(20_000))

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(work, number) for number in range(4)]:
            future.result()
    check(f.store)
    assert all(set(value) == {key} for key, value in f.store.items())
    assert (f.said, f.store.stats().lost) == ([], 0)
    for key in list(f.store):
        del f.store[key]
    assert f.store.stats()[:6] == (0, 0, 0, 0, 0, 0)
    assert f.files() == []


# Faults


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device"),
            "the disk is full: results stay in memory rather than in {}",
        ),
        (OSError(errno.EROFS, "Read-only"), "cannot write to {}, results stay in memory: [Errno 30] Read-only"),
    ],
    ids=["full", "read-only"],
)
def test_a_disk_that_takes_no_more(make, monkeypatch, error, says):
    tries = []
    full = True

    def write(path, parts):
        tries.append(path)
        if full:
            path.write_bytes(b"half")
            raise error
        inner(path, parts)

    inner = spill_files.write_file
    monkeypatch.setattr(spill_files, "write_file", write)
    f = make(target=10_000)
    f.store._spiller.clock = lambda: 1000.0
    for key in range(20):
        f.store[key] = bytes([key]) * 2000
    assert (len(tries), f.on_disk(), f.files()) == (1, [], [])
    assert f.said == [says.format(tries[0].parent)]
    assert [f.store[key][0] for key in range(20)] == list(range(20))

    f.store._spiller.clock = lambda: 1000.0 + RETRY_SECONDS
    f.store[20] = bytes(2000)
    assert (len(tries), f.on_disk(), len(f.said)) == (2, [], 1)

    full = False
    f.store._spiller.clock = lambda: 1000.0 + 2 * RETRY_SECONDS
    f.store[21] = bytes(2000)
    assert (len(f.on_disk()), f.store.stats().nbytes, len(f.said)) == (17, 10_000, 1)

    full = True
    del f.store[f.on_disk()[0]]
    f.store[22] = bytes(2000)
    assert (len(f.on_disk()), f.store.stats().nbytes) == (16, 12_000)
    full = False
    del f.store[f.on_disk()[0]]  # there is space again, so no waiting
    f.store[23] = bytes(2000)
    assert f.store.stats().nbytes == 10_000


def test_a_folder_that_somebody_deletes(make):
    f = make()
    for key in range(4):
        f.store[key] = bytes([key]) * 2000
    f.store.make_room(4000)
    gone = f.store._spiller._files.folder
    shutil.rmtree(gone)
    assert 0 in f.store
    for key in (0, 1):
        with pytest.raises(KeyError):
            f.store[key]
        assert key not in f.store
    assert f.said == [f"a result on disk is lost: [Errno 2] No such file or directory: '{gone / '0'}'"]
    assert f.store.stats().lost == 2
    assert f.store.make_room(0) == 4000
    assert (f.store._spiller._files.folder != gone, f.on_disk()) == (True, [2, 3])
    assert (f.store[2], f.store[3]) == (b"\2" * 2000, b"\3" * 2000)


@pytest.mark.parametrize("length", [0, 5, 30, 3000, -1])
def test_a_file_that_is_not_whole(make, length):
    f = make()
    f.store[1] = np.arange(1000)
    f.store.make_room(0)
    path = f.store._away[1].path
    data = path.read_bytes()
    path.write_bytes(data[:length] if length >= 0 else data + b"x")
    assert f.store.get(1) is None
    assert (len(f.said), f.said[0].startswith("a result on disk is lost: "), f.files()) == (1, True, [])
    f.store[1] = np.arange(1000)  # made anew
    f.store.make_room(0)
    assert (f.store[1] == np.arange(1000)).all()


class Stubborn:
    """Cannot be serialised."""

    def __init__(self, error):
        self.error = error

    def __reduce__(self):
        raise self.error


def test_values_that_cannot_be_serialised_stay(make):
    f = make(target=10_000, measure=lambda value: (4000, 0))
    values = [Stubborn(ValueError("no")), Stubborn(SystemExit(3)), threading.Lock(), b"x", b"y"]
    for key, value in enumerate(values):
        f.store[key] = value
    assert f.on_disk() == [3, 4]
    assert [f.store[key] is value for key, value in enumerate(values)] == [True, True, True, False, False]
    name = f"{__name__}.Stubborn"
    assert f.said == [
        f"a result of type {name} cannot be serialised and stays in memory: ValueError('no')",
        "a result of type _thread.lock cannot be serialised and stays in memory: "
        "TypeError(\"cannot pickle '_thread.lock' object\")",
    ]


def test_headers_that_msgpack_cannot_take(make):
    f = make(dump=lambda value: (object(), []))
    f.store[1] = bytes(2000)
    assert (f.store.make_room(0), f.store[1], f.files()) == (0, bytes(2000), [])
    assert len(f.said) == 1


def test_what_cannot_be_made_of_its_file_stays_in_memory_next_time(make):
    def fail(header, frames):
        raise RuntimeError("no")

    f = make(load=fail)
    for _ in range(2):
        f.store[1] = bytes(2000)
        f.store[2] = bytes(2000)
        f.store.make_room(0)
        assert f.store.get(1) in (None, bytes(2000))
    assert (f.store[1], f.on_disk()) == (bytes(2000), [2])
    assert f.said == ["a result that was serialised cannot be made again: RuntimeError('no')"]


def test_no_memory_to_read_into(make):
    enough = False

    def maybe(header, frames):
        if not enough:
            raise MemoryError
        return load(header, frames)

    f = make(load=maybe)
    f.store[1] = bytes(2000)
    f.store.make_room(0)
    with pytest.raises(MemoryError):
        f.store[1]
    enough = True
    assert f.store[1] == bytes(2000)


def test_close_and_the_end(make, tmp_path):
    f = make()
    f.store[1], f.store[2] = bytes(2000), bytes(3000)
    f.store.make_room(3000)
    f.store.close()
    assert (os.listdir(tmp_path), dict(f.store)) == ([], {2: bytes(3000)})
    f.store.make_room(0)
    f.store.close()
    assert (os.listdir(tmp_path), dict(f.store), f.said) == ([], {2: bytes(3000)}, [])

    files = SpillFiles(tmp_path / "new" / "er")
    folder = files.write(None, [b"x"])[0].parent
    assert (folder.parent, folder.stat().st_mode & 0o777) == (tmp_path / "new" / "er", 0o700)
    del files  # never closed
    gc.collect()
    assert os.listdir(tmp_path / "new" / "er") == []
    shutil.rmtree(tmp_path / "new")


# Devices


class OnDevice:
    """Pretends to live on a device; ``copies`` are made from there and back."""

    def __init__(self, data):
        self.data = data

    def __reduce__(self):
        return OnDevice, (pickle.PickleBuffer(bytearray(self.data)),)


def measure_device(value):
    return (len(value.data), len(value.data)) if type(value) is OnDevice else (len(value), 0)


def test_device_results_go_to_the_host_first_and_then_to_disk(make):
    f = make(target=10_000, device_target=8000, measure=measure_device)
    for key in range(6):
        f.store[key] = OnDevice(bytes([key]) * 3000)
    stats = f.store.stats()
    assert stats == StoreStats(2, 3, 1, 9000, 6000, f.store._spiller.disk_nbytes, 1, 0, 0)
    assert f.on_disk() == [0]
    for key in (0, 2, 5):
        back = f.store[key]
        assert (type(back), bytes(back.data)) == (OnDevice, bytes([key]) * 3000)
        assert f.store.stats().cuda_nbytes <= 8000
    check(f.store)
    assert f.store.stats().nbytes <= 10_000


def test_the_limits_are_apart(make):
    f = make(device_target=5000, measure=measure_device)
    for key in range(4):
        f.store[key] = OnDevice(bytes(3000)) if key % 2 else bytes(10**6)
    assert f.store.stats()[:5] == (3, 1, 0, 2 * 10**6 + 3000, 3000)
    assert (f.store.spill_device(1), f.store.spill_device()) == (3000, 0)
    assert f.store.stats()[:5] == (2, 2, 0, 2 * 10**6 + 6000, 0)
    assert f.store.make_room(0) == 2 * 10**6 + 6000
    assert f.store.stats()[:5] == (0, 0, 4, 0, 0)
    assert (type(f.store[1]), f.store[0]) == (OnDevice, bytes(10**6))
    assert f.store.stats()[:5] == (2, 0, 2, 10**6, 3000)


def test_a_device_result_that_goes_while_it_is_packed(make):
    def strike(value):
        f.store.pop(1, None)
        return dump(value)

    f = make(dump=strike, measure=measure_device)
    f.store[1] = OnDevice(bytes(3000))
    assert f.store.spill_device() == 0
    assert (len(f.store), f.store.stats()[:6]) == (0, (0, 0, 0, 0, 0, 0))


class Devices:
    """A store of results on two devices, of 3000 bytes each, and devices as a library counts them."""

    def __init__(self, make, *each, **options):
        def locate(value):
            return value.device if isinstance(value, OnOne) else None

        self.f = make(device_target=sum(each), device_targets=each, locate=locate, measure=self.measure, **options)
        self.store = self.f.store

    def measure(self, value):
        return (3000, 3000) if isinstance(value, OnDevice) else (len(value), 0)

    def put(self, *devices):
        """Store results on these devices, under the numbers that follow those there are; None is an unknown one."""
        for key, device in enumerate(devices, len(self.store)):
            self.store[key] = OnDevice(bytes(3000)) if device is None else OnOne(device)

    @property
    def here(self):
        return sorted(self.store._fast)


class OnOne(OnDevice):
    """Is on one device, and comes back on the current one."""

    current = 0

    def __init__(self, device):
        super().__init__(bytes(3000))
        self.device = device

    @classmethod
    def back(cls, data):
        one = cls(cls.current)
        one.data = data
        return one

    def __reduce__(self):
        return OnOne.back, (pickle.PickleBuffer(bytearray(self.data)),)


def test_what_is_too_much_on_a_device_leaves_that_one(make):
    d = Devices(make, 6000, 9000)
    d.put(1, 0, 0, 1, 0)
    assert d.here == [0, 2, 3, 4]  # of device 0 what was used longest ago, though device 1 has what is older
    assert d.store.stats().on_devices == (6000, 6000)
    assert d.store.device_room() == [3000, 0, 3000]
    assert d.store[2].device == 0
    d.put(0)
    assert (d.here, d.store.stats().on_devices) == ([0, 2, 3, 5], (6000, 6000))


def test_what_comes_back_is_counted_where_it_comes_to(make, monkeypatch):
    d = Devices(make, 6000, 9000)
    d.put(0, 0, 0)
    assert d.here == [1, 2]
    monkeypatch.setattr(OnOne, "current", 1)
    assert d.store[0].device == 1
    assert (d.here, d.store.stats().on_devices) == ([0, 1, 2], (6000, 3000))
    monkeypatch.setattr(OnOne, "current", 0)
    assert d.store.spill_device(device=1) == 3000
    assert d.store[0].device == 0
    assert (len(d.here), d.store.stats().on_devices) == (2, (6000, 0))


def test_what_is_on_nobody_knows_which_counts_for_all(make):
    d = Devices(make, 6000, 6000)
    d.put(None, None, None, None, 0)
    assert (d.here, d.store.stats()[4], d.store.stats().on_devices) == ([1, 2, 3, 4], 12_000, (3000, 0))
    assert d.store.device_room() == [0, 3000, 6000]


def test_out_of_memory_on_one_device_leaves_what_is_on_others(make):
    d = Devices(make, 60_000, 60_000)
    d.put(0, 1, None, 0, 1)
    assert d.store.spill_device(device=0) == 9000
    assert (d.here, d.store.stats().on_devices) == ([1, 4], (0, 6000))
    assert d.store.spill_device() == 6000
    assert d.here == []


def test_nothing_is_asked_where_results_are_on_the_host(make):
    def locate(value):
        raise AssertionError("a result of the host was looked into")

    f = make(target=10_000, device_target=10, device_targets=(5, 5), locate=locate)
    for key in range(8):
        f.store[key] = bytes(2000)
    assert (len(f.on_disk()), f.store[0]) == (3, bytes(2000))
    assert f.store.stats().on_devices == (0, 0)


STEPS = st.sampled_from(["put", "read", "pop", "oom", "all"])


@given(st.lists(st.tuples(STEPS, st.integers(0, 9), st.integers(-1, 1))))
def test_the_books_of_several_devices_agree_whatever_is_done(steps):
    def locate(value):
        return value.device

    store = Store(
        None, device_target=9000, device_targets=(6000, 3000), dump=dump, load=load, locate=locate,
        measure=lambda value: (3000, 3000),
    )  # fmt: skip
    for step, key, device in steps:
        if step == "put":
            store[key] = OnOne(None if device < 0 else device)
        elif step == "read":
            store.get(key)
        elif step == "pop":
            store.pop(key, None)
        else:
            store.spill_device(3000, device if step == "oom" and device >= 0 else None)
        check(store)
        held = store.stats().on_devices
        assert held[0] <= 6000
        assert held[1] <= 3000
        assert store.stats().cuda_nbytes <= 9000
    store.close()


# The books


def test_reads_that_nobody_replays_are_bounded():
    usage = Usage()
    for key in range(3):
        usage.count(key, 2000, 0)
    for _ in range(5000):
        usage.reads.append(0)
    usage.reads.append(77)
    assert len(usage.reads) == 4096
    assert [usage.take_host(0), usage.take_host(0), usage.take_host(0, keep=0)] == [1, 2, None]
    usage.put_back(1)
    assert [usage.take_host(2000), usage.take_host(1999), usage.take_host(0)] == [0, 1, None]
    usage.put_back(2, movable=False)
    usage.put_back(9)
    assert usage.take_host(0) is None
