"""Schedulers, workers and clients of every Python, numpy and set of codecs work together, or say why not.

Three schedulers, one of each Python, have three workers each, and three clients go from one to the next: what each
client sees of each worker by each scheduler is a test of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from matrix.pythons import VERSIONS, of_numpy_1, of_version, why_none
from matrix.work import ask
from odd_programs import AS_REMOTE, Site, without
from programs import running

import hetsched
from hetsched.comm import compress
from hetsched.comm.transports import sockets

pytestmark = [pytest.mark.slow, pytest.mark.limit(120)]

HERE = Path(__file__).parent
TESTS = HERE.parent
DEVICE = TESTS / "scenarios" / "device"


class Clients:
    """A client process of each Python; they stay for all tests."""

    def __init__(self) -> None:
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._contexts = []

    def ask(self, version: str, address: str, workers: dict[str, str]):
        """Have a client do its work with these workers; returns what it says of it."""
        process = self._processes.get(version)
        if process is None:
            command = (python_of(version), "-P", str(HERE / "client.py"))
            context = running(*command, stdin=subprocess.PIPE, PYTHONPATH=f"{TESTS.parent}:{TESTS}")
            process = self._processes[version] = context.__enter__()
            self._contexts.append(context)
        process.stdin.write(json.dumps({"address": address, "workers": workers}) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        assert line.startswith(("{", '"')), line + process.stdout.read()
        return json.loads(line)

    def close(self) -> None:
        for context in self._contexts:
            context.__exit__(None, None, None)


def python_of(version: str) -> str:
    return of_version(version) or pytest.skip(why_none(f"Python {version}"))


@pytest.fixture(scope="module")
def clients():
    clients = Clients()
    yield clients
    clients.close()


class Schedulers:
    """A site for each Python that a scheduler runs on, with workers of all Pythons; and what was asked of them."""

    def __init__(self) -> None:
        self._sites: dict[str, Site] = {}
        self._answers: dict[tuple[str, str], dict[str, list[str]]] = {}
        self._workers = {f"of-{version}": version for version in VERSIONS if of_version(version)}

    def site(self, version: str) -> Site:
        site = self._sites.get(version)
        if site is None:
            site = self._sites[version] = Site()
            site.python = python_of(version)
            site.scheduler()
            for name, of in self._workers.items():
                site.python = python_of(of)
                site.start_worker(name)
            for name in self._workers:
                site.until(name, "serves the scheduler")
        return site

    def seen(self, version: str, clients: Clients, client: str) -> dict[str, list[str]]:
        """What a client says of the workers of a scheduler."""
        answer = self._answers.get((version, client))
        if answer is None:
            answer = clients.ask(client, self.site(version).address, self._workers)
            assert isinstance(answer, dict), answer
            self._answers[version, client] = answer
        return answer

    def close(self) -> None:
        for site in self._sites.values():
            site.__exit__()


@pytest.fixture(scope="module")
def schedulers():
    schedulers = Schedulers()
    yield schedulers
    schedulers.close()


@pytest.mark.parametrize("client", VERSIONS, ids="client-{}".format)
@pytest.mark.parametrize("worker", VERSIONS, ids="worker-{}".format)
@pytest.mark.parametrize("scheduler", VERSIONS, ids="scheduler-{}".format)
def test_all_versions_work_together(schedulers, clients, scheduler, worker, client):
    for version in (scheduler, worker, client):
        python_of(version)
    assert schedulers.seen(scheduler, clients, client)[f"of-{worker}"] == []


def test_no_process_of_the_matrix_has_complained(schedulers):
    for version in VERSIONS:
        if of_version(version):
            assert schedulers.site(version).complaints() == []


@pytest.mark.parametrize(("mine", "theirs"), [("3.11", "3.13"), ("3.13", "3.12")])
def test_a_lambda_runs_on_its_own_python_or_fails_at_once(clients, mine, theirs):
    with Site() as site:
        site.python = python_of(theirs)
        site.scheduler()
        site.worker("other")
        said = clients.ask(mine, site.address, {})
        assert said.startswith("NoWorkerError: ")
        assert f"from Python {mine}, and the workers run Python {theirs}" in said
        site.python = python_of(mine)
        site.worker("same")
        assert clients.ask(mine, site.address, {}) == mine


@pytest.fixture(scope="module", params=[True, False], ids=["scheduler with lz4", "scheduler without lz4"])
def site_of_codecs(request):
    with Site() as site:
        site.scheduler(before=AS_REMOTE if request.param else AS_REMOTE + without("lz4"))
        site.start_worker("with", before=AS_REMOTE)
        site.start_worker("without", before=AS_REMOTE + without("lz4"))
        for name in ("with", "without"):
            site.until(name, "serves the scheduler")
        yield site, request.param


@pytest.mark.parametrize(("worker", "client"), [*product(["with", "without"], [True, False])])
def test_lz4_on_one_side_both_or_neither(site_of_codecs, monkeypatch, worker, client):
    site, scheduler = site_of_codecs
    monkeypatch.setattr(sockets, "_is_loopback", lambda _: False)
    codecs = {name: codec for name, codec in compress._CODECS.items() if client or name != "lz4"}
    monkeypatch.setattr(compress, "_CODECS", codecs)
    fallback = next(name for name in compress.available() if name != "lz4")
    array = np.arange(300_000) // 100
    with hetsched.Client(site.address) as connected:
        there = connected.submit(np.negative, array, workers=[worker])
        np.testing.assert_array_equal(there.result(), -array)
        other = "without" if worker == "with" else "with"
        assert connected.submit(np.sum, there, workers=[other]).result() == -array.sum()
        info = connected.scheduler_info()
        (about,) = info["clients"].values()
    assert about["terms"]["receive_compression"] == ("lz4" if scheduler and client else fallback)
    assert about["bytes_in"] < array.nbytes / 4
    workers = {name: w["terms"]["send_compression"] for name, w in info["workers"].items()}
    assert workers == {"with": "lz4" if scheduler else fallback, "without": fallback}
    said = site.until(worker, "client client-")
    assert f"sends {'lz4' if client and worker == 'with' else fallback}" in said


def test_numpy_1_and_numpy_2():
    old = of_numpy_1() or pytest.skip(why_none("Python with numpy 1"))
    assert np.__version__.startswith("2."), "the tests run with numpy 2"
    with Site() as site:
        site.scheduler()
        site.worker("two")
        site.python = old.path
        site.worker("one")
        with hetsched.Client(site.address) as client:
            ours = "{}.{}".format(*sys.version_info)
            assert ask(client, {"one": old.version, "two": ours}) == {"one": [], "two": []}
            array = np.array([1, None, "x"], dtype=object)
            moved = client.submit(np.flip, client.submit(np.flip, array, workers=["one"]), workers=["two"])
            np.testing.assert_array_equal(moved.result(), array)
        assert site.complaints() == []


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_a_client_without_a_gpu_gets_host_arrays(version):
    python = python_of(version)
    with Site() as site:
        site.python = python
        site.scheduler()
        site.worker("gpu", "--gpus", "1", path=[DEVICE])
        with hetsched.Client(site.address) as client:
            from scenarios.tasks import on_device

            array = np.arange(6.0).reshape(2, 3)
            with pytest.warns(hetsched.errors.DeviceWarning, match=r"fakegpu\.Array on a device"):
                got = client.submit(on_device, array, executor="gpu").result()
            assert type(got) is np.ndarray
            np.testing.assert_array_equal(got, array)
            assert client.scheduler_info()["workers"]["gpu"]["resources"] == {"GPU": 1.0}
