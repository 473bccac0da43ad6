"""Workers, clients and schedulers that die, freeze or are told to end: scenarios D02 to D12, with real processes.

All of them are here. The times of D02 (500 MB), D03 (60 s) and D06 (40 s) are shorter, in proportion to the time after
which a silent worker is lost; D03 is longer, and random, in ``tests/chaos``.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import dask
import numpy as np
import pytest
from chaotic import Shuffle
from gates import Gate, pass_gate
from programs import ENVIRONMENT, SCHEDULER, WORKER, ready_address, running, until

import hetsched
from hetsched import Client, LocalCluster
from hetsched.errors import ConnectionLost, WorkerLostError

pytestmark = pytest.mark.limit(60)

SILENCE = 1.0
"""Seconds after which a silent worker is lost; 20 by default."""

TRANSFER = 50_000_000
CHAOS_SECONDS = 5.0
CHAOS_PAUSE = 0.7
END_SECONDS = 5.0


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(2, 1, memory_limit=0, silence=SILENCE) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    cluster.scale(2)
    with Client(cluster) as client:
        yield client


def double(x):
    return 2 * x


def whose():
    return hetsched.current_task().worker, os.getpid()


# D02


class Slow:
    """An array that says when it is about to be sent, and waits."""

    def __init__(self, path, nbytes):
        self.path = path
        self.array = np.ones(nbytes, np.uint8)

    def __reduce__(self):
        # Only the first copy that is sent is waited for.
        if os.path.exists(self.path):
            pass_gate(self.path)
        return _fast, (self.array,)


def _fast(array):
    return array


def _total(value):
    array = value.array if isinstance(value, Slow) else value
    return int(array.sum(dtype=np.int64))


@pytest.mark.parametrize("when", ["frozen", "frozen and killed", "killed"])
def test_d02_a_worker_dies_while_a_peer_fetches_from_it(cluster, client, tmp_path, when):
    gate = Gate(tmp_path)
    name = cluster.add_worker()
    value = client.submit(Slow, gate.path, TRANSFER, workers=[name], key="large")
    copy = client.submit(double, 1, workers=[name], key="small")
    hetsched.wait([value, copy])
    again = client.submit(Slow, gate.path, TRANSFER)  # what is lost with its only worker, and may run anywhere
    hetsched.wait([again])
    total = client.submit(_total, value, workers=["worker-0"])
    gate.reached()
    os.unlink(gate.path)
    if when != "killed":
        cluster.kill_worker(name, signal.SIGSTOP)
    began = time.monotonic()
    if when != "frozen":
        cluster.kill_worker(name)
    # It can be made nowhere else, so it waits for a worker of that name, and is right then.
    if when == "frozen":
        until_said(cluster, f"worker {name} is gone")
        cluster.kill_worker(name)
    cluster.add_worker(name)
    assert total.result() == TRANSFER
    assert time.monotonic() - began < 10 * SILENCE
    assert client.gather([copy, client.submit(_total, again)]) == [2, TRANSFER]


def until_said(cluster, words, seconds=20.0):
    """Wait until the scheduler's log says something."""
    log = str(Path(cluster.token_file).parent / "scheduler.log")
    program = ["tail", "-n", "+1", "-F", log]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as tail:
        timer = threading.Timer(seconds, tail.kill)
        timer.start()
        try:
            until(tail, words)
        finally:
            timer.cancel()
            tail.kill()


# D03


def test_d03_chaos(cluster, client):
    shuffle = Shuffle(partitions=12, rows=200)
    ended = threading.Event()
    failures = []

    def harm():
        try:
            turn = 0
            while not ended.wait(CHAOS_PAUSE):
                turn += 1
                cluster.kill_worker(sorted(cluster.workers)[-1])
                cluster.add_worker(f"new-{turn}")
        except BaseException as error:
            failures.append(error)

    cluster.add_worker()
    harming = threading.Thread(target=harm)
    harming.start()
    try:
        until_when = time.monotonic() + CHAOS_SECONDS
        runs = 0
        while time.monotonic() < until_when:
            assert shuffle.run(client) == shuffle.right
            runs += 1
    finally:
        ended.set()
        harming.join()
    assert failures == []
    assert runs >= 1
    info = client.scheduler_info()
    assert (info["tasks"], info["graphs"]) == (0, 0)


