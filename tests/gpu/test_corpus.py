"""The corpus, judged: on telling and on mute stand-ins, where libraries are missing, and through pickles."""

from __future__ import annotations

import contextlib
import sys
import types
from collections import Counter

import cloudpickle
import pytest
from gpu_corpus.entries import ENTRIES
from gpu_corpus.loading import PARTS, corpus
from gpu_corpus.stand_ins import ROOTS

from hetsched.core.evidence import STRONG, WEAK
from hetsched.gpu import code


@pytest.fixture(autouse=True)
def forgetful():
    code.forget()
    yield
    code.forget()


def judged(entries, look=code.evidence_of):
    """Recall, precision, and the names of those judged wrong."""
    wrong, counts = [], Counter()
    for entry in entries:
        convicted = any(e.weight >= STRONG for e in look(entry.func))
        right = entry.answer == "gpu"
        counts[convicted, right] += 1
        if convicted != right:
            wrong.append(f"{entry.answer}: {entry.name}")
    recall = counts[True, True] / (counts[True, True] + counts[False, True])
    return recall, counts[True, True] / (counts[True, True] + counts[True, False]), wrong


def by_pickle(entries):
    """Those that can be pickled, judged by their pickles."""
    pickled = []
    for entry in entries:
        with contextlib.suppress(TypeError):  # those with locks or weak references in them
            pickled.append(entry._replace(func=cloudpickle.dumps(entry.func)))
    assert len(pickled) >= len(entries) - 15
    return judged(pickled, code.evidence_in_pickle)


def test_there_is_enough_of_everything():
    with corpus() as entries:
        answers = Counter(e.answer for e in entries)
        names = [e.name for e in entries]
    assert len(entries) >= 120
    assert min(answers.values()) >= 20
    assert len(set(names)) == len(names)
    assert sum(name.startswith("before_") for name in names) >= 60
    assert not [m for m in sys.modules if m.partition(".")[0] == "cupy"]
    assert len(PARTS) == 24
    assert ENTRIES


@pytest.mark.parametrize("telling", [True, False], ids=["telling", "mute"])
def test_code_alone(telling):
    with corpus(telling=telling) as entries:
        recall, precision, wrong = judged(entries)
    # A mute stand-in that is closed over, or held, or is itself the task, is nothing that anybody could know.
    assert recall >= (0.99 if telling else 0.91), wrong
    assert precision >= 0.99, wrong


def test_libraries_that_are_missing():
    """`cp = None` where the import failed: the module's text says what it would be."""
    with corpus() as entries:
        for part in PARTS:
            module = sys.modules[f"gpu_corpus.{part}"]
            for name, thing in list(vars(module).items()):
                home = thing.__name__ if isinstance(thing, types.ModuleType) else str(getattr(thing, "__module__", ""))
                if {home.partition(".")[0], type(thing).__module__.partition(".")[0]} & set(ROOTS):
                    setattr(module, name, None)
        recall, precision, wrong = judged(entries)
    assert recall >= 0.95, wrong
    assert precision >= 0.99, wrong


def test_pickles_by_value():
    with corpus() as entries, contextlib.ExitStack() as stack:
        for part in PARTS:
            module = sys.modules[f"gpu_corpus.{part}"]
            cloudpickle.register_pickle_by_value(module)
            stack.callback(cloudpickle.unregister_pickle_by_value, module)
        recall, precision, wrong = by_pickle(entries)
    assert recall >= 0.95, wrong
    assert precision >= 0.99, wrong


def test_pickles_by_reference_to_what_is_loaded():
    with corpus() as entries:
        named = [e for e in entries if isinstance(e.func, types.FunctionType) and "<" not in e.func.__qualname__]
        recall, precision, wrong = by_pickle(named)
    assert len(named) > 100
    assert recall >= 0.99, wrong
    assert precision >= 0.99, wrong


def test_what_depends_on_the_input_is_no_more_than_a_hint():
    with corpus() as entries:
        hints = {e.name: code.evidence_of(e.func) for e in entries if e.answer == "depends"}
    assert not {name: found for name, found in hints.items() if any(e.weight >= WEAK for e in found)}


def test_the_same_evidence_whatever_was_read_before():
    with corpus() as entries:
        once = [code.evidence_of(e.func) for e in entries]
        code.forget()
        again = [code.evidence_of(e.func) for e in reversed(entries)][::-1]
    assert once == again
