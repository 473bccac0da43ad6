"""``hetsched-scheduler`` as a process: where it listens, whom it lets in, how it ends."""

from __future__ import annotations

import json
import signal
import socket
import stat
import sys

import pytest
from programs import ENVIRONMENT, SCHEDULER, WORKER, finish, ready_address, running, until

from hetsched import Client
from hetsched.server.recording import read_recording


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(tmp_path, number):
    file = tmp_path / "scheduler.json"
    with running(*SCHEDULER, "--port", "0", "--scheduler-file", str(file)) as scheduler:
        address = ready_address(scheduler)
        assert address.startswith("tcp://127.0.0.1:")
        # The line is said once the file is there.
        assert json.loads(file.read_text()) == {"address": address, "addresses": [address], "pid": scheduler.pid}
        scheduler.send_signal(number)
        assert f"{number.name}: the scheduler ends" in scheduler.stdout.read()
        assert scheduler.wait() == 0
    assert list(tmp_path.iterdir()) == []


def test_a_scheduler_file_of_another_stays(tmp_path):
    file = tmp_path / "scheduler.json"
    with running(*SCHEDULER, "--port", "0", "--scheduler-file", str(file)) as scheduler:
        ready_address(scheduler)
        file.write_text('{"pid": 1}')
        scheduler.terminate()
        assert scheduler.wait() == 0
    assert file.read_text() == '{"pid": 1}'


def test_it_is_not_open_to_other_machines_without_a_secret():
    assert finish(*SCHEDULER, "--host", "0.0.0.0", "--port", "0") == (
        2,
        "hetsched-scheduler: tcp://0.0.0.0:0 can be reached by other machines, and whoever comes in can run what they "
        "like: make a token with `hetsched-scheduler --new-token FILE` and give it to the scheduler, the workers and "
        "the clients (--token-file FILE), or use mutual TLS (--tls-cert, --tls-key and --tls-ca)\n",
    )


def test_a_new_token_opens_the_door(tmp_path):
    token = str(tmp_path / "token")
    code, said = finish(*SCHEDULER, "--new-token", token)
    assert (code, said) == (
        0, f"wrote a new token to {token}; give it to scheduler, workers and clients: --token-file FILE\n"
    )  # fmt: skip
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
    code, said = finish(*SCHEDULER, "--new-token", token)
    assert code == 1
    assert said.startswith(f"hetsched-scheduler: {token} exists already: a token in use is not overwritten")
    with running(*SCHEDULER, "--host", "0.0.0.0", "--port", "0", "--token-file", token) as scheduler:
        address = ready_address(scheduler)
        assert "0.0.0.0" not in address
        with Client(address, token_file=token) as client:
            assert client.scheduler_info()["addresses"] == (address,)


def test_a_port_in_use_is_said():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, said = finish(*SCHEDULER, "--port", str(taken.getsockname()[1]))
    assert code == 1
    assert said.startswith("hetsched-scheduler: ")
    assert said.count("\n") == 1
    assert "in use" in said


def test_options_that_are_wrong():
    code, said = finish(*SCHEDULER, "--policy", "best", "--port", "0")
    assert code == 1
    assert "there is no placement policy 'best'; there are blevel, dask_like" in said
    code, said = finish(*SCHEDULER, "--idle-timeout", "soon")
    assert code == 2
    assert 'write a time as 20, "500ms", "20s", "5 min" or "1h"' in said


def test_it_ends_when_nobody_wants_it():
    code, said = finish(*SCHEDULER, "--port", "0", "--idle-timeout", "10ms", "--dashboard-address", ":0")
    assert code == 0
    assert "--dashboard-address has no effect yet" in said
    assert "nothing to do for 0.01 s: this is the end" in said


