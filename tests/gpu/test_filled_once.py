"""What is made when it is first wanted, and kept: dicts, attributes, what hangs on a thread or on a function."""

from __future__ import annotations

import types
from unittest import mock

import cloudpickle
import pytest
from gpu_corpus.stand_ins import stand_ins

from hetsched.core.evidence import STRONG
from hetsched.gpu import code

HEAD = """
import threading
import cupy as cp
import torch
kept, names, local = {}, set(), threading.local()
"""
ON_DEVICE = [
    """
def f(k):
    if k not in kept:
        kept[k] = cp.load(k)
    return float(kept[k].sum())
""",
    """
def f(k):
    if k in kept:
        return kept[k]
    kept[k] = got = cp.load(k)
    return got
""",
    """
def f(k, x):
    got = kept.get(k)
    if got is None:
        got = kept[k] = cp.load(k)
    return (got @ x).get()
""",
    """
class Kept:
    def __init__(self): self.by_key = {}
    def __call__(self, k):
        if k not in self.by_key:
            self.by_key[k] = cp.load(k)
        return float(self.by_key[k].sum())
f = Kept()
""",
    """
class Lazy:
    def __call__(self, x):
        if not hasattr(self, "net"):
            self.net = torch.load("net").to("cuda")
        return self.net(x)
f = Lazy()
""",
    """
def f(x):
    if not hasattr(local, "net"):
        local.net = torch.load("net").to("cuda")
    return local.net(x)
""",
    """
def f(x):
    if getattr(f, "net", None) is None:
        f.net = torch.load("net").cuda()
    return f.net(x)
""",
    """
def once(func):
    kept = {}
    def inner(k):
        if k not in kept:
            kept[k] = cp.asarray(func(k))
        return float(kept[k].sum())
    return inner
@once
def f(k): return [k]
""",
]
ON_HOST = [
    """
def f(k, x):
    if k not in kept:
        kept[k] = torch.load(k, map_location="cpu")
    return kept[k](x)
""",
    """
def f(k, x):
    if k in names:
        return cp.asarray(x).sum().get()
    return sum(x)
""",
    """
class Slotted:
    __slots__ = ("net",)
    def __call__(self, x):
        if hasattr(self, "net"):
            return cp.asarray(x).sum().get()
        return sum(x)
f = Slotted()
""",
    """
def f(x):
    if hasattr(x, "net"):
        return cp.asarray(x.net)
    return sum(x)
""",
]


def made(text):
    module = types.ModuleType("a_persons_module")
    exec(compile(HEAD + text, "<a person's program>", "exec", dont_inherit=True), vars(module))
    return module.f


def convicts(found):
    return any(e.weight >= STRONG for e in found)


@pytest.fixture(autouse=True)
def libraries():
    code.forget()
    with stand_ins():
        yield
    code.forget()


@pytest.mark.parametrize("text", ON_DEVICE)
def test_filled_with_what_is_on_a_device(text):
    assert convicts(code.evidence_of(made(text)))


@pytest.mark.parametrize("text", ON_HOST)
def test_filled_with_other_things_or_not_filled(text):
    assert not convicts(code.evidence_of(made(text)))


@pytest.mark.parametrize("text", [ON_DEVICE[0], ON_DEVICE[-1]])
def test_in_a_pickle(text):
    assert convicts(code.evidence_in_pickle(cloudpickle.dumps(made(text))))


def test_a_partial_of_a_method_of_what_is_on_a_device_in_a_pickle():
    f = made("import functools, cuml.neighbors\nf = functools.partial(cuml.neighbors.NN(3).kneighbors, two=False)")
    assert convicts(code.evidence_in_pickle(cloudpickle.dumps(f)))


def test_a_mock_that_tells_nothing_is_what_the_text_says(tmp_path):
    text = 'import torch\nplace = torch.device("cuda")\ndef f(x):\n    return x.to(place)\n'
    file = tmp_path / "a_persons_module.py"
    file.write_text(text)
    names = {"__name__": "a_persons_module", "__file__": str(file)}
    with mock.patch.dict("sys.modules", torch=mock.MagicMock()):
        exec(compile(text, str(file), "exec"), names)
        assert convicts(code.evidence_of(names["f"]))


def test_an_item_of_what_is_on_a_device_by_the_text(tmp_path):
    text = 'import jax\nplace = jax.devices("gpu")[0]\ndef f(x):\n    return jax.device_put(x, place)\n'
    file = tmp_path / "a_persons_module.py"
    file.write_text(text)
    names = {"__name__": "a_persons_module", "__file__": str(file)}
    exec(compile(text, str(file), "exec"), names)
    assert convicts(code.evidence_of(names["f"]))
