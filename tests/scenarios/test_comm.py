"""Peers that are not alike, and values that are hard to carry: scenarios N01 to N16, with processes of their own.

All of them are here. What N03's client sends through the scheduler may go to any worker, so it keeps to the lowest
protocol of them all. A codec of N01 that is not installed is replaced by one that is.
"""

from __future__ import annotations

import os
import pickle
import re
import sys
import threading
import warnings
from pathlib import Path

import dask
import numpy as np
import pandas as pd
import pytest
from cases import FILES, CaseRuns, scope_of
from odd_programs import AS_REMOTE, Site, without
from scenarios.tasks import (
    Held,
    Landmine,
    ToldProtocol,
    arrays,
    in_containers,
    lay,
    on_device,
    own_annotations,
    raise_unpicklable,
    same,
    stubborn,
    thing,
    thing_fails,
)  # fmt: skip
from stranger import Stranger, hello

import hetsched
from hetsched.comm import compress
from hetsched.comm.transports import sockets
from hetsched.errors import RemoteError

pytestmark = [pytest.mark.limit(60), pytest.mark.filterwarnings("ignore::hetsched.errors.DeviceWarning")]

HERE = Path(__file__).parent
DEVICE, ABSENT = HERE / "device", HERE / "absent"


@pytest.fixture
def site():
    with Site() as site:
        yield site


@pytest.fixture(scope="module")
def mixed():
    """A scheduler that cannot import what only workers need, w1 with more than the client has, w2 with less."""
    with Site() as site:
        site.scheduler(before=without("numpy", "pandas", "fakegpu", "only_there", "scenarios", "tests", "cloudpickle"))
        site.worker("w1", "--gpus", "1", path=[DEVICE, ABSENT])
        site.worker("w2")
        with hetsched.Client(site.address) as client:
            yield client
        # N10: it has not even tried to.
        assert [line for line in site.complaints() if "stranger" not in line] == []


@pytest.fixture(scope="module")
def client(mixed):
    return mixed


def terms_of(client, name):
    terms = client.scheduler_info()["workers"][name]["terms"]
    return terms["receive_compression"], terms["send_compression"]


# N01


CODECS = {
    "one each": (("lz4", "zlib"), (), ("lz4",), ("zlib",)),
    "the scheduler none": ((), ("lz4",), ("lz4", "zlib"), ("lz4",)),
}


def agreed(a, b):
    return next((name for name in a if name in b), None)