# D05


def dies_and_raises(path, deaths, errors):
    """Kill its worker so many times, then raise so many times, then tell how often it ran."""
    tries = Path(path)
    tried = len(tries.read_text()) if tries.exists() else 0
    tries.write_text("x" * (tried + 1))
    if tried < deaths:
        os.kill(os.getpid(), signal.SIGKILL)
    if tried < deaths + errors:
        raise ValueError(f"try {tried}")
    return tried + 1


def test_d05_retries_and_deaths_are_counted_apart(cluster, client, tmp_path):
    run = tmp_path / "run"
    assert client.submit(dies_and_raises, run, 2, 2, retries=2).result() == 5
    run.unlink()
    assert client.submit(dies_and_raises, run, 2, 0).result() == 3
    run.unlink()
    with pytest.raises(ValueError, match="try 4"):
        client.submit(dies_and_raises, run, 2, 3, retries=2).result()


def test_d05_too_many_deaths_are_an_error_that_names_the_workers(tmp_path):
    with dask.config.set({"hetsched.scheduler.allowed-failures": 1}):
        cluster = LocalCluster(2, 1, memory_limit=0)
    with cluster, Client(cluster) as client:
        with pytest.raises(WorkerLostError) as caught:
            client.submit(dies_and_raises, tmp_path / "run", 9, 0, retries=5, key="killer").result()
        said = str(caught.value)
        told = r"2 workers were lost while they may have been running the task 'killer' \(built at .+?\); its story: "
        assert re.match(told, said)
        assert set(re.findall(r"lost (worker-\d)", said)) <= {"worker-0", "worker-1"}
        assert (tmp_path / "run").read_text() == "xx"
        assert client.submit(double, 4).result() == 8


# D06


def hold_the_lock(path, seconds):
    with open(path, "a") as runs:
        runs.write(f"{hetsched.current_task().worker}\n")
    # One call, with the interpreter's lock held.
    library = ctypes.PyDLL(None)
    if seconds < 1:
        library.usleep(int(seconds * 1e6))
    else:
        library.sleep(int(seconds))
    return "done"


def test_d06_a_task_that_keeps_the_interpreter_busy_is_not_death(client, tmp_path):
    runs = tmp_path / "runs"
    assert client.submit(hold_the_lock, runs, 0.6 * SILENCE).result() == "done"
    assert len(runs.read_text().split()) == 1


