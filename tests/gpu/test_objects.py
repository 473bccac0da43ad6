"""Objects on a device, found without a GPU library, and objects that only look like it."""

from __future__ import annotations

import sys
import types
from unittest import mock

import numpy as np
import pytest

from hetsched.gpu.objects import cuda_nbytes, may_live_on_device
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
