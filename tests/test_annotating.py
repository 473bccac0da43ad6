"""``annotate`` around what builds tasks, ``task`` in the callable: checked where written, and carried by dask."""

from __future__ import annotations

import copy
import fractions
import functools
import inspect
import operator
import pickle
import subprocess
import sys
import threading
import traceback
import types

import cloudpickle
import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import toolz
from dask.tokenize import tokenize
from dask.utils import funcname, has_keyword

from hetsched.annotating import AnnotatedCallable, annotate, annotations_of, task
from hetsched.errors import AnnotationError


def double(x):
    """Twice x."""
    return 2 * x


def triple(x, factor: int = 3):
    return factor * x


@task
def bare(x):
    return x + 1


@task(pool="A", priority=2)
def factorial(n):
    return 1 if n == 0 else n * factorial(n - 1)


class Model:
    weight = 5

    @task(executor="gpu")
    def predict(self, x):
        return self.weight * x

    @staticmethod
    @task(pool="S")
    def fixed(x):
        return -x

    @classmethod
    @task(pool="C")
    def made(cls, x):
        return cls.weight + x

    doubled = task(double, pool="D")
    bound_already = task([1, 2].count, pool="E")
    bound_method = task(fractions.Fraction(1, 2).limit_denominator, pool="F")
    built_in = task(abs, pool="G")

    def __call__(self, x):
        """Call it."""
        return self.weight - x


# annotate


def test_annotate_annotates():
    with annotate(workers={"b", "a"}, pool=None, resources={"GPU": 1}, priority=np.int8(3), team=["x"]):
        inside = dask.get_annotations()
    assert inside == {
        "workers": ["a", "b"],
        "pool": None,
        "resources": {"GPU": 1.0},
        "priority": 3,
        "team": ["x"],
    }
    assert dask.get_annotations() == {}


def test_inner_annotations_win_and_outer_ones_come_back():
    with annotate(pool="A", priority=1):
        with annotate(priority=2, retries=3):
            assert dask.get_annotations() == {"pool": "A", "priority": 2, "retries": 3}
        with dask.annotate(gpu=True), annotate(executor="cpu"):
            assert dask.get_annotations() == {"pool": "A", "priority": 1, "gpu": False, "executor": "cpu"}
        assert dask.get_annotations() == {"pool": "A", "priority": 1}
    with pytest.raises(ZeroDivisionError), annotate(pool="A"):
        raise ZeroDivisionError
    assert dask.get_annotations() == {}


def test_annotate_as_decorator():
    @annotate(pool="A")
    def build(depth):
        return [dask.get_annotations(), *(build(depth - 1) if depth else [])]

    assert build(2) == [{"pool": "A"}] * 3
    assert dask.get_annotations() == {}


def test_a_bad_value_is_an_error_at_the_call():
    with pytest.raises(AnnotationError, match="the annotation priority='high' is not allowed") as caught:
        annotate(priority="high")
    assert "annotate(priority=" in (traceback.extract_tb(caught.value.__traceback__)[0].line or "")
    with pytest.raises(AnnotationError, match="executor='cpu' and gpu=True contradict"):
        annotate(executor="cpu", gpu=True)


def test_a_callable_gets_the_key():
    with annotate(priority=lambda key: key[1], pool="A"):
        x = da.ones(4, chunks=2)
    (layer,) = x.dask.layers.values()
    assert layer.annotations["pool"] == "A"
    assert layer.annotations["priority"](("x", 7)) == 7


# task: the callable


def test_it_is_called_and_looks_like_the_function():
    annotated = task(double, pool="A")
    assert type(annotated) is AnnotatedCallable
    assert annotated(4) == 8
    assert annotated(x=4) == 8
    assert annotated.func is double
    assert annotated.annotations == {"pool": "A"}
    assert (annotated.__name__, annotated.__qualname__) == ("double", "double")
    assert annotated.__module__ == __name__
    assert annotated.__doc__ == "Twice x."
    assert annotated.__wrapped__ is double
    assert inspect.signature(annotated) == inspect.signature(double)
    assert inspect.getfullargspec(annotated) == inspect.getfullargspec(double)
    assert repr(annotated) == "<task double with pool>"
    assert repr(task(double)) == "<task double>"
    assert funcname(annotated) == "double"


def test_keywords_are_seen_through_it():
    annotated = task(triple, pool="A")
    assert has_keyword(annotated, "factor")
    assert not has_keyword(annotated, "block_id")
    assert has_keyword(functools.partial(annotated, 1), "factor")
    assert functools.partial(annotated, factor=4)(2) == 8