class Pickled:
    """It takes its time to be pickled."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __reduce__(self):
        time.sleep(self.seconds)
        return str, ("slow",)


def slowly_pickled(seconds, around=None):
    one = Pickled(seconds)
    if around is None:
        return one
    return np.array([one, None], dtype=object) if around == "array" else [one]


@pytest.mark.parametrize("around", [None, "array", "list"])
def test_d06_a_result_that_is_slow_to_pickle_is_not_death(cluster, client, around):
    """The worker goes on to say that it is alive, and gives others what they ask for."""
    lost = cluster.log().count("is gone")
    name = min(client.scheduler_info()["workers"])
    made = client.submit(slowly_pickled, 2 * SILENCE, around, workers=[name])
    quick = client.submit(double, 21, workers=[name])
    hetsched.wait([made, quick])
    got = []
    asking = threading.Thread(target=lambda: got.append(made.result()))
    asking.start()
    meanwhile = 0
    while asking.is_alive():
        assert quick.result() == 42
        meanwhile += 1
    assert meanwhile > 2  # one would be had before, and one after
    (found,) = got
    assert found == "slow" if around is None else found[0] == "slow"
    assert cluster.log().count("is gone") == lost


def test_d06_beyond_the_limit_both_logs_say_why(cluster, client, tmp_path):
    runs = tmp_path / "runs"
    assert client.submit(_hold_once, runs, 3 * SILENCE).result() == "done"
    first, second = runs.read_text().split()
    why = f"nothing was heard of it for {SILENCE:g} s"
    assert f"worker {first} is gone: {why}" in cluster.log()
    assert first != second
    # It was told so, and says it as soon as it can; then it comes back.
    assert client.submit(whose, workers=[first]).result()[0] == first
    assert f"{first}: {why}" in cluster.log(first)


def _hold_once(path, seconds):
    return hold_the_lock(path, seconds) if not Path(path).exists() else _note(path)


def _note(path):
    with open(path, "a") as runs:
        runs.write(f"{hetsched.current_task().worker}\n")
    return "done"


# D08


@pytest.mark.parametrize(
    ("number", "nanny", "busy"),
    [
        (signal.SIGINT, "--no-nanny", False),
        (signal.SIGTERM, "--no-nanny", True),
        (signal.SIGINT, "--nanny", True),
        (signal.SIGTERM, "--nanny", False),
    ],
)
def test_d08_a_worker_is_told_to_end(tmp_path, number, nanny, busy):
    gate = Gate(tmp_path)

    def _stay(path):
        with open(f"{path}.here", "w"):
            pass
        time.sleep(60)

    with running(*SCHEDULER, "--port", "0") as scheduler:
        address = ready_address(scheduler)
        with running(*WORKER, address, "--name", "w", nanny) as worker, Client(address) as client:
            until(worker, "serves the scheduler")
            # By value: these workers have not got the tests' modules.
            future = client.submit(_stay, gate.path) if busy else client.submit(abs, 1)
            if busy:
                gate.reached()
            else:
                future.result()
            began = time.monotonic()
            worker.send_signal(number)
            said = worker.stdout.read()
            assert worker.wait() in (0, 130)
            assert time.monotonic() - began < END_SECONDS
            assert "Traceback" not in said
            assert future.done() is not busy  # it waits for another worker


@pytest.mark.parametrize(("number", "busy"), [(signal.SIGINT, True), (signal.SIGTERM, True), (signal.SIGINT, False)])
def test_d08_a_scheduler_is_told_to_end(number, busy):
    with running(*SCHEDULER, "--port", "0") as scheduler:
        address = ready_address(scheduler)
        with running(*WORKER, address, "--no-nanny") as worker, Client(address) as client:
            until(worker, "serves the scheduler")
            future = client.submit(time.sleep, 60 if busy else 0)
            if not busy:
                future.result()
            began = time.monotonic()
            scheduler.send_signal(number)
            said = scheduler.stdout.read()
            assert scheduler.wait() in (0, 130)
            assert time.monotonic() - began < END_SECONDS
            assert "Traceback" not in said
            with pytest.raises(ConnectionLost, match="the scheduler ends"):
                client.submit(abs, 1).result()


INTERRUPTED = """
import os, sys
import hetsched

def ident():
    return os.getpid()

def stay(path):
    with open(path + ".here", "w"):
        pass
    with open(path) as gate:
        gate.read()

def main(path):
    with hetsched.LocalCluster(1, 1, memory_limit=0) as cluster, hetsched.Client(cluster) as client:
        before = client.submit(ident).result()
        try:
            print("ready", flush=True)
            client.submit(stay, path).result()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        # The only slot there is has that task still.
        alone = client.submit(ident, workers=["worker-0"])
        either = client.submit(ident, workers=["worker-0", "other"])
        cluster.add_worker("other")
        print("other" if either.result() == cluster.workers["other"] else "another", flush=True)
        print("done" if alone.done() else "waits", flush=True)
        with open(path, "w"):
            pass
        print("same" if alone.result() == before == cluster.workers["worker-0"] else "another", flush=True)

main(sys.argv[1])
"""


def test_d08_an_interrupt_of_the_client_leaves_the_workers_alone(tmp_path):
    """What was given up goes on in its slot; others wait for that only where there is no other slot for them."""
    gate = Gate(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, gate.path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=ENVIRONMENT, start_new_session=True,
    )  # fmt: skip
    with process:
        until(process, "ready")
        gate.reached()
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all in the group
        said = process.stdout.read()
        assert process.wait() == 0, said
    assert said.splitlines() == ["interrupted", "other", "waits", "same"]


@pytest.mark.parametrize("first", ["cancelled", "submitted"])
def test_d08_a_cancelled_task_that_goes_on_holds_up_no_others(cluster, client, tmp_path, first):
    gate = Gate(tmp_path)
    name = cluster.add_worker()
    stays = client.submit(pass_gate, gate.path, workers=[name])
    gate.reached()
    before = client.submit(whose, workers=[name, "new"]) if first == "submitted" else None
    stays.cancel()
    moves = before or client.submit(whose, workers=[name, "new"])
    cluster.add_worker("new")
    assert moves.result()[0] == "new"
    alone = client.submit(whose, workers=[name])
    assert client.submit(whose, workers=["new"]).result()[0] == "new"
    assert not alone.done()
    assert "1 more when slots there are free" in client.explain(alone)["text"]
    gate.open()
    assert alone.result()[0] == name


def test_d08_a_cancelled_task_in_a_process_of_its_own_ends_at_once(cluster, client, tmp_path):
    gate = Gate(tmp_path)
    name = cluster.add_worker()
    stays = client.submit(pass_gate, gate.path, workers=[name], executor="process")
    gate.reached()
    stays.cancel()
    assert client.submit(double, 4, workers=[name], executor="process").result() == 8


# D09


VANISHES = """
import sys, time
import hetsched

