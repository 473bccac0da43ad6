"""What lives on a device comes to the host when it must, and everything else is left alone."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import NamedTuple
from unittest import mock

import numpy as np
import pytest

from hetsched.comm import to_host as room
from hetsched.comm.to_host import device_of, host_of, register, to_host


class FakeArray:
    """An array on a device that is not there: its data are in host memory, which nobody may look at but ``get``."""

    def __init__(self, data):
        self._data = np.asarray(data)

    @property
    def __cuda_array_interface__(self):
        data = self._data
        return {"shape": data.shape, "typestr": data.dtype.str, "data": (data.ctypes.data, False), "version": 3}

    def __dlpack_device__(self):
        return 2, 0

    def __array__(self, *args, **kwargs):
        raise TypeError("an array on a device was converted in silence")

    def __reduce__(self):
        raise TypeError("an array on a device was pickled")


class Gettable(FakeArray):
    def get(self):
        return self._data.copy()


class Copyable(FakeArray):
    def get(self, key):
        raise KeyError(key)

    def copy_to_host(self):
        return self._data.copy()


@pytest.fixture(autouse=True)
def registrations(monkeypatch):
    monkeypatch.setattr(room, "_NAMED", dict(room._NAMED))
    monkeypatch.setattr(room, "_TYPED", dict(room._TYPED))
    room._found.clear()
    yield
    room._found.clear()


def library(monkeypatch, name, **names):
    module = ModuleType(name)
    for key, value in names.items():
        setattr(module, key, value)
    monkeypatch.setitem(sys.modules, name, module)
    return module


@pytest.mark.parametrize("kind", [Gettable, Copyable])
def test_an_array_of_an_unknown_library_comes_to_the_host_by_its_methods(kind):
    array = kind([[1.5, 2.0]])
    assert device_of(array) == "cuda"
    host = host_of(array)
    assert type(host) is np.ndarray
    assert host.tolist() == [[1.5, 2.0]]
    assert host_of(array, ("cuda",)) is array
    assert host_of(array, ("rocm",)).tolist() == [[1.5, 2.0]]


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_an_empty_array_is_on_its_device_too(shape):
    assert host_of(Gettable(np.empty(shape))).shape == shape


def test_what_cannot_be_converted_is_refused_with_the_remedy():
    with pytest.raises(TypeError) as info:
        host_of(FakeArray([1]))
    name = f"{__name__}.FakeArray"
    assert str(info.value) == (
        f"a {name} on a cuda device cannot be copied to host memory "
        "(TypeError('it has neither get() nor copy_to_host()')), and the receiver takes none. "
        f"Say how it comes to the host: hetsched.comm.to_host.register({name!r}, function)"
    )
    register(FakeArray, lambda array: array)
    with pytest.raises(TypeError, match="is still on a device after it was copied to host memory"):
        host_of(FakeArray([1]))


def test_a_library_is_known_by_name_before_it_is_there(monkeypatch):
    """The class says that it is of a private module; its public name is what was registered."""
    register("fakegpu.Array", lambda array: array._data + 100)
    private = type("Array", (Gettable,), {"__module__": "fakegpu.core._array"})
    library(monkeypatch, "fakegpu", Array=private)
    sub = type("Sub", (private,), {"__module__": "mine"})
    assert host_of(private([1])).tolist() == [101]
    assert host_of(sub([2])).tolist() == [102]
    other = type("Other", (Gettable,), {"__module__": "fakegpu"})
    assert host_of(other([3])).tolist() == [3]


def test_a_registration_replaces_the_one_before():
    array = Gettable([1])
    assert host_of(array).tolist() == [1]
    register(Gettable, lambda array: "first")
    assert host_of(array) == "first"
    register(Gettable, lambda array: "second")
    assert host_of(array) == "second"


class Frame:
    """On its device without a word about it."""


def test_a_registered_type_need_not_speak_the_protocols():
    frame = Frame()
    assert device_of(frame) is None
    register(f"{__name__}.Frame", lambda frame: "host", device="rocm")
    assert device_of(frame) == "rocm"
    assert host_of(frame) == "host"
    assert host_of(frame, ("rocm",)) is frame


@pytest.mark.parametrize(
    ("name", "method"),
    [("cupy.ndarray", "get"), ("cudf.DataFrame", "to_pandas"), ("cudf.Series", "to_pandas")],
)
def test_known_libraries(monkeypatch, name, method):
    module, kind = name.split(".")
    made = type(kind, (), {"__module__": module, method: lambda self: "host"})
    library(monkeypatch, module, **{kind: made})
    assert host_of(made()) == "host"


def test_tensors_of_torch(monkeypatch):
    class Tensor:
        def __init__(self, where, requires_grad=False):
            self.device = SimpleNamespace(type=where)
            self.requires_grad = requires_grad

        def __dlpack_device__(self):
            return {"cpu": 1, "cuda": 2, "mps": 8}[self.device.type], 0

        @property
        def __cuda_array_interface__(self):
            raise RuntimeError("it needs a gradient")

        def detach(self):
            return self

        def cpu(self):
            return type(self)("cpu")

        def requires_grad_(self):
            self.requires_grad = True
            return self

    Tensor.__module__ = "torch"
    library(monkeypatch, "torch", Tensor=Tensor)
    here = Tensor("cpu", requires_grad=True)
    assert host_of(here) is here
    assert device_of(here) is None
    for where in ("cuda", "mps"):
        host = host_of(Tensor(where, requires_grad=True))
        assert (host.device.type, host.requires_grad) == ("cpu", True)
    kept = Tensor("cuda")
    assert host_of(kept, ("cuda",)) is kept


class Raising:
    @property
    def __cuda_array_interface__(self):
        raise RuntimeError("driver is gone")


class Nonsense:
    __cuda_array_interface__ = None

    def __init__(self, value):
        self.__cuda_array_interface__ = value


class OnHost:
    __cuda_array_interface__ = {"shape": (1,), "typestr": "<f8", "data": (5, False)}

    def __dlpack_device__(self):
        return 1, 0


class AnswersAll:
    def __getattr__(self, name):
        return AnswersAll()


class RaisingKind(type):
    def __getattribute__(cls, name):
        raise RuntimeError(name)


class Unhashable(type):
    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    "obj",
    [
        5,
        "text",
        None,
        np.arange(3),
        np.float32(1),
        Raising(),
        Nonsense("yes"),
        Nonsense({"shape": (3,)}),
        Nonsense({"shape": (-1,), "typestr": "<f8", "data": (1, False)}),
        Nonsense({"shape": (1,), "typestr": "<f8", "data": None}),
        OnHost(),
        AnswersAll(),
        mock.MagicMock(),
        Gettable,
        RaisingKind("R", (), {})(),
        Unhashable("U", (), {})(),
        ModuleType("m"),
    ],
    ids=lambda obj: type.__getattribute__(type(obj), "__name__"),
)
def test_ordinary_values_are_left_alone(obj):
    assert host_of(obj) is obj
    assert device_of(obj) is None
    holder = [obj]
    assert to_host(holder) is holder


class Pair(NamedTuple):
    left: object
    right: object


@dataclass(frozen=True)
class Record:
    array: object
    other: object = 0
    unset: object = field(init=False)


def test_containers_are_copied_where_they_must_be():
    one, plain = Gettable([1]), [np.arange(2)]
    given = {"k": [one, (one, plain)], 2: Pair(one, {3}), "r": Record(one, plain), "p": plain}
    got = to_host(given)
    assert list(got) == ["k", 2, "r", "p"]
    host = got["k"][0]
    assert host.tolist() == [1]
    assert type(got[2]) is Pair
    assert type(got["r"]) is Record
    assert not hasattr(got["r"], "unset")
    for shared in (got["k"][1][0], got[2].left, got["r"].array):
        assert shared is host
    assert got["p"] is got["k"][1][1] is got["r"].other
    assert got["p"][0] is plain[0]
    assert given["k"][0] is one
    assert given["r"].array is one
    assert to_host(given, ("cuda",)) is given


def test_sets_and_rings():
    ring: list[object] = [Gettable([1])]
    ring.append({"ring": ring})
    got = to_host(ring)
    assert got is not ring
    assert got[1]["ring"] is got
    assert got[0].tolist() == [1]
    register(Frame, lambda frame: "host")
    assert to_host({Frame(), 1}) == {"host", 1}
    assert to_host((frozenset({Frame()}),)) == (frozenset({"host"}),)


def test_no_library_is_imported():
    code = (
        "import sys, numpy; from hetsched.comm.to_host import to_host; to_host([numpy.arange(3), object()]);"
        "print(sorted({'cupy', 'cudf', 'torch', 'jax', 'numba', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_many_types_are_not_kept_for_ever():
    for i in range(room._MOST_TYPES + 50):
        host_of(type(f"T{i}", (), {})())
    assert len(room._found) <= room._MOST_TYPES + 1
