"""Objects on a device, found without a GPU library, and objects that only look like it."""

from __future__ import annotations

import collections
import dataclasses
import sys
import types
from typing import NamedTuple
from unittest import mock

import numpy as np
import pytest
from named import named

from hetsched.gpu import arrays, objects
from hetsched.gpu.objects import (
    UNTOLD,
    Device,
    Piece,
    cuda_nbytes,
    device_number,
    devices_of,
    may_hold_device,
    may_live_on_device,
    register,
)
from hetsched.worker.sizes import Measure

GOOD = {"shape": (3, 4), "typestr": "<f4", "data": (1024, False), "version": 3}


def with_interface(interface, **attributes):
    def get(self):
        if isinstance(interface, BaseException):
            raise interface
        return interface

    return type("Made", (), {"__cuda_array_interface__": property(get), **attributes})()


def with_dlpack(code, **attributes):
    def device(self):
        if isinstance(code, BaseException):
            raise code
        return code, 0

    return type("Made", (), {"__dlpack_device__": device, **attributes})()


@pytest.mark.parametrize(
    ("obj", "nbytes"),
    [
        (with_interface(GOOD), 48),
        (with_interface({**GOOD, "shape": ()}), 4),
        (with_interface({**GOOD, "shape": (0, 5)}), 0),
        (with_interface({**GOOD, "typestr": "|u1"}), 12),
        (with_interface(GOOD, __dlpack_device__=lambda self: (2, 0)), 48),
        (with_dlpack(2, nbytes=100), 100),
        (with_dlpack(10, nbytes=100), 100),
        (with_dlpack(13, nbytes=100), 100),
    ],
)
def test_on_a_device(obj, nbytes):
    assert may_live_on_device(type(obj))
    assert cuda_nbytes(obj) == nbytes
    if nbytes:
        assert Measure()(obj) == (nbytes, nbytes)


NOT_THERE = [
    with_interface(AttributeError("a CPU tensor")),
    with_interface(RuntimeError("requires grad")),
    with_interface(TypeError()),
    with_interface(None),
    with_interface("yes"),
    with_interface({}),
    with_interface({"shape": (3,)}),
    with_interface({**GOOD, "shape": (-1,)}),
    with_interface({**GOOD, "shape": 3}),
    with_interface({**GOOD, "typestr": "???"}),
    with_interface({**GOOD, "data": None}),
    with_interface({**GOOD, "data": ("x", 1)}),
    with_interface(GOOD, __dlpack_device__=lambda self: (1, 0)),
    with_dlpack(1, nbytes=100),
    with_dlpack(3, nbytes=100),
    with_dlpack(ValueError("meta"), nbytes=100),
    with_dlpack(2),
    with_dlpack(2, nbytes="many"),
    mock.MagicMock(),
    np.arange(3),
    types.ModuleType("m"),
    type("C", (), {}),
    5,
    None,
]


@pytest.mark.parametrize("obj", NOT_THERE, ids=lambda obj: type(obj).__name__)
def test_not_on_a_device(obj):
    assert cuda_nbytes(obj) == 0
    assert Measure()(obj)[1] == 0


class AnswersAll(type):
    def __getattr__(cls, name):
        return lambda *args: (2, 0)


def test_types_that_are_not_worth_asking():
    class Plain:
        def __getattr__(self, name):
            raise RuntimeError("asked")

    for kind in (int, str, list, dict, np.ndarray, np.float64, object, type, Plain, AnswersAll("A", (), {})):
        assert not may_live_on_device(kind), kind


def test_no_library_is_loaded():
    before = set(sys.modules)
    for obj in (with_interface(GOOD), with_dlpack(2, nbytes=3), mock.MagicMock()):
        Measure()(obj)
    loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
    assert not loaded & {"cupy", "torch", "numba", "cudf", "jax"}


# What holds arrays, and memory that is shared.

AT = {"shape": (10,), "typestr": "<f4", "data": (4096, False), "version": 3}