@pytest.mark.parametrize(
    ("func", "name"),
    [
        (functools.partial(functools.partial(triple), factor=2), "triple"),
        (np.add, "add"),
        (abs, "abs"),
        (int, "int"),
        (Model(), "Model"),
        (operator.itemgetter(0), "itemgetter"),
        (Model().__call__, "__call__"),
        (lambda x: x, "lambda"),
    ],
)
def test_any_callable_will_do(func, name):
    annotated = task(func, retries=1)
    assert funcname(annotated) == name
    assert annotations_of(annotated) == {"retries": 1}
    assert str(name)[:3] in repr(annotated)
    assert annotated.func is func


def test_public_attributes_are_those_of_the_function():
    annotated = task(np.add, pool="A")
    assert annotated.nin == 2
    assert annotated.reduce([1, 2, 3]) == 6
    with pytest.raises(AttributeError, match="no_such_thing"):
        annotated.no_such_thing  # noqa: B018
    with pytest.raises(AttributeError, match="'AnnotatedCallable' object has no attribute '_private'"):
        annotated._private  # noqa: B018
    with pytest.raises(AttributeError, match="func"):
        AnnotatedCallable.__new__(AnnotatedCallable).func  # noqa: B018


def test_decorators():
    assert bare(1) == 2
    assert annotations_of(bare) == {}
    assert factorial(5) == 120
    assert annotations_of(factorial) == {"pool": "A", "priority": 2}


def test_in_a_class_it_binds_like_the_function():
    model = Model()
    assert model.predict(2) == 10
    assert Model.predict(model, 3) == 15
    assert annotations_of(model.predict) == {"executor": "gpu"}
    assert annotations_of(Model.predict) == {"executor": "gpu"}
    assert model.predict == model.predict
    assert (model.fixed(1), Model.fixed(1), annotations_of(model.fixed)) == (-1, -1, {"pool": "S"})
    assert (model.made(1), Model.made(1), annotations_of(model.made)) == (6, 6, {"pool": "C"})
    with pytest.raises(TypeError):
        model.doubled(1)  # model and 1, as any function would get
    assert model.built_in(-3) == 3
    assert model.bound_already(2) == 1
    assert model.bound_method(2) == fractions.Fraction(1, 2)
    assert annotations_of(model.bound_method) == {"pool": "F"}
    shout = type("Loud", (str,), {"shout": task(str.upper, pool="H")})("a").shout
    assert (shout(), annotations_of(shout)) == ("A", {"pool": "H"})
    again = task(model.predict, pool="A")
    assert (again(2), annotations_of(again)) == (10, {"executor": "gpu", "pool": "A"})


def test_the_outer_of_two_wins():
    inner = task(double, pool="A", priority=1, gpu=True)
    outer = task(inner, pool="B", executor="cpu")
    assert outer.func is double
    assert outer.annotations == {"pool": "B", "priority": 1, "gpu": False, "executor": "cpu"}
    assert inner.annotations == {"pool": "A", "priority": 1, "gpu": True}
    through = task(functools.partial(inner, 4), retries=1)
    assert (through(), through.annotations) == (8, {"pool": "A", "priority": 1, "gpu": True, "retries": 1})


def test_annotations_of():
    annotated = task(double, pool="A")
    assert annotations_of(annotated) is annotated.annotations
    assert annotations_of(functools.partial(functools.partial(annotated, 1))) is annotated.annotations
    assert annotations_of(toolz.curry(annotated)) is annotated.annotations
    for plain in (double, len, int, np.add, functools.partial(double), types.MethodType(double, 1), Model(), None, "f"):
        assert annotations_of(plain) is None


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: task(3), "hetsched.task takes a callable, not a int"),
        (lambda: task(None, pool="A"), "hetsched.task takes a callable, not a NoneType"),
        (lambda: task(pool="A")("f"), "hetsched.task takes a callable, not a str"),
        (
            lambda: task(staticmethod(double)),
            "hetsched.task cannot take a staticmethod: put @hetsched.task below @staticmethod",
        ),
        (
            lambda: task(classmethod(double), pool="A"),
            "hetsched.task cannot take a classmethod: put @hetsched.task below @classmethod",
        ),
        (
            lambda: task(dask.delayed(double), pool="A"),
            "hetsched.task cannot take a dask collection; use it first: dask.delayed(hetsched.task(func))",
        ),
    ],
)
def test_what_is_not_a_function(make, says):
    with pytest.raises(TypeError) as caught:
        make()
    assert str(caught.value) == says


