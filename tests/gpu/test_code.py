"""What the inspector of code says of single functions: whole evidence, in order."""

from __future__ import annotations

import functools
import gc
import random
import sys
import types

import cloudpickle
import numpy as np
import pytest
from gpu_corpus.stand_ins import stand_ins
from hypothesis import given
from hypothesis import strategies as st

from hetsched.core.evidence import CODE, DOWNLOAD, Evidence
from hetsched.core.types import EACH, Ref
from hetsched.gpu import bytecode, code
from hetsched.gpu.code import evidence_in_pickle, evidence_of, evidence_of_call
from hetsched.worker.plan import Chain, OnList, Plan


@pytest.fixture(autouse=True)
def libraries():
    code.forget()
    with stand_ins():
        yield
    code.forget()


def made(text: str, name: str = "f"):
    """A function out of a text, in a module of its own."""
    module = types.ModuleType("a_persons_module")
    exec(compile(text, "<a person's module>", "exec", dont_inherit=True), vars(module))
    return vars(module)[name]


def said(text: str) -> list[tuple[str, float, str]]:
    return [tuple(e) for e in evidence_of(made(text))]


def test_the_name_that_convicted_is_told():
    assert evidence_of(made("import cupy as cp\ndef f(x): return cp.asarray(x)")) == (
        Evidence(CODE, 0.95, "cupy.asarray"),
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def f(x): return x", []),
        ("import torch\ndef f(x): return torch.as_tensor(x).numpy()", [(CODE, 0.2, "uses torch")]),
        ("def f(x): return x.cuda()", [(CODE, 0.95, ".cuda()")]),
        ("def f(x): return x.to('cuda:1')", [(CODE, 0.95, ".to('cuda:1')")]),
        ("def f(x): return x.to(device='cuda')", [(CODE, 0.95, ".to('cuda')")]),
        ("def f(x, d): return x.to(d)", [(CODE, 0.3, ".to(...)")]),
        ("def f(x): return x.to('cpu')", []),
        ("def f(x): return x.get()", [(DOWNLOAD, 0.3, ".get()")]),
        ("def f(x): return x.get('cuda')", []),
        ("import cupy\ndef f(x): return cupy.asnumpy(x)", [(DOWNLOAD, 0.8, "cupy.asnumpy")]),
        ("import cupy\ndef f(x): return cupy.get_array_module(x).sum(x)", [(CODE, 0.3, "cupy.get_array_module")]),
        ("import cupy\ndef f(x): return x.astype(cupy.float32)", []),
        ("import torch\ndef f(): return torch.cuda.is_available()", []),
        (
            "import cupy\ndef g(x): return cupy.sin(x)\ndef f(x): return g(x)",
            [(CODE, 0.95, "cupy.sin, in g")],
        ),
        (
            "import cupy\ndef f(x, there): return cupy.sin(x) if there else abs(x)",
            [(CODE, 0.4, "cupy.sin (on some ways only)")],
        ),
        ("def f(x): return xp.sin(x)", []),
        ("def f(x): return cupy.sin(x)", [(CODE, 0.95, "cupy.sin")]),
    ],
)
def test_small_functions(text, found):
    assert said(text) == found


def test_functions_are_followed_to_a_depth():
    f = made(
        "import cupy\ndef c(x): return cupy.sin(x)\ndef b(x): return c(x)\ndef a(x): return b(x)\ndef f(x): return a(x)"
    )
    found = []
    for depth in range(5):
        code.forget()
        found.append(bool(evidence_of(f, depth)))
    assert found == [False, False, False, True, True]


def test_a_function_that_calls_itself():
    assert said("import cupy\ndef f(x): return f(x - 1) if x else cupy.zeros(3)") != []
    assert said("def g(x): return f(x)\ndef f(x): return g(x)") == []


def test_seen_before_is_the_very_same_answer_until_forgotten():
    f = made("import cupy\ndef f(x): return cupy.sin(x)")
    first = evidence_of(f)
    assert evidence_of(f) is first
    assert evidence_of(types.FunctionType(f.__code__, f.__globals__)) is first
    code.forget()
    assert evidence_of(f) == first


def test_nothing_is_kept_alive_by_having_been_seen():
    f = made("def f(x): return x")
    evidence_of(f)
    number = id(f)
    assert number in code._seen
    del f
    gc.collect()
    assert number not in code._seen


def test_two_closures_of_one_code():
    make = made("def f(device):\n    def g(x): return x.to(device)\n    return g")
    assert evidence_of(make("cuda")) == (Evidence(CODE, 0.95, ".to('cuda')"),)
    assert evidence_of(make("cpu")) == ()