def at(address, nbytes=40, **attributes):
    return with_interface({**AT, "shape": (nbytes,), "typestr": "|u1", "data": (address, False)}, **attributes)


class Refuses:
    __cuda_array_interface__ = property(lambda self: 1 / 0)


@dataclasses.dataclass
class Pair:
    first: object
    second: object


class Named(NamedTuple):
    array: object
    note: str


@pytest.mark.parametrize(
    ("obj", "nbytes"),
    [
        ([at(100), at(1000)], 80),
        ((at(100), at(1000), 5, "cuda", None), 80),
        ({"a": at(100), "b": [at(1000), {"c": at(2000)}]}, 120),
        ({at(100)}, 40),
        (Pair(at(100), [at(1000)]), 80),
        (Named(at(100), "x"), 40),
        (collections.OrderedDict(a=at(100)), 40),
        (collections.defaultdict(list, a=[at(100)]), 40),
        ([at(100), Refuses(), at(1000)], 80),
        ([np.arange(5), at(100)], 40),
        ([1] * 50 + [at(100)], 40),
        ([at(100 * i) for i in range(1, 500)], 499 * 40),
        ([[[[at(100)]]]], 40),
        ([[[[[[at(100)]]]]]], 0),  # deeper than anybody looks
        ([], 0),
        ([np.arange(5)] * 3, 0),
        (Pair, 0),
        # shared memory
        ([at(100), at(100)], 40),
        ([at(100), at(120)], 60),
        ([at(100, 400), at(200)], 400),
        ([at(100), at(140)], 80),
    ],
    ids=named,
)
def test_what_containers_hold(obj, nbytes):
    assert cuda_nbytes(obj) == nbytes
    assert Measure()(obj)[1] == nbytes
    assert bool(devices_of(obj)) is bool(nbytes)


def test_a_ring_of_containers():
    ring = [at(100)]
    ring.append(ring)
    assert cuda_nbytes(ring) == 40


def test_elements_that_are_repeated_are_there_once():
    """A broadcast array has strides of 0."""
    assert cuda_nbytes(with_interface({**AT, "shape": (1000, 10), "strides": (0, 4)})) == 40
    assert cuda_nbytes(with_interface({**AT, "shape": (5,), "strides": (8,)})) == 20


def test_which_devices():
    two = with_dlpack(2, nbytes=8)
    other = type("Other", (), {"__dlpack_device__": lambda self: (10, 3), "nbytes": 8})()
    assert devices_of([other, two, two]) == (Device("cuda", 0), Device("rocm", 3))
    assert devices_of(np.arange(3)) == devices_of(None) == devices_of(Refuses()) == ()
    assert isinstance(Device("cuda", 0), tuple)
    assert devices_of(at(100)) == (Device("cuda", UNTOLD),)  # this interface does not say


def test_the_one_device():
    def on(kind, index):
        return type("Other", (), {"__dlpack_device__": lambda self: (kind, index), "nbytes": 8})()

    assert [device_number(obj) for obj in (on(2, 0), [on(2, 3)] * 2, on(10, 1), (on(1, 0), on(2, 1)))] == [0, 3, 1, 1]
    others = [on(2, 0), on(2, 1)], [on(2, 0), at(100)], at(100), 1, Refuses()
    assert [device_number(obj) for obj in others] == [None] * 5


def test_memory_seen_by_a_library_that_tells_which_device_and_one_that_does_not_counts_once():
    told = type("Told", (), {"__dlpack_device__": lambda self: (2, 1), "__cuda_array_interface__": AT})()
    assert cuda_nbytes([told, with_interface(AT)]) == cuda_nbytes(told) == 40