def test_bad_annotations_are_refused_at_once():
    with pytest.raises(AnnotationError, match=r"the annotation executor='gpuu' is not allowed.*did you mean 'gpu'"):
        task(double, executor="gpuu")
    with pytest.raises(AnnotationError, match="retries=-1"):
        task(retries=-1)


def test_an_annotation_may_have_any_name():
    annotated = task(double, func=1, self=2, annotations=3)
    assert annotated.annotations == {"func": 1, "self": 2, "annotations": 3}
    assert annotated(2) == 4


def test_a_wrapped_function_that_raises_is_not_disguised():
    with pytest.raises(ZeroDivisionError):
        task(lambda: 1 / 0)()


def test_equality():
    note = [1]
    assert task(double, pool="A", priority=1) == task(double, priority=1, pool="A")
    assert hash(task(double, pool="A")) == hash(task(double, pool="A"))
    assert task(double, pool="A") != task(double, pool="B")
    assert task(double, pool="A") != task(triple, pool="A")
    assert task(double, pool="A") != double
    assert task(double, note=note) != task(double, note=note)  # unknown values are not compared
    model = Model()
    assert task(model.__call__, pool="A") == task(model.__call__, pool="A")
    assert len({task(model.__call__, pool="A"), task(model.__call__, pool="A")}) == 1
    assert task(model.__call__) != task(Model().__call__)


# task: pickles and copies


@pytest.mark.parametrize("library", [pickle, cloudpickle])
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickles(library, protocol):
    annotated = task(double, pool=["A", "B"], note={"a": 1})
    back = pickle.loads(library.dumps(annotated, protocol))
    assert (back.func, back.annotations, back(2)) == (double, {"pool": ("A", "B"), "note": {"a": 1}}, 4)
    assert back.__name__ == "double"
    assert inspect.signature(back) == inspect.signature(double)
    for decorated in (factorial, bare, Model.predict, Model.fixed):
        assert pickle.loads(library.dumps(decorated, protocol)) is decorated
    assert pickle.loads(library.dumps(Model().predict, protocol))(2) == 10
    assert pickle.loads(library.dumps(Model().made, protocol))(2) == 7
    assert pickle.loads(library.dumps(functools.partial(annotated, 3), protocol))() == 6


def test_cloudpickles_what_has_no_name():
    def local(n):
        return 1 if n == 0 else n * inner(n - 1)

    inner = task(local, pool="A", priority=lambda key: key[0])
    back = pickle.loads(cloudpickle.dumps(inner))
    assert (back(4), back.__name__, back.annotations["pool"]) == (24, "local", "A")
    assert back.annotations["priority"]((7,)) == 7
    assert pickle.loads(cloudpickle.dumps(task(lambda x: x + 1, retries=2)))(1) == 2


def test_copies():
    annotated = task(double, pool="A", note=[1])
    for copied in (copy.copy(annotated), copy.deepcopy(annotated)):
        assert (copied.func, copied.annotations, copied(2)) == (double, {"pool": "A", "note": [1]}, 4)
    assert copy.copy(factorial) is factorial


PROGRAM = """
import sys, cloudpickle, hetsched.annotating

@hetsched.annotating.task(pool="A")
def factorial(n):
    return 1 if n == 0 else n * factorial(n - 1)

sys.stdout.buffer.write(cloudpickle.dumps(factorial))
"""
READER = """
import sys, pickle
factorial = pickle.loads(sys.stdin.buffer.read())
assert "dask" not in sys.modules
print(factorial(5), factorial.annotations, factorial.__name__)
"""


def test_from_main_it_travels_by_value_and_needs_no_dask_where_it_runs():
    sent = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True, timeout=60).stdout
    read = subprocess.run([sys.executable, "-c", READER], input=sent, capture_output=True, check=True, timeout=60)
    assert read.stdout.decode().split("\n")[0] == "120 {'pool': 'A'} factorial"


def test_a_module_registered_to_go_by_value_goes_by_value():
    module = types.ModuleType("hetsched_made_up")
    sys.modules[module.__name__] = module
    try:
        exec("from hetsched.annotating import task\n@task(pool='A')\ndef f(x):\n    return x + 1\n", module.__dict__)
        cloudpickle.register_pickle_by_value(module)
        try:
            by_value = cloudpickle.dumps(module.f)
        finally:
            cloudpickle.unregister_pickle_by_value(module)
        by_name = cloudpickle.dumps(module.f)
        assert pickle.loads(by_name) is module.f
    finally:
        del sys.modules[module.__name__]
    back = pickle.loads(by_value)
    assert (back(1), back.annotations) == (2, {"pool": "A"})
    with pytest.raises(ModuleNotFoundError):
        pickle.loads(by_name)


