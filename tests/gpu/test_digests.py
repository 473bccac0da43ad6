"""Functions are named by what they do, the same in every process."""

from __future__ import annotations

import functools
import subprocess
import sys

from hetsched.gpu.digests import digest_of, libraries, name_of


def one(x):
    return x + 1


def make(inner):
    def outer(x):
        return inner(x)

    return outer


class Model:
    def fit(self, x):
        return x


def digest(*funcs):
    return digest_of(funcs)


def test_the_same_in_another_process_under_another_hash_seed() -> None:
    program = "from hetsched.gpu.digests import digest_of; import json; print(digest_of([json.dumps, json.loads]))"
    seen = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(seen) == 1


def test_code_tells_functions_apart_and_their_addresses_do_not() -> None:
    made = [eval("lambda x: x in {'a', 'b', 'c'}") for _ in range(2)]
    assert digest(made[0]) == digest(made[1])
    assert digest(made[0]) != digest(eval("lambda x: x in {'a', 'b', 'd'}"))
    assert digest(eval("lambda x: cupy.sum(x)")) != digest(eval("lambda x: numpy.sum(x)"))
    assert digest(one) != digest(one, one)


def test_functions_within_functions_count() -> None:
    assert digest(make(one)) == digest(make(one))
    assert digest(make(one)) != digest(make(len))
    assert digest(functools.partial(map, one)) != digest(functools.partial(map, len))
    assert digest(Model().fit) == digest(Model().fit)
    assert digest(Model().fit) != digest(Model.fit)
    assert digest(len) != digest(max)


def test_anything_that_can_be_called_has_a_digest() -> None:
    class Odd:
        def __getattr__(self, name):
            raise RuntimeError("ask me nothing")

        def __call__(self):
            return 1

    def empty_cell():
        def inner():
            return late

        kept = inner
        if len(sys.argv) < 0:
            late = 1
        return kept

    assert len(digest(Odd(), empty_cell(), Model, print)) == 32


def test_names_are_for_people() -> None:
    assert name_of([one]).endswith("test_digests.one")
    assert name_of([functools.partial(len)], [max]) == "builtins.len(builtins.max)"
    assert name_of([len] * 6) == "builtins.len + builtins.len + builtins.len + builtins.len + ..."


def test_the_libraries_that_are_installed(tmp_path, monkeypatch) -> None:
    for name in ("cupy_cuda12x-13.1.0.dist-info", "torch-2.3.0+cu121.dist-info", "numpy-2.0.0.dist-info"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "not there")])
    assert libraries.__wrapped__() == "cupy_cuda12x 13.1.0, torch 2.3.0+cu121"