def test_settings_are_defaults_of_options(tmp_path):
    settings = tmp_path / "here.yaml"
    settings.write_text("hetsched: {scheduler: {idle-timeout: 2h, policy: worst}}")
    code, said = finish(*SCHEDULER, "--port", "0", DASK_CONFIG=str(settings))
    assert code == 1
    assert "there is no placement policy 'worst'" in said
    code, said = finish(
        *SCHEDULER, "--port", "0", "--policy", "random", DASK_CONFIG=str(settings),
        DASK_HETSCHED__SCHEDULER__IDLE_TIMEOUT="10ms",
    )  # fmt: skip
    assert code == 0


def test_it_records_events_without_data(tmp_path):
    file = tmp_path / "events"
    with running(*SCHEDULER, "--port", "0", "--record", str(file)) as scheduler:
        address = ready_address(scheduler)
        with running(*WORKER, address, "--no-nanny", "--name", "w", "--nthreads", "1") as worker:
            until(worker, "serves the scheduler")
            with Client(address) as client:
                assert client.submit(lambda: "top secret", key="k").result() == "top secret"
        scheduler.terminate()
        assert scheduler.wait() == 0
    events = list(read_recording(file))
    assert {"WorkerJoined", "GraphSubmitted", "TasksFinished", "ClientLeft"} <= {event.event for event in events}
    assert [event.now for event in events] == sorted(event.now for event in events)
    (submitted,) = (event for event in events if event.event == "GraphSubmitted")
    ((key, dependencies, _),) = submitted.fields[2]
    assert (key, dependencies) == ("k", ())
    assert b"secret" not in file.read_bytes()


REFUSES = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"pickle", "_pickle", "cloudpickle", "dask", "numpy", "tblib"}:
            raise AssertionError(f"the scheduler loads {name}")
sys.meta_path.insert(0, Refuse())
from hetsched.cli.scheduler import main
main()
"""


def test_it_loads_nothing_that_could_run_code_of_others():
    with running(sys.executable, "-c", REFUSES, "--port", "0") as scheduler:
        address = ready_address(scheduler)
        with running(*WORKER, address, "--no-nanny", "--name", "w") as worker:
            until(worker, "serves the scheduler")
            with Client(address) as client:
                futures = client.map(lambda x: [x] * 3, range(10))
                assert client.gather(futures) == [[x] * 3 for x in range(10)]
                assert isinstance(client.submit(lambda: 1 / 0).exception(), ZeroDivisionError)
        scheduler.terminate()
        assert "loads" not in scheduler.stdout.read()
        assert scheduler.wait() == 0


def test_mutual_tls_end_to_end(tmp_path):
    import trustme

    from hetsched.comm.auth import client_tls

    ca = trustme.CA()
    cert = ca.issue_cert("127.0.0.1")
    ca.cert_pem.write_to_path(str(tmp_path / "ca"))
    cert.private_key_pem.write_to_path(str(tmp_path / "key"))
    cert.cert_chain_pems[0].write_to_path(str(tmp_path / "cert"))
    files = [part for name in ("cert", "key", "ca") for part in (f"--tls-{name}", str(tmp_path / name))]
    with running(*SCHEDULER, "--port", "0", *files) as scheduler:
        address = ready_address(scheduler)
        assert address.startswith("tls://127.0.0.1:")
        with running(*WORKER, address, "--no-nanny", *files) as worker:
            assert " at tls://127.0.0.1:" in until(worker, "serves the scheduler")
            tls = client_tls(tmp_path / "cert", tmp_path / "key", tmp_path / "ca")
            with Client(address, tls=tls) as client:
                assert client.submit(lambda: 42).result() == 42
        only_ca = finish(*WORKER, address, "--no-nanny", "--tls-ca", str(tmp_path / "ca"))
    assert only_ca[0] == 1
    assert f"a worker of {address} needs a certificate of its own: give --tls-cert and --tls-key" in only_ca[1]


def test_the_environment_of_tests_is_their_own():
    assert not [name for name in ENVIRONMENT if name.startswith("DASK_") and name != "DASK_CONFIG"]