client = hetsched.Client(sys.argv[1])
futures = client.map(lambda n: time.sleep(0.2), range(200))
futures[0].result()
print("under way", flush=True)
time.sleep(60)
"""


def test_d09_a_client_vanishes():
    with running(*SCHEDULER, "--port", "0") as scheduler:
        address = ready_address(scheduler)
        with running(*WORKER, address, "--no-nanny", "--nthreads", "2", "--name", "w") as worker:
            until(worker, "serves the scheduler")
            with running(sys.executable, "-c", VANISHES, address) as vanishes:
                until(vanishes, "under way")
                with Client(address, name="other") as other:
                    assert other.scheduler_info()["tasks"] > 100
                    vanishes.kill()
                    gone = until(scheduler, "is gone")
                    assert "client client-" in gone
                    info = other.scheduler_info()
                    assert (info["tasks"], info["graphs"]) == (0, 0)
                    assert len(info["clients"]) == 1
                    # The worker, too, has put it down: it would take 20 s.
                    began = time.monotonic()
                    assert other.submit(abs, -3).result() == 3
                    assert time.monotonic() - began < 5
                    assert other.scheduler_info()["workers"]["w"]["held"] <= 1


# D11


def test_d11_two_clients_with_the_same_keys(cluster, client):
    with Client(cluster) as other:
        first = {"a": (double, 1), "b": (double, "a"), ("c", 0): (sum, ["a", "b"])}
        second = {"a": (double, 10), "b": (abs, "a"), ("c", 0): (max, ["a", "b"])}
        assert client.get(first, ["a", "b", ("c", 0)]) == (2, 4, 6)
        assert other.get(second, ["a", "b", ("c", 0)]) == (20, 20, 20)
        mine, theirs = client.submit(double, 5, key="k"), other.submit(double, 7, key="k")
        assert (mine.result(), theirs.result()) == (10, 14)
        found = [[], []]

        def many(at, client, graph):
            found[at] = [client.get(graph, ("c", 0)) for _ in range(30)]

        both = [(0, client, first), (1, other, second)]
        threads = [threading.Thread(target=many, args=args) for args in both]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [[6] * 30, [20] * 30]
        del theirs
        assert mine.result() == 10


# D12


def in_a_process(kind):
    context = multiprocessing.get_context(kind)
    queue = context.SimpleQueue()
    process = context.Process(target=queue.put, args=(42,))
    process.start()
    found = queue.get()
    process.join()
    return found, process.exitcode


def in_a_pool(kind):
    with multiprocessing.get_context(kind).Pool(2) as pool:
        return pool.map(abs, [-1, 2, -3])


def in_futures(_):
    with ProcessPoolExecutor(2) as pool:
        return list(pool.map(abs, [-1, 2, -3]))


def in_a_program(_):
    program = [sys.executable, "-c", "print(int(input()) + 1)"]
    return subprocess.run(program, input="41", capture_output=True, text=True, check=True).stdout


@pytest.mark.filterwarnings("ignore:This process")
@pytest.mark.parametrize("executor", ["cpu", "process"])
def test_d12_tasks_with_children(client, executor):
    kinds = ("fork", "spawn", "forkserver")
    found = [
        *(client.submit(in_a_process, kind, executor=executor) for kind in kinds),
        *(client.submit(in_a_pool, kind, executor=executor) for kind in kinds),
        client.submit(in_futures, None, executor=executor),
        client.submit(in_a_program, None, executor=executor),
    ]
    assert client.gather(found) == [(42, 0)] * 3 + [[1, 2, 3]] * 4 + ["42\n"]