def test_nothing_is_run_imported_or_asked():
    class Trap:
        def __getattr__(self, name):
            raise AssertionError(name)

        def __bool__(self):
            raise AssertionError

        def __call__(self):
            raise AssertionError

        @property
        def size(self):
            raise AssertionError

    f = made(
        "def f(x):\n    import cupy_not_there, colorsys\n    return trap.size, trap.any, trap(), not trap, colorsys"
    )
    f.__globals__["trap"] = Trap()
    sys.modules.pop("colorsys", None)
    before = set(sys.modules)
    assert evidence_of(f) == ()
    assert set(sys.modules) == before


ODD = [
    None, 5, "cuda", object(), len, int, type, print, [], {}, np.sum, np.sin, np.vectorize(abs),
    functools.partial(int, base=2), functools.partial(len), [].append, "x".join, str.upper, property(len),
    staticmethod(len), types.SimpleNamespace(),
    sys, functools.lru_cache(len), iter([]), (lambda: (yield)), functools.singledispatch(len),
    NotImplemented, ..., Exception,
]  # fmt: skip


@pytest.mark.parametrize("func", ODD, ids=lambda func: type(func).__name__)
def test_odd_callables_say_nothing(func):
    assert evidence_of(func) == ()
    assert evidence_of_call(func, [1, "a", None], {"k": 2}) == ()


def test_fused_tasks_are_looked_into():
    upload, double = made("import cupy\ndef f(x): return cupy.asarray(x)"), made("def f(x): return 2 * x")
    there = (Evidence(CODE, 0.95, "cupy.asarray"),)
    assert evidence_of(Chain([(double, EACH, None), (upload, (Ref(0),), None)])) == there
    assert evidence_of(Chain([(double, EACH, None)])) == ()
    assert evidence_of(Plan([(double, (), None, ()), (upload, (), None, ())])) == there
    assert evidence_of(OnList(upload)) == there


def test_functions_that_arguments_hand_on():
    upload = made("import cupy\ndef f(x): return cupy.asarray(x)")
    assert evidence_of(functools.partial(map, upload)) == (Evidence(CODE, 0.95, "cupy.asarray"),)
    assert [e.weight for e in evidence_of_call(map, [upload, [1, 2]])] == [0.95]
    move = made("def f(x, where): return x.to(where)")
    assert evidence_of_call(move, [object()], {"where": "cuda"}) == (Evidence(CODE, 0.95, ".to('cuda')"),)
    assert evidence_of_call(move, [object(), "cpu"]) == ()


@pytest.mark.parametrize(
    "body",
    [
        "if len(x) == 0:\n        return None\n    return cupy.sort(x)",
        "if x is None:\n        raise ValueError\n    return cupy.sort(x)",
        "for y in x:\n        cupy.sort(y)",
        "while x:\n        cupy.sort(x.pop())",
        "try:\n        return cupy.sort(x)\n    except ValueError:\n        return None",
        "try:\n        y = cupy.sort(x)\n    finally:\n        print(x)\n    return y",
        "with open(x) as g:\n        return cupy.sort(g.read())",
        "match x:\n        case None:\n            return None\n        case _:\n            return cupy.sort(x)",
        "return [cupy.sort(y) for y in x if y]",
        "for y in x:\n        if y > 3:\n            cupy.sort(y)\n    return x",
        "for y in x:\n        if y > 3:\n            continue\n        cupy.sort(y)\n    return x",
        "while True:\n        if not x:\n            break\n        cupy.sort(x.pop())\n    return x",
        "return {k: cupy.sort(v) for k, v in x.items()}",
        "return sum(float(cupy.sort(y)[0]) for y in x)",
        "return (lambda y: cupy.sort(y))(x)",
        "y = cupy.sort\n    return y(x)",
        "return list(map(cupy.sort, x))",
        "return x.map_blocks(cupy.sort)",
        "return x.apply(func=cupy.sort)",
        "y, z = cupy.sort, 3\n    return y(x, z)",
        "return (cupy if True else abs).sort(x)",
        "return getattr(cupy, 'sort')(x)",
        "from cupy import sort as s\n    return s(x)",
        "from cupy.linalg import norm\n    return norm(x)",
        "import cupy.linalg as la\n    return la.norm(x)",
        "import cupyx.scipy.ndimage\n    return cupyx.scipy.ndimage.sobel(x)",
        "if isinstance(x, cupy.ndarray):\n        return x.sum()\n    return cupy.asarray(x).sum()",
        "class C:\n        def g(self): return cupy.sort(x)\n    return C().g()",
        "def g(*a, **k):\n        return cupy.sort(*a, **k)\n    return g(x)",
    ],
)
def test_ways_that_all_lead_to_the_device(body):
    found = said(f"import cupy\ndef f(x):\n    {body}")
    assert any(weight >= 0.8 for _, weight, _ in found), found


