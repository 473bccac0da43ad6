"""From evidence to a verdict: thresholds, hysteresis, what contradicts what; and what a scheduler does of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsched.core.evidence import CODE, DOWNLOAD, FAILED, INPUT, RAN, RESULT, Evidence
from hetsched.core.gpu import CPU, GPU, OFF, PATIENCE, UNKNOWN, Case, Flip, Lesson, Run

ON_DEVICE = Run(on_gpu=False, cuda_nbytes=8)
HOST = Run(on_gpu=False)


def case(*evidence, function="f"):
    found = Case("p", function)
    found.learn(evidence, 0.0)
    return found


def ran(found, *runs):
    for run in runs:
        found.ran(run, 1.0)
    return found.verdict, found.places


# What is known before a run


@pytest.mark.parametrize(
    ("evidence", "verdict", "places"),
    [
        ((), UNKNOWN, False),
        ((Evidence(CODE, 0.9, "cupy.sum"),), GPU, True),
        ((Evidence(CODE, 0.8, "cupy.sum"),), GPU, True),
        ((Evidence(CODE, 0.79, "torch.tensor"),), UNKNOWN, False),
        # Hints say what to look at, however many there are.
        (tuple(Evidence(CODE, 0.45, f"hint {n}") for n in range(9)), UNKNOWN, False),
        # Two that are more than hints leave little doubt together.
        ((Evidence(CODE, 0.6, "a"), Evidence(CODE, 0.6, "b")), GPU, True),
        ((Evidence(DOWNLOAD, 0.9, "cupy.asnumpy"),), GPU, True),
        ((Evidence(RESULT, 1.0, "its result is on a device"),), GPU, True),
        ((Evidence(FAILED, 1.0, "no context"),), GPU, True),
        # Where only inputs tell, each task's own are looked at.
        ((Evidence(INPUT, 0.9, "its inputs were on a device"),), GPU, False),
        ((Evidence(CODE, 0.9, "x.cuda()"), Evidence(CODE, -0.9, 'device="cpu"')), UNKNOWN, False),
        ((Evidence(CODE, 0.9, "x.cuda()"), Evidence(RAN, -0.9, "it ran without")), UNKNOWN, False),
        ((Evidence("gossip", 1.0, "?"), Evidence(CODE, 7.0, "?"), Evidence(CODE, float("nan"), "?")), UNKNOWN, False),
    ],
)
def test_what_is_known_before_a_run(evidence, verdict, places) -> None:
    found = case(*evidence)
    assert (found.verdict, found.places) == (verdict, places)


def test_the_same_evidence_brought_again_counts_once() -> None:
    found = case(Evidence(CODE, 0.6, "a"))
    for _ in range(10):
        found.learn([Evidence(CODE, 0.6, "a")], 1.0)
    assert (found.verdict, found.belief()) == (UNKNOWN, 0.6)


# What runs show


def test_a_result_on_a_device_settles_it_and_ten_on_the_host_unsettle_it() -> None:
    found = case()
    assert ran(found, ON_DEVICE) == (GPU, True)
    assert ran(found, *[Run(on_gpu=True)] * (PATIENCE - 1)) == (GPU, True)
    assert ran(found, Run(on_gpu=True)) == (CPU, False)
    assert found.flips == [
        Flip(1.0, GPU, "result: its result is on a device"),
        Flip(1.0, CPU, "10 runs without a sign of a device"),
    ]


def test_each_return_takes_twice_as_long_to_undo() -> None:
    found = case()
    lengths = []
    for _ in range(3):
        ran(found, ON_DEVICE)
        count = 0
        while found.places:
            ran(found, Run(on_gpu=True))
            count += 1
        lengths.append(count)
    assert lengths == [PATIENCE, 2 * PATIENCE, 4 * PATIENCE]


def test_code_that_uses_a_device_is_not_contradicted_by_results_on_the_host() -> None:
    found = case(Evidence(CODE, 0.9, "cupy.sum"))
    assert ran(found, *[Run(on_gpu=True)] * 1000) == (GPU, True)


def test_code_that_probes_never_see_use_a_device_is_given_up_slowly() -> None:
    found = case(Evidence(CODE, 0.9, "x.cuda() in a branch that is not taken"))
    watched = Run(on_gpu=True, watched=True)
    assert ran(found, *[watched] * 2) == (GPU, True)
    assert ran(found, *[watched] * 40) == (CPU, False)


def test_what_a_probe_saw_settles_it() -> None:
    assert ran(case(), Run(on_gpu=False, ran=Evidence(RAN, 0.9, "cupy took 80 MB"))) == (GPU, True)
    assert ran(case(), Run(on_gpu=False, ran=Evidence(RAN, 0.4, "perhaps"))) == (UNKNOWN, False)


def test_tasks_that_follow_their_inputs_are_placed_by_them() -> None:
    found = case()
    assert ran(found, Run(on_gpu=True, near=True, cuda_nbytes=8)) == (GPU, False)
    assert found.evidence() == [(INPUT, 0.9, "its inputs were on a device", 1)]
    found = case()
    assert ran(found, Run(on_gpu=True, near=True)) == (GPU, False)
    assert found.evidence() == [(DOWNLOAD, 0.9, "its inputs were on a device, and its result is not", 1)]
    assert ran(found, *[HOST] * 11) == (CPU, False)


def test_three_clean_runs_are_taken_for_the_cpus() -> None:
    found = case(Evidence(CODE, 0.3, "import torch"))
    assert ran(found, HOST, HOST) == (UNKNOWN, False)
    assert ran(found, HOST) == (CPU, False)
    assert ran(found, ON_DEVICE) == (GPU, True)


def test_an_error_of_a_device_settles_it() -> None:
    found = case()
    found.failed("CUDARuntimeError: no context", 2.0)
    assert (found.verdict, found.places, found.wrong, found.first) == (GPU, True, 1, 1)
    assert found.flips == [Flip(2.0, GPU, "failed: CUDARuntimeError: no context")]
    assert ran(found, *[Run(on_gpu=True)] * 100) == (GPU, True)


def test_tasks_in_the_right_and_in_the_wrong_place_are_counted() -> None:
    found = case()
    ran(found, HOST, HOST, ON_DEVICE)  # before anything was known, the last one included
    assert (found.right, found.wrong, found.first) == (0, 3, 3)
    ran(found, ON_DEVICE)  # it had begun before
    assert (found.right, found.wrong, found.first) == (0, 4, 4)
    ran(found, *[Run(on_gpu=True, cuda_nbytes=8)] * 5)
    assert (found.right, found.wrong, found.first) == (5, 4, 4)


# What is remembered


def test_what_is_remembered() -> None:
    assert case().lesson() is None
    assert case(Evidence(CODE, 0.9, "cupy.sum"), function="").lesson() is None  # whose would it be?
    found = case(Evidence(CODE, 0.9, "cupy.sum"), Evidence(CODE, 0.3, "import cupy"))
    assert found.lesson() == Lesson("f", "p", GPU, (Evidence(CODE, 0.9, "cupy.sum"),), 0, 0, 0)
    found = case()
    ran(found, ON_DEVICE)
    assert found.lesson() == Lesson("f", "p", GPU, (Evidence(RESULT, 1.0, "its result is on a device"),), 0, 1, 1)
    ran(found, *[Run(on_gpu=True)] * PATIENCE)
    lesson = found.lesson()
    assert lesson is not None
    assert (lesson.verdict, lesson.evidence) == (CPU, (Evidence(RAN, -0.9, "it ran without a device many times"),))
    found = case()
    ran(found, Run(on_gpu=True, near=True))
    assert found.lesson() == Lesson("f", "p", GPU, (), 1, 0, 0)


@given(st.lists(st.booleans(), max_size=60))
def test_what_is_remembered_leads_to_the_same_verdict(signs) -> None:
    found = case()
    ran(found, *[Run(found.places, cuda_nbytes=8 * sign) for sign in signs])
    lesson = found.lesson()
    again = case(*lesson.evidence) if lesson is not None else case()
    assert again.places is found.places


# Properties


RUNS = st.builds(
    Run,
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, 8]),
    st.booleans(),
    st.none() | st.floats(0, 1).map(lambda weight: Evidence(RAN, weight, "probe")),
)
FOUND = st.lists(
    st.builds(Evidence, st.sampled_from([CODE, DOWNLOAD, RESULT, RAN, INPUT]), st.floats(-1, 1), st.text(max_size=2)),
    max_size=4,
)


@given(FOUND, st.lists(RUNS, max_size=80))
def test_beliefs_stay_within_bounds_and_verdicts_follow_them(evidence, runs) -> None:
    found = case(*evidence)
    for run in runs:
        before = found.places
        found.ran(run, 1.0)
        own = found.belief((CODE, RESULT, RAN))
        assert 0.0 <= own <= found.belief() <= 1.0
        if own > 0.8:
            assert found.places
        if own < OFF:
            assert not found.places
        if before != found.places:  # it takes a reason to change, and in between what was said stays said
            assert own >= 0.8 - 1e-6 if found.places else own <= OFF + 1e-6
        assert not found.places or found.verdict == GPU


@given(st.lists(st.booleans(), min_size=1, max_size=400))
def test_a_verdict_does_not_flip_for_ever(signs) -> None:
    found = case()
    ran(found, *[Run(True, cuda_nbytes=8 * sign) for sign in signs])
    # Contradictions in a row are needed, twice as many each time: so flips are as rare as a logarithm.
    assert len([flip for flip in found.flips if flip.verdict == CPU]) <= 1 + len(signs) // PATIENCE
    assert len(found.flips) <= 16


@given(st.lists(RUNS, max_size=50))
def test_every_run_is_counted_once(runs) -> None:
    found = case()
    ran(found, *runs)
    assert found.right + found.wrong + found.undecided == len(runs)
    assert 0 <= found.first <= found.wrong