class Tensor:
    """As much of torch.Tensor as is asked for."""

    layout = "torch.strided"
    is_leaf = False
    grad = None

    def __init__(self, device, shape=(10,), address=4096, **attributes):
        kind, _, index = device.partition(":")
        self.device = types.SimpleNamespace(type=kind, index=int(index) if index else None)
        self.shape, self.address = shape, address
        vars(self).update(attributes)

    @property
    def __cuda_array_interface__(self):
        raise RuntimeError("Can't get __cuda_array_interface__ on Variable that requires grad")

    def element_size(self):
        return 4

    def stride(self):
        return tuple(int(np.prod(self.shape[i + 1 :])) for i in range(len(self.shape)))

    def data_ptr(self):
        return self.address

    def _indices(self):
        return Tensor(self.device.type, (2, 5), 1 << 20)

    def _values(self):
        return Tensor(self.device.type, (5,), 1 << 21)


class Module:
    def __init__(self, *tensors):
        self.tensors = tensors

    def parameters(self):
        return iter(self.tensors)

    def buffers(self):
        return iter(self.tensors[:1])


@pytest.fixture
def torch(monkeypatch):
    """Types that are torch's by their names, at places of their own."""
    tensor = type("Tensor", (Tensor,), {"__module__": "torch._tensor"})
    module = type("Net", (type("Module", (Module,), {"__module__": "torch.nn.modules.module"}),), {})
    library = types.ModuleType("torch")
    library.Tensor = tensor
    monkeypatch.setitem(sys.modules, "torch", library)
    return types.SimpleNamespace(Tensor=tensor, Net=module)


def test_tensors_that_need_gradients(torch):
    assert cuda_nbytes(torch.Tensor("cuda:1")) == 40
    assert devices_of(torch.Tensor("cuda:1")) == (Device("cuda", 1),)
    assert cuda_nbytes(torch.Tensor("cpu")) == cuda_nbytes(torch.Tensor("meta")) == 0
    assert cuda_nbytes(torch.Tensor("cuda", is_leaf=True, grad=torch.Tensor("cuda", address=9000))) == 80
    assert cuda_nbytes(torch.Tensor("cuda", layout="torch.sparse_coo")) == 0  # its parts are of the plain class
    assert cuda_nbytes(type("Sub", (torch.Tensor,), {})("cuda")) == 40


def test_modules_of_torch(torch):
    shared = torch.Tensor("cuda", address=9000)
    assert cuda_nbytes(torch.Net(shared, torch.Tensor("cuda", address=100), torch.Tensor("cpu"))) == 80
    assert cuda_nbytes({"model": torch.Net(shared), "x": shared}) == 40


def named_type(module, name, **attributes):
    return type(name, (), {"__module__": module, **attributes})


def test_frames_of_cudf(monkeypatch):
    def column(*sizes, owner=None):
        buffers = [types.SimpleNamespace(size=size, owner=owner, is_spilled=False) for size in sizes]
        data, mask = [*buffers, None][:2]
        return types.SimpleNamespace(base_data=data, base_mask=mask, base_children=())

    frame = named_type("cudf.core.dataframe", "DataFrame")
    library = types.ModuleType("cudf")
    library.DataFrame = frame
    monkeypatch.setitem(sys.modules, "cudf", library)
    df = frame()
    df._columns = (column(800, 16), column(400))
    df._index = types.SimpleNamespace(_columns=(column(80),))
    assert cuda_nbytes(df) == 1296
    owner = object()
    df._columns = (column(800, owner=owner), column(800, owner=owner))
    df._index = None
    assert cuda_nbytes(df) == 800
    plain = frame()
    plain.memory_usage = lambda deep: types.SimpleNamespace(sum=lambda: 123)
    assert cuda_nbytes([plain]) == 123


def test_estimators_of_cuml_and_labelled_arrays():
    estimator = named_type("cuml.cluster.kmeans", "KMeans")()
    estimator.cluster_centers_, estimator.labels_, estimator.n_clusters = at(100), at(1000), 8
    assert cuda_nbytes(estimator) == 80
    array = named_type("xarray.core.dataarray", "DataArray")()
    variable = named_type("xarray.core.variable", "Variable")()
    variable._data = at(100)
    array._variable, array._coords = variable, {}
    assert cuda_nbytes(array) == 40