# task: in dask


def test_tokens_are_those_of_function_and_annotations():
    token = tokenize(task(double, pool="A", priority=1), ensure_deterministic=True)
    assert token == tokenize(task(double, priority=1, pool="A"), ensure_deterministic=True)
    assert token == tokenize(pickle.loads(pickle.dumps(task(double, pool="A", priority=1))))
    others = [
        double,
        task(double),
        task(double, pool="A"),
        task(double, pool="A", priority=2),
        task(triple, pool="A", priority=1),
    ]
    assert len({token, *(tokenize(other, ensure_deterministic=True) for other in others)}) == 6


def test_tokens_are_the_same_in_every_process():
    program = "import dask, hetsched.annotating as h; print(dask.base.tokenize(h.task(len, pool='A', priority=1)))"
    tokens = set()
    for seed in ("1", "2"):
        run = [sys.executable, "-c", program]
        done = subprocess.run(run, env={"PYTHONHASHSEED": seed}, capture_output=True, check=True, timeout=60)
        tokens.add(done.stdout)
    assert len(tokens) == 1


def test_what_has_no_token_is_equal_to_itself_alone():
    annotated, other = (task(double, lock=threading.Lock()) for _ in range(2))
    token = tokenize(annotated, ensure_deterministic=True)
    assert token == tokenize(annotated, ensure_deterministic=True)
    assert token != tokenize(other, ensure_deterministic=True)


def test_delayed():
    annotated = task(double, pool="A")
    assert dask.delayed(annotated)(3).compute(scheduler="threads") == 6
    one, two = dask.delayed(annotated, pure=True)(3), dask.delayed(annotated, pure=True)(3)
    assert one.key == two.key
    assert one.key.startswith("double-")
    assert dask.delayed(Model().predict)(2).compute(scheduler="threads") == 10


def number(block, block_id=None):
    return block * 0 + block_id[0]


def total_of(block, axis=None, keepdims=False, dtype=None):
    assert dtype is not None
    return block.sum(axis=axis, keepdims=keepdims, dtype=dtype)


def test_arrays():
    x = da.arange(6, chunks=2)
    y = x.map_blocks(task(double, pool="A"), dtype=int)
    assert y.compute(scheduler="threads").tolist() == [0, 2, 4, 6, 8, 10]
    assert y.name == x.map_blocks(task(double, pool="A"), dtype=int).name
    assert y.name.startswith("double-")
    z = x.map_blocks(task(number, pool="A"), dtype=int)
    assert z.compute(scheduler="threads").tolist() == [0, 0, 1, 1, 2, 2]
    for func in (total_of, np.sum):
        total = da.reduction(x, task(func, pool="A"), task(func, pool="A"), dtype=int)
        assert total.compute(scheduler="threads") == 15
    g = da.apply_gufunc(task(np.add, executor="gpu"), "(),()->()", x, x)
    assert g.compute(scheduler="threads").tolist() == [0, 2, 4, 6, 8, 10]
    o = x.map_overlap(task(double, pool="A"), depth=1, boundary="none", dtype=int)
    assert o.compute(scheduler="threads").tolist() == [0, 2, 4, 6, 8, 10]


def test_bags():
    bag = db.from_sequence(range(6), npartitions=3)
    mapped = bag.map(task(triple, pool="A"), factor=2).filter(task(bool, pool="B"))
    assert mapped.compute(scheduler="threads") == [2, 4, 6, 8, 10]
    assert bag.map_partitions(task(sum, pool="A")).compute(scheduler="threads") == [1, 5, 9]
    assert bag.fold(task(operator.add, pool="A")).compute(scheduler="threads") == 15


@pytest.mark.parametrize("annotations", [{"pool": "A"}, {"lock": threading.Lock()}])
def test_data_frames(annotations):
    def add(part, partition_info=None):
        return part + 1 if partition_info is not None else part

    frame = dd.from_pandas(pd.DataFrame({"a": range(6)}), npartitions=3)
    annotated = task(double, **annotations)
    out = frame.map_partitions(annotated)
    assert out.compute(scheduler="threads").a.tolist() == [0, 2, 4, 6, 8, 10]
    assert frame.map_partitions(annotated)._name == out._name
    assert frame.map_partitions(task(add, **annotations)).compute(scheduler="threads").a.tolist() == [1, 2, 3, 4, 5, 6]
    assert frame.a.map(annotated, meta=("a", "i8")).compute(scheduler="threads").tolist() == [0, 2, 4, 6, 8, 10]