@pytest.mark.parametrize(
    "body",
    [
        "if isinstance(x, cupy.ndarray):\n        return cupy.sort(x)\n    return sorted(x)",
        "if x.is_cuda:\n        return cupy.sort(x)\n    return x.sort()",
        "if len(x) > 100:\n        y = cupy.sort(x)\n    else:\n        y = sorted(x)\n    return y",
        "xp = cupy if hasattr(x, '__cuda_array_interface__') else list\n    return xp.sort(x)",
        "if x.device.type == 'cuda':\n        x = cupy.asarray(x)\n    return x + 1",
        "if type(x).__module__.startswith('cupy'):\n        return cupy.sort(x)\n    return x + 1",
        "return cupy.get_array_module(x).sort(x)",
        "for y in x:\n        if isinstance(y, cupy.ndarray):\n            cupy.sort(y)\n    return x",
        "return x.cuda",
        "return 'cuda' in x and x['cupy']",
        "import json\n    return json.dumps({'device': 'cuda'})",
        "return print('cuda', x, device='cuda')",
        "try:\n        return sorted(x)\n    except TypeError:\n        return cupy.sort(x)",
        "if False:\n        cupy.sort(x)\n    return x",
        "if __debug__ is False:\n        cupy.sort(x)\n    return x",
        "x: cupy.ndarray = x + 1\n    return x",
        "cupy = x\n    return cupy.sort()",
    ],
)
def test_ways_that_do_not(body):
    found = said(f"import cupy\ndef f(x):\n    {body}")
    assert all(weight < 0.5 for _, weight, _ in found), found


def test_pickles_are_read_and_not_loaded():
    class Trap:
        def __reduce__(self):
            return (exec, ("raise SystemExit",))

    f = made("import cupy\ndef f(x): return cupy.sin(x)")
    assert evidence_in_pickle(cloudpickle.dumps((Trap(), f, Trap()))) == (Evidence(CODE, 0.95, "cupy.sin"),)
    assert evidence_in_pickle(b"ccupy_not_there\nf\n.") == ()
    assert evidence_in_pickle(b"ccupy\nsin\n.") == (Evidence(CODE, 0.9, "cupy.sin"),)


@given(st.binary(max_size=200))
def test_any_bytes(data):
    assert isinstance(evidence_in_pickle(data), tuple)


def test_broken_pickles():
    whole = cloudpickle.dumps(made("import cupy\ndef f(x, y=[1]): return {'a': cupy.sin(x)}"))
    rng = random.Random(5)
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(3):
            data[rng.randrange(len(data))] = rng.randrange(256)
        assert isinstance(evidence_in_pickle(bytes(data)), tuple)
    assert evidence_in_pickle(whole) == (Evidence(CODE, 0.95, "cupy.sin"),)


def read_strictly(func):
    """Like ``evidence_of``, but an error of the reader's is an error."""
    frame = code.Reading().outermost()
    code._look(frame, func, [], {}, 100)
    return frame.found


MODULES = ["argparse", "ast", "asyncio.base_events", "collections", "dataclasses", "decimal", "dis", "email.message",
           "enum", "functools", "inspect", "json.encoder", "logging", "pickle", "statistics", "subprocess", "tarfile",
           "threading", "typing", "unittest.mock", "zipfile"]  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_the_reader_stands_all_of_the_standard_library(name):
    """No instruction of any function there breaks the reader, and none is convicted."""
    __import__(name)
    todo = [f for f in vars(sys.modules[name]).values() if isinstance(f, types.FunctionType)]
    for kind in [k for k in vars(sys.modules[name]).values() if isinstance(k, type)]:
        todo += [f for f in vars(kind).values() if isinstance(f, types.FunctionType)]
    for func in todo:
        reading = code.Reading()
        frame = reading.outermost()
        reading.follow(frame, code.Known(func, free=True), [], {})
        assert not [e for e in frame.found if e.weight >= 0.8], (func, frame.found)


def test_stacks_are_as_deep_as_pythons():
    """Wherever code is reached, the reader has as many values as Python would: none is ever taken that is not there."""
    taken = []

    class Watched(bytecode.Frame):
        def pop(self):
            taken.append(bool(self.stack))
            return super().pop()

        def pops(self, count):
            taken.append(len(self.stack) >= count)
            return super().pops(count)

    for name in ("argparse", "functools", "json.encoder", "statistics", "textwrap"):
        __import__(name)
        for func in [f for f in vars(sys.modules[name]).values() if isinstance(f, types.FunctionType)]:
            reading = code.Reading(0)
            wide = reading._globals(func)
            Watched(reading, func.__code__, wide, {}, 0).read()
    assert len(taken) > 1000
    assert all(taken)
