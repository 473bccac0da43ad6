"""What objects of libraries hold, without a library: fakes in the place of an installed one."""

from __future__ import annotations

import argparse
import enum
import pickle
import sys
import types
from functools import partial
from operator import methodcaller
from typing import NamedTuple

import pytest
from gpu_corpus.stand_ins import stand_ins

from hetsched.core.evidence import STRONG
from hetsched.gpu import code, held


class Step:
    def fit(self, X):
        return self


class Pipeline:
    def __init__(self, *steps, **settings):
        self.steps = [(str(number), step) for number, step in enumerate(steps)]
        self.settings = settings

    def fit(self, X):
        return self


@pytest.fixture(autouse=True)
def forgetful():
    code.forget()
    yield
    code.forget()


@pytest.fixture
def made(monkeypatch):
    """Makes objects of classes in the place of a library's: of one that is installed, and of cuml."""
    monkeypatch.setitem(held._installed, "estimating", True)
    module, device = types.ModuleType("estimating"), types.ModuleType("cuml")

    def of(kind, name, place):
        found = type(kind.__name__, (kind,), {"__module__": name})
        setattr(place, kind.__name__, found)
        return found

    classes = of(Pipeline, "estimating", module), of(Step, "cuml", device)
    monkeypatch.setitem(sys.modules, "estimating", module)
    monkeypatch.setitem(sys.modules, "cuml", device)
    return classes


def uses(func):
    return any(e.weight >= STRONG for e in code.evidence_of(func))


def fits(pipe):
    return lambda X: pipe.fit(X)


def test_a_pipeline_is_a_gpu_task_by_its_steps(made):
    pipeline, step = made
    for right, pipe in [
        (True, pipeline(step())),
        (True, pipeline(pipeline(pipeline(step())))),
        (True, pipeline(Step(), device="cuda:0")),
        (True, pipeline(_tree_method="gpu_hist")),
        (True, pipeline(providers=["CUDAExecutionProvider", "CPUExecutionProvider"])),
        (False, pipeline(Step())),
        (False, pipeline(device="cpu", title="cuda")),
        (False, pipeline(names=["cuda", "gpu"])),
    ]:
        assert uses(fits(pipe)) is right, vars(pipe)
        assert uses(pipe.fit) is right
        assert any(e.weight >= STRONG for e in code.evidence_in_pickle(pickle.dumps(pipe.fit))) is right, vars(pipe)


def test_what_it_holds_is_said(made):
    pipeline, step = made
    said = [e.detail for e in code.evidence_of(fits(pipeline(step())))]
    assert said == ["pipe, a estimating.Pipeline with a cuml.Step"]


def test_functions_and_persons_objects_that_it_holds_are_taken_to_be_called(made):
    pipeline, _ = made

    def there(x):
        import cupy

        return cupy.asarray(x)

    class Mine:
        def transform(self, x):
            return there(x)

    assert uses(fits(pipeline(there)))
    assert uses(fits(pipeline(Mine())))
    assert not uses(fits(pipeline(len, Step())))


def test_persons_objects_that_are_handed_to_a_library(made):
    pipeline, _ = made

    class Mine:
        def __init__(self, device):
            self.device = device

        def fit(self, x):
            return x.to(self.device)

        def name(self):
            return self.device

    assert uses(lambda x: pipeline(Mine("cuda")).fit(x))
    assert not uses(lambda x: pipeline(Mine("cpu")).fit(x))
    assert not uses(lambda x: sorted([Mine("cuda")], key=Mine.name))


def test_an_object_that_holds_itself_and_much(made):
    pipeline, step = made
    pipe = pipeline(*[Step()] * 1000, {n: str(n) for n in range(1000)})
    pipe.steps.insert(0, ("itself", pipe))
    assert not uses(fits(pipe))
    pipe.steps.insert(1, ("device", step()))
    assert uses(fits(pipe))


class Place(enum.Enum):
    THERE = "cuda"
    HERE = "cpu"


class Setup(NamedTuple):
    device: str


class Slots:
    __slots__ = ("device",)

    def __init__(self, device):
        self.device = device


def test_attributes_of_plain_objects():
    def move(device):
        return lambda x: x.to(device())

    for right, place in [(True, "cuda"), (False, "cpu")]:
        spaces = argparse.Namespace(device=place), types.SimpleNamespace(device=place)
        for thing in (Setup(place), Slots(place), *spaces):

            def moved(x, thing=thing):
                return x.to(thing.device)

            assert uses(moved) is right, thing
    assert uses(lambda x: x.to(Place.THERE.value))
    assert not uses(lambda x: x.to(Place.HERE.value))


def test_calls_by_name_with_arguments_by_name():
    for call in (methodcaller("to", "cuda"), methodcaller("to", device="cuda"), partial(methodcaller("to", "cuda"))):
        assert uses(call)
        assert any(e.weight >= STRONG for e in code.evidence_in_pickle(pickle.dumps(call)))
    assert not uses(methodcaller("to", device="cpu"))


def test_dicts_and_loops():
    with stand_ins():
        import cupy

        table = {"weights": cupy.ones(3), "names": ["cuda"]}
        steps = {"there": cupy.asarray, "here": len}
        basis = [cupy.ones(3), cupy.zeros(3)]
        assert uses(lambda x: x + table["weights"])
        assert uses(lambda x: x + table.get("weights"))
        assert not uses(lambda x: x in table["names"])
        assert uses(lambda x: [step(x) for step in steps.values()])
        assert uses(lambda x: [step(x) for name, step in steps.items()])
        assert uses(lambda x: [x @ vector for vector in basis])
        assert not uses(lambda x: sorted(steps))
        assert uses(lambda x: x.run({"a": (cupy.asarray, x)}, "a"))