@pytest.mark.parametrize("codecs", CODECS.values(), ids=CODECS)
def test_n01_one_side_lacks_a_codec(site, monkeypatch, codecs):
    of_scheduler, *of_workers, of_client = codecs
    every = compress._CODECS

    def having(names):
        return f"{AS_REMOTE}\nimport hetsched.comm.compress as c\nfor n in {set(every) - {*names}}: del c._CODECS[n]"

    site.scheduler(before=having(of_scheduler))
    for name, names in zip(("w1", "w2"), of_workers, strict=True):
        site.worker(name, before=having(names))
    monkeypatch.setattr(compress, "_CODECS", {name: every[name] for name in of_client})
    monkeypatch.setattr(sockets, "_is_loopback", lambda _: False)
    arrays = [np.arange(1_000_000) // 1000, np.random.default_rng(1).integers(0, 2**63, 1_000_000)]
    with hetsched.Client(site.address) as client:
        for name, other in (("w1", "w2"), ("w2", "w1")):
            there = client.map(same, arrays, workers=[name])
            crossed = client.map(same, there, workers=[other])
            for back in (client.gather(there), client.gather(crossed)):
                np.testing.assert_array_equal(back[0], arrays[0])
                np.testing.assert_array_equal(back[1], arrays[1])
        for name, names in zip(("w1", "w2"), of_workers, strict=True):
            assert terms_of(client, name) == (agreed(names, of_scheduler), agreed(of_scheduler, names))
            said = site.until(name, "client client-")
            assert f"sends {agreed(names, of_client) or 'none'}, receives {agreed(of_client, names) or 'none'}" in said
        (about,) = client.scheduler_info()["clients"].values()
        assert about["terms"]["receive_compression"] == agreed(of_client, of_scheduler)
        compressed = agreed(of_client, of_scheduler) is not None
        # Eight arrays of 8 MB went out, four of them next to nothing if compressed.
        assert (about["bytes_in"] < 30_000_000) is compressed
    assert site.complaints() == []


def test_n01_a_codec_that_is_pinned_and_missing_is_an_error(site):
    site.scheduler(before=without("lz4"))
    with (
        dask.config.set({"hetsched.comm.compression": "lz4"}),
        pytest.raises(hetsched.errors.Rejected, match=r"'lz4' is pinned from .* does not have it \(it has: .*zlib\)"),
    ):
        hetsched.Client(site.address)


# N03

SPY = """
import pickle
import hetsched.comm.serialize as s
class Spy:
    def __getattr__(self, name):
        return getattr(pickle, name)
    def loads(self, data, *, buffers=()):
        buffers = list(buffers)
        print("loads protocol", bytes(data[:2])[1], "buffers", len(buffers), flush=True)
        return pickle.loads(data, buffers=buffers)
s.pickling = Spy()
"""


def test_n03_a_peer_of_pickle_protocol_4(site, monkeypatch):
    site.scheduler()
    site.worker("w4", before=SPY, DASK_HETSCHED__COMM__PICKLE_PROTOCOL="4")
    site.worker("w5", before=SPY)
    frame = pd.DataFrame({"x": np.arange(1_250_000.0)})
    loaded = []

    class Spy:
        dumps = staticmethod(pickle.dumps)

        @staticmethod
        def loads(data, *, buffers=()):
            buffers = list(buffers)
            loaded.append((bytes(data[:2])[1], bool(buffers)))
            return pickle.loads(data, buffers=buffers)

    monkeypatch.setattr("hetsched.comm.serialize.pickling", Spy)
    with hetsched.Client(site.address) as client:
        for here, there in (("w4", "w5"), ("w5", "w4")):
            made = client.submit(same, frame, workers=[here])
            array = client.submit(np.arange, 1_250_000.0, workers=[here])
            pd.testing.assert_frame_equal(made.result(), frame)
            pd.testing.assert_frame_equal(client.submit(same, made, workers=[there]).result(), frame)
            assert client.submit(np.sum, array, workers=[there]).result() == np.arange(1_250_000.0).sum()
            assert client.submit(lambda x: x + 1, 1, workers=[here]).result() == 2
        workers = client.scheduler_info()["workers"]
        assert {name: about["terms"]["pickle"] for name, about in workers.items()} == {"w4": 4, "w5": 5}
    assert loaded == [(4, False), (5, True), (5, True), (4, False)]
    said = site.end()
    assert "loads protocol 4 buffers 0\n" in said["w4"]
    assert "loads protocol 5" not in said["w4"]
    assert "loads protocol 4 buffers 0\n" in said["w5"]
    (joined,) = [line for line in said["scheduler"].splitlines() if "worker w4 from" in line]
    assert "pickle protocol 4" in joined
    assert "pickle protocol 5" in next(line for line in said["scheduler"].splitlines() if "worker w5 from" in line)


def test_n03_what_a_client_sends_can_be_read_by_all_workers(site):
    site.scheduler()
    site.worker("w5")
    with hetsched.Client(site.address) as first:
        assert first.submit(same, ToldProtocol(), workers=["w5"]).result() == 5
        site.worker("w4", DASK_HETSCHED__COMM__PICKLE_PROTOCOL="4")
        first.scheduler_info()  # what the scheduler said before has come
        with hetsched.Client(site.address) as second:
            for client in (first, second):
                for name in ("w4", "w5"):
                    assert client.submit(same, ToldProtocol(), workers=[name]).result() == 4
            (pickle,) = {about["terms"]["pickle"] for name, about in second.scheduler_info()["clients"].items()
                         if name.endswith("-2")}  # fmt: skip
            assert pickle == 4


# N04


def test_n04_a_future_protocol(client):
    future = hello(
        protocols=[1, 2, 77], pickle=6, compressions=["brotli-9", "zlib"], telepathy={"range": [1, 2]}, pins={"mood": 3}
    )
    with Stranger(client.address) as stranger:
        assert stranger.greet(future) == (True, b"")
        stranger.send(["Asked", 7, "info", None])
        ((kind, number, info, error),) = stranger.receive()
        assert (kind, number, error) == ("Answered", 7, None)
        (terms,) = [about["terms"] for name, about in info["clients"].items() if name.startswith("stranger-")]
        assert (terms["protocol"], terms["pickle"]) == (1, 5)
        assert (terms["send_compression"], terms["receive_compression"]) == ("zlib", "zlib")
    with Stranger(client.address) as stranger:
        good, why = stranger.greet(hello(protocols=[2, 77]))
        assert not good
        assert b"no protocol version in common: an" not in why
        assert b"client 'stranger' speaks 2, 77" in why


# N06


@pytest.fixture
def only_here(monkeypatch):
    monkeypatch.syspath_prepend(str(ABSENT))
    yield
    sys.modules.pop("only_there", None)


def test_n06_a_module_that_the_worker_lacks(client, only_here):
    import only_there

    for func, args in ((only_there.double, (1,)), (same, (only_there.Thing(),)), (only_there.Thing, ())):
        with pytest.raises(ModuleNotFoundError, match="No module named 'only_there'") as caught:
            client.submit(func, *args, workers=["w2"], key="lost").result()
        assert any("'lost'" in note and "w2" in note for note in caught.value.__notes__)
    assert client.submit(same, 5, workers=["w2"]).result() == 5


def test_n06_a_module_that_the_client_lacks(client):
    made = client.submit(thing, workers=["w1"], key="thing")
    with pytest.raises(ModuleNotFoundError, match="No module named 'only_there'") as caught:
        made.result()
    assert "'thing'" in caught.value.__notes__[-1]
    assert client.submit(isinstance, made, object, workers=["w1"]).result() is True
    with pytest.raises(RemoteError, match=r"only_there\.Failure: the pump is dry") as raised:
        client.submit(thing_fails, "the pump is dry", workers=["w1"], key="failed").result()
    assert (raised.value.type_name, raised.value.message) == ("only_there.Failure", "the pump is dry")
    assert 'only_there.py", line' in raised.value.remote_traceback
    assert any("'failed'" in note and "w1" in note for note in raised.value.__notes__)
    with pytest.raises(ModuleNotFoundError, match="No module named 'only_there'"):
        client.submit(same, made, workers=["w2"]).result()
    for name in ("w1", "w2"):
        assert client.gather(client.map(same, range(4), workers=[name])) == [0, 1, 2, 3]


# N07, N09, N10


def layouts():
    base = np.arange(24.0).reshape(4, 6)
    return {
        "C": base, "F": np.asfortranarray(base), "0d": np.array(3.5), "empty": np.empty((0, 3)),
        "empty inside": np.empty((3, 0, 2), order="F"), "bigendian": np.arange(4, dtype=">i4"),
        "half": np.arange(4, dtype="f2"), "complex": np.array([1 + 2j, 3]), "bool": np.array([True, False]),
        "struct": np.array([(1, b"ab"), (2, b"c")], dtype=[("n", "<i2"), ("s", "S3")]),
        "padded": np.zeros(3, dtype=np.dtype([("a", "u1"), ("b", "f8")], align=True)),
        "text": np.array(["a", "long text"]), "time": np.array(["2020-01-01", "NaT"], dtype="M8[ns]"),
        "delta": np.array([1, 2], dtype="m8[s]"), **{kind: np.arange(3, dtype=kind) for kind in "bBhHiIlLqQfd"},
    }  # fmt: skip


def check_same(got, want):
    assert type(got) is np.ndarray
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if want.dtype.kind in "mM":  # one of which equals nothing
        got, want = got.view("i8"), want.view("i8")
    assert np.array_equal(got, want)


def test_n07_results_of_a_gpu_for_a_client_without_one(client):
    hosts = layouts()
    got = client.submit(in_containers, hosts, workers=["w1"], executor="gpu").result()
    for name, want in hosts.items():
        check_same(got["dict"][name], want)
    for name, kind in (("list", list), ("tuple", tuple)):
        assert type(got[name]) is kind
        for one, want in zip(got[name], hosts.values(), strict=True):
            check_same(one, want)
    assert type(got["held"]) is Held
    check_same(got["held"].what[0], hosts["C"])
    assert type(got["frame"]) is pd.DataFrame
    for one, want in zip(got["frame"]["what"], hosts.values(), strict=True):
        check_same(one, want)
    check_same(got["sliced"], hosts["C"][::2, ::-3])
    check_same(got["turned"], hosts["C"].T[1:])
    assert got["twice"][0] is got["twice"][1]
    futures = client.map(on_device, list(hosts.values()), workers=["w1"], executor="gpu")
    for one, want in zip(client.gather(futures), hosts.values(), strict=True):
        check_same(one, want)
        assert one.flags.writeable
    assert "fakegpu" not in sys.modules


def test_n07_a_session_is_warned_once(mixed):
    def on_gpu(client, func, *args):
        return client.submit(func, *args, workers=["w1"], executor="gpu").result()

    for func, args in ((on_device, (np.ones(3),)), (in_containers, ({"C": np.ones((2, 3))},))):
        with hetsched.Client(mixed.address) as client:
            assert client.submit(same, np.ones(3), workers=["w1"]).result().sum() == 3
            with pytest.warns(hetsched.errors.DeviceWarning) as told:
                on_gpu(client, func, *args)
            (said,) = told
            assert re.match(r"a result held fakegpu\.Array on a device of the worker at tcp://127", str(said.message))
            assert "filterwarnings('ignore', category=hetsched.errors.DeviceWarning)" in str(said.message)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                on_gpu(client, on_device, np.ones(3))
                on_gpu(client, in_containers, {"C": np.ones((2, 3))})


def test_n07_one_that_does_not_come_to_the_host_is_named(client):
    for wrap in (list, tuple, min):
        with pytest.raises(TypeError, match=r"fakegpu\.Stubborn.*register\('fakegpu\.Stubborn', function\)"):
            client.submit(stubborn, wrap, workers=["w1"], executor="gpu").result()
    assert client.submit(same, 1, workers=["w1"]).result() == 1


def test_n09_a_gpu_value_in_a_cpu_task(client):
    host = np.arange(100_000.0)
    array = client.submit(on_device, host, workers=["w1"], executor="gpu")

    def look(array):
        return type(array).__module__, os.getpid(), float(array.sum())

    module, pid, total = client.submit(look, array, workers=["w2"]).result()
    assert (module, total) == ("numpy", host.sum())
    assert set(client.who_has(array)[array.key]) == {"w1", "w2"}
    facts = {name: about["facts"] for name, about in client.scheduler_info()["workers"].items()}
    assert facts["w2"]["pid"] == pid
    # Where the task goes by itself: to the GPU, though w2 has the value too.
    whose = client.submit(lambda _: os.getpid(), array, executor="gpu")
    assert whose.result() == facts["w1"]["pid"]
    refused = client.submit(same, array, workers=["w2"], executor="gpu")
    assert client.explain(refused)["restrictions"] == {
        "executor 'gpu'": (1, 2), "workers w2": (1, 2), "resources GPU=1": (1, 2)
    }  # fmt: skip
    assert client.explain(refused)["workers"] == ()
    client.cancel(refused)


def test_n10_a_scheduler_that_can_import_nothing_of_a_users(client):
    def embed():
        sys.path.insert(0, str(DEVICE))
        try:
            import fakegpu
        finally:
            sys.path.remove(str(DEVICE))
        return fakegpu

    fakegpu = embed()
    try:
        literal = fakegpu.Array(np.arange(5))
        got = client.submit(same, literal, workers=["w1"]).result()
    finally:
        sys.modules.pop("fakegpu")
    check_same(got, np.arange(5))
    graph = {"a": (np.arange, 5), "b": (np.sum, "a"), "c": (pd.Series, "a"), "d": (same, Held("x", np.ones(2)))}
    total, series, held = client.get(graph, ["b", "c", "d"])
    assert (total, list(series), held.name) == (10, [0, 1, 2, 3, 4], "x")
    with pytest.raises(ZeroDivisionError):
        client.submit(lambda: 1 / 0).result()


# N12


@pytest.mark.parametrize(("count", "nbytes"), [(20_000, 0), (20_000, 1), (20_000, 4096)])
def test_n12_very_many_buffers(client, count, nbytes):
    made = client.submit(arrays, count, nbytes, workers=["w1"])
    got = made.result()
    assert len(got) == count
    assert all(one.shape == (nbytes,) and one.dtype == "u1" for one in got)
    assert [int(one.sum()) for one in got] == [n % 251 * nbytes for n in range(count)]
    assert client.submit(len, made, workers=["w2"]).result() == count


def test_n12_small_and_empty_frames(client):
    values = [
        np.empty((3, 0, 2)), np.empty(0, "U5"), np.empty((0,), [("a", "i4")]), np.empty((3, 0, 2), order="F"),
        np.zeros((), "S0"), b"", bytearray(), memoryview(b""), "", (), pd.DataFrame(), pd.DataFrame({"a": []}),
        pd.Series(dtype=object), [np.empty(0)] * 3,
    ]  # fmt: skip
    sent = client.map(same, values, workers=["w1"])
    moved = client.map(same, sent, workers=["w2"])
    for got in (client.gather(sent), client.gather(moved)):
        for one, value in zip(got, values, strict=True):
            assert type(one) is type(value)
            if isinstance(value, np.ndarray):
                check_same(one, value)
            elif isinstance(value, pd.DataFrame | pd.Series):
                assert one.equals(value)
            elif not isinstance(value, list):
                assert one == value


# N13


KEYS = [
    "plain", ("t", 1, ("u", 2.5)), b"\xff\x00", ("b", b"\xff"), 2**64, -(2**63) - 1, ("big", 2**64), "\udcff",
    ("s", "\udcff"), float("inf"), ("n", float("nan")), ("none", None), -0.5, ("e",), "", "line\nbreak\x1b[31m",
    "x" * 5000,
]  # fmt: skip


def test_n13_keys_of_all_kinds(client):
    graph = {key: (same, n) for n, key in enumerate(KEYS)}
    graph["all"] = (same, [key for key in KEYS if type(key) is not bytes])  # which are no references, dask says
    got = client.get(graph, [*KEYS, "all"])
    assert got == (*range(len(KEYS)), [n for n, key in enumerate(KEYS) if type(key) is not bytes])
    futures = [client.submit(same, n, key=key) for n, key in enumerate(KEYS)]
    assert client.gather(futures) == list(range(len(KEYS)))
    held = client.who_has(futures)
    assert [type(key) for key in held] == [type(key) for key in KEYS]
    assert all(held[key] in (["w1"], ["w2"]) for key in KEYS)
    for future, key in zip(futures, KEYS, strict=True):
        told = client.explain(future)
        assert told["phase"] == "MEMORY"
        assert type(told["key"]) is str
        if key == "plain":
            assert told["key"] == "plain"
    assert isinstance(client.scheduler_info()["tasks"], int)


ANNOTATIONS = {
    "list": [1, [2]], "none": None, "bytes": b"\xff", "ints": {1: {2: 3}}, "big": 2**64, "low": -(2**63) - 1,
    "odd": "\udcff", "nan": float("nan"), "tuple": (1, (2,)), "object": object(), "deep": {"a": [{"b": (None,)}]},
}  # fmt: skip


def types_in(value):
    parts = value.items() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return type(value), [types_in(part) for part in parts]


def test_n13_annotations_of_all_kinds(client):
    with dask.annotate(**ANNOTATIONS):
        task = dask.delayed(own_annotations)()
    told = task.compute(scheduler=client)
    assert list(told) == list(ANNOTATIONS)
    for name, value in ANNOTATIONS.items():
        if name == "nan":
            assert np.isnan(told[name])
        elif name == "object":
            assert type(told[name]) is object
        else:
            assert (told[name], types_in(told[name])) == (value, types_in(value))
    with dask.annotate(mine=threading.Lock()):
        refused = dask.delayed(own_annotations)(dask_key_name="named")
    with pytest.raises(hetsched.errors.AnnotationError, match=r"'mine' of the task 'named' cannot be sent .*lock"):
        refused.compute(scheduler=client)
    with hetsched.annotate(priority=2):
        future = client.submit(same, 1, workers=["w1", "w2"])
    assert future.result() == 1
    told = client.explain(future)
    assert told["annotations"].pop("provenance").startswith(__file__)
    assert told["annotations"] == {"workers": "('w1', 'w2')", "priority": "2"}
    with pytest.raises(hetsched.errors.AnnotationError, match="priority"):
        client.submit(same, 1, priority=2**64)


def test_n13_what_an_embedded_number_may_be(client):
    values = [
        2**64, -(2**63) - 1, 2**63, "\udcff", {1: {2: [None, b"\xff"]}}, float("inf"), {(1, 2): 3}, [(), []], 1 + 2j
    ]  # fmt: skip
    got = client.gather(client.map(same, values))
    assert got == values
    assert [type(value) for value in got] == [type(value) for value in values]
    assert np.isnan(client.submit(same, float("nan")).result())


# N15, N16


def test_n15_a_value_that_cannot_be_loaded(client):
    good = client.map(same, range(50), workers=["w1"])
    bad = client.submit(lay, workers=["w1"], key="mine")
    deep = client.submit(lay, True, workers=["w1"], key="deep")
    after = client.map(same, range(50), workers=["w1"])
    hetsched.wait([*good, bad, deep, *after])
    got = client.gather([*good, bad, deep, *after], errors="skip")
    assert got == [*range(50), *range(50)]
    for future in (bad, deep):
        with pytest.raises(RuntimeError, match="loading this failed") as caught:
            future.result()
        assert repr(future.key) in caught.value.__notes__[-1]
    with pytest.raises(RuntimeError, match="loading this failed"):
        client.submit(same, bad, workers=["w2"]).result()
    with pytest.raises(RuntimeError, match="loading this failed"):
        client.submit(same, Landmine()).result()
    assert client.gather(good) == list(range(50))
    assert sorted(client.scheduler_info()["workers"]) == ["w1", "w2"]


def test_n15_a_value_that_cannot_be_sent(client):
    good = client.map(same, range(10), workers=["w1"])
    bad = client.submit(lambda: [threading.Lock()], workers=["w1"], key="lock")
    with pytest.raises(TypeError, match=r"cannot pickle '_thread\.lock'") as caught:
        bad.result()
    assert "'lock'" in caught.value.__notes__[-1]
    with pytest.raises(TypeError, match="cannot pickle"):
        client.submit(same, bad, workers=["w2"]).result()
    assert client.gather(good) == list(range(10))


def test_n16_an_error_that_cannot_be_pickled(client):
    with pytest.raises(RemoteError) as caught:
        client.submit(raise_unpicklable, "sensor nine is silent", workers=["w1"]).result()
    assert caught.value.type_name.endswith("scenarios.tasks.Unpicklable")
    assert caught.value.message == "sensor nine is silent"
    assert "in raise_unpicklable" in caught.value.remote_traceback
    assert caught.traceback[-1].name == "raise_unpicklable"
    assert "w1" in caught.value.__notes__[0]


# 067 looks at what tasks in its own process had.
N16 = [file for file in FILES if "050" <= file.name[:3] <= "068" and scope_of(file) == "any"]


@pytest.fixture(scope="module")
def runs(request):
    with CaseRuns.selected(request) as runs:
        yield runs


@pytest.mark.skipif(not N16, reason="the cases are not in ../shared/cases")
@pytest.mark.parametrize("file", N16 or [None], ids=lambda file: getattr(file, "stem", "none"))
def test_n16_errors_over_the_wire(runs, file):
    runs.check(file)