def test_other_kinds_of_arrays():
    shards = [
        types.SimpleNamespace(device=types.SimpleNamespace(platform=where, id=i), data=types.SimpleNamespace(nbytes=8))
        for i, where in enumerate(("gpu", "gpu", "cpu"))
    ]
    kind = named_type("jaxlib._jax", "ArrayImpl", is_deleted=lambda self: False, addressable_shards=shards)
    assert devices_of(kind()) == (Device("cuda", 0), Device("cuda", 1))
    assert cuda_nbytes(kind()) == 16
    eager = named_type(
        "tensorflow.python.framework.ops",
        "EagerTensor",
        device="/job:localhost/replica:0/task:0/device:GPU:1",
        shape=types.SimpleNamespace(num_elements=lambda: 10),
        dtype=types.SimpleNamespace(size=4),
    )
    assert (cuda_nbytes(eager()), devices_of(eager())) == (40, (Device("cuda", 1),))
    matrix = named_type("cupyx.scipy.sparse._csr", "csr_matrix")
    sparse = type("Sparse", (named_type("cupyx.scipy.sparse._base", "spmatrix"), matrix), {})()
    sparse.data, sparse.indices, sparse.indptr = at(100), at(1000), at(2000)
    assert cuda_nbytes(sparse) == 120


def test_arrow_on_the_host():
    pyarrow = pytest.importorskip("pyarrow")
    for obj in (pyarrow.array([1, 2]), pyarrow.table({"a": [1]}), pyarrow.chunked_array([[1]]), pyarrow.schema([])):
        assert (cuda_nbytes(obj), devices_of(obj)) == (0, ())


def test_arrow_by_its_interface():
    pyarrow = pytest.importorskip("pyarrow")
    real = pyarrow.array([1, 2, 3])
    column = named_type(
        "some_library", "Column", nbytes=24, __arrow_c_device_array__=lambda self: real.__arrow_c_device_array__()
    )
    assert cuda_nbytes(column()) == 0  # device type 1
    schema, capsule = real.__arrow_c_device_array__()
    address = arrays._pointer_of(capsule, b"arrow_device_array")
    told = arrays._ArrowDeviceArray.from_address(address)
    assert (told.device_type, told.array.length) == (1, 3)
    told.device_type, told.device_id = 2, 1
    try:
        there = named_type("some_library", "Column", nbytes=24, __arrow_c_device_array__=lambda self: (schema, capsule))
        assert (cuda_nbytes(there()), devices_of(there())) == (24, (Device("cuda", 1),))
    finally:
        told.device_type, told.device_id = 1, -1


@pytest.fixture
def registry():
    kept = dict(objects._named), dict(objects._typed)
    yield
    objects._named.clear()
    objects._named.update(kept[0])
    objects._typed.clear()
    objects._typed.update(kept[1])
    objects._ways.clear()
    objects._ways.update(dict.fromkeys(objects._HOST_ONLY))


@pytest.mark.usefixtures("registry")
def test_registering_ways():
    kind, other = named_type("my_arrays.inner", "Array"), named_type("my_arrays.inner", "Other")
    assert cuda_nbytes(kind()) == 0
    register("my_arrays.Array", lambda obj: [Piece(Device("cuda", 0), 8), at(100)])
    register("my_arrays", lambda obj: [at(100)])
    assert (cuda_nbytes(kind()), cuda_nbytes(other())) == (48, 40)
    assert cuda_nbytes(type("Sub", (kind,), {})()) == 48
    register(kind, lambda obj: [])
    assert cuda_nbytes(kind()) == 0
    register(other, lambda obj: 1 / 0)
    assert (cuda_nbytes(other()), devices_of(other())) == (0, ())
    assert may_hold_device(other)
    assert "my_arrays" not in sys.modules


def test_a_flood_of_types_is_forgotten():
    for i in range(objects._MOST_TYPES + 10):
        objects._ways[i] = None
    assert cuda_nbytes(at(100)) == 40
    assert len(objects._ways) < 100
