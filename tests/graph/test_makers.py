"""Which functions make the tasks of a graph, and what is known of them before any has run."""

from __future__ import annotations

import functools
from types import ModuleType

import dask
import dask.array as da
import dask.bag as db
import pytest

from hetsched.core.evidence import CODE, INPUT, STRONG, WEAK
from hetsched.core.types import EACH, Ref, TaskSpec
from hetsched.graph.build import build
from hetsched.graph.makers import Makers

cp = ModuleType("cupy")


def on_gpu(x):
    return cp.asnumpy(cp.asarray(x))


def plain(x, *more, **named):
    return x


def move(x, device):
    return x.to(device)


class Mover:
    def __init__(self, device):
        self.device = device

    def move(self, x):
        return x.to(self.device)

    __call__ = move


def closing_over(device):
    return lambda x: x.to(device)


def with_default(name):
    def func(x, *, device=name):
        return x.to(device)

    return func


def said(self, name):
    self.name = name


class OnDevice:
    nbytes = 8
    __cuda_array_interface__ = {"shape": (1,), "typestr": "<f8", "data": (1 << 20, False), "version": 3}


class OnHost:
    @property
    def __cuda_array_interface__(self):
        raise AttributeError


def spec(func, *args, **kwargs):
    return TaskSpec("x", func, args, kwargs or None)


def kinds(makers, place):
    return {evidence.kind for evidence in makers[place].evidence}


def test_each_function_is_told_once() -> None:
    tasks = [spec(plain, 1), spec(on_gpu, 1), spec(plain, 2, "text", key=None), spec(on_gpu, 2)]
    makers, made_by = Makers().take(tasks)
    assert made_by == [0, 1, 0, 1]
    assert [maker.name for maker in makers] == [f"{__name__}.plain", f"{__name__}.on_gpu"]
    assert kinds(makers, 0) == set()
    assert CODE in kinds(makers, 1)
    assert len({maker.digest for maker in makers}) == 2


def test_later_parts_go_on_counting() -> None:
    makers = Makers()
    assert makers.take([spec(plain, 1)])[1] == [0]
    more, made_by = makers.take([spec(on_gpu, 1), spec(plain, 1)])
    assert (len(more), made_by) == (1, [1, 0])


def test_functions_and_devices_that_are_handed_on_count() -> None:
    makers, made_by = Makers().take([
        spec(plain, Ref(0), on_gpu), spec(plain, Ref(0), plain), spec(plain, Ref(0), _func=on_gpu),
        spec(plain, Ref(0)), spec(move, 1, "cuda:0"), spec(move, 1, "cpu"), spec(move, 1, "a gpu in a story"),
    ])  # fmt: skip
    assert made_by[0] == made_by[2]
    assert CODE in kinds(makers, made_by[0])
    assert not kinds(makers, made_by[1])
    assert not kinds(makers, made_by[3])
    assert made_by[4] != made_by[5]
    assert makers[made_by[0]].name == f"{__name__}.plain({__name__}.on_gpu)"


@pytest.mark.parametrize(
    ("there", "here"),
    [
        pytest.param(functools.partial(move, device="cuda:0"), functools.partial(move, device="cpu"), id="partial"),
        pytest.param(Mover("cuda"), Mover("cpu"), id="instance"),
        pytest.param(Mover("cuda").move, Mover("cpu").move, id="method"),
        pytest.param(closing_over("cuda"), closing_over("cpu"), id="closure"),
        pytest.param(with_default("cuda"), with_default("cpu"), id="keyword default"),
    ],
)
def test_what_is_bound_to_the_same_code_tells_functions_apart(there, here) -> None:
    for pair in ((there, here), (here, there)):
        makers, made_by = Makers().take([spec(func, 1) for func in pair])
        told = dict(zip(pair, made_by, strict=True))
        assert CODE in kinds(makers, told[there])
        assert all(e.weight < WEAK for e in makers[told[here]].evidence)
        assert len({maker.digest for maker in makers}) == 2


def test_a_device_that_is_an_argument_counts_as_its_name_does() -> None:
    device = type("device", (), {"__module__": "torch", "__init__": said, "__str__": lambda self: self.name})
    tasks = [spec(move, Ref(0), one) for one in (device("cuda:0"), "cuda:0", device("cpu"), "cpu")]
    makers, made_by = Makers().take([*tasks, spec(move, Ref(0), device=device("cuda:0"))])
    strong = [any(e.weight >= STRONG for e in makers[place].evidence) for place in made_by]
    assert strong == [True, True, False, False, True]
    assert {makers[place].digest for place in made_by[:2]}.isdisjoint({makers[made_by[2]].digest})


def test_an_argument_on_a_device_is_another_maker() -> None:
    args = OnDevice(), OnHost(), 1, OnDevice()
    makers, made_by = Makers().take([spec(plain, arg) for arg in args])
    assert made_by == [1, 0, 0, 1]
    assert not kinds(makers, 0)
    assert kinds(makers, 1) == {INPUT}
    assert makers[0].digest == makers[1].digest


def test_partials_and_wrapped_functions_are_looked_into() -> None:
    @functools.wraps(on_gpu)
    def wrapper(x):
        return on_gpu(x)

    for func in (functools.partial(on_gpu), wrapper):
        makers, _ = Makers().take([TaskSpec("x", func, EACH, None, (0,))])
        assert CODE in kinds(makers, 0), func


@pytest.mark.parametrize(
    "collection",
    [
        pytest.param(lambda: da.ones((8, 8), chunks=4).map_blocks(on_gpu, meta=1.0) + 1, id="array"),
        pytest.param(lambda: db.from_sequence(range(6), npartitions=3).map(plain).map(on_gpu), id="bag"),
        pytest.param(lambda: dask.delayed(sum)([dask.delayed(on_gpu)(n) for n in range(4)]), id="delayed"),
    ],
)
def test_what_is_inside_of_collections_is_found(collection) -> None:
    made = collection()
    built = build(made, made.__dask_keys__())
    makers, made_by = Makers().take(built.tasks)
    assert any(CODE in kinds(makers, place) for place in made_by)
    assert len(makers) <= 4


def test_very_many_functions_are_not_told_apart_for_ever(monkeypatch) -> None:
    from hetsched.graph import makers as module

    functions = [functools.partial(plain, n) for n in range(6000)]
    makers, made_by = Makers().take([spec(func, 1) for func in functions])
    assert len(makers) == max(made_by) + 1 == module._MOST_MAKERS
    assert makers[-1].digest == ""
