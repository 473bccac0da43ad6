"""Strangers at the door: scenarios S02, S03 and S05, at the ports of schedulers and of workers.

All of them are here. "A header that claims 2**60 bytes" is one that claims the most that its field can hold, where
that is less.
"""

from __future__ import annotations

import os
import pickle
import select
import socket
import ssl
import stat
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgpack
import psutil
import pytest
from odd_programs import Site
from programs import SCHEDULER, WORKER, finish
from stranger import Stranger, hello, preface

import hetsched
from hetsched.errors import ConnectionLost, Rejected

pytestmark = pytest.mark.limit(60)

GREETING_SECONDS = 10
MOST_GROWTH = 30_000_000
"""Bytes by which a process may grow that was told of 2**60."""


class Bomb:
    """Leaves a mark where it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


class Slow:
    """A peer that sends one byte a second, and notes how long it was listened to."""

    def __init__(self, address: str, data: bytes) -> None:
        self.seconds = 0.0
        self._data = data
        self._stranger = Stranger(address)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        began = time.monotonic()
        for byte in self._data:
            self._stranger.say(bytes([byte]))
            # A second, or until the peer has closed.
            if select.select([self._stranger.socket], [], [], 1)[0] and not self._stranger.hear(1):
                break
        self.seconds = time.monotonic() - began

    def join(self) -> float:
        """Wait until it is not listened to any more; returns after how many seconds that was."""
        self._thread.join()
        self._stranger.socket.close()
        return self.seconds


class Guarded(Site):
    """A scheduler with a token and a worker; a second scheduler that takes everybody; slow peers at work."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.token_file = str(folder / "token")
        assert finish(*SCHEDULER, "--new-token", self.token_file)[0] == 0
        self.scheduler("--token-file", self.token_file)
        self.worker("w", "--token-file", self.token_file)
        with self.client() as client:
            self.ports = {"scheduler": self.address, "w": client.scheduler_info()["workers"]["w"]["address"]}
        said = preface(hello())
        self.slow = {
            "magic": Slow(self.address, said), "hello": Slow(self.address, b"HETSCHED" + bytes(100)),
            "silent": Slow(self.address, b""), "worker": Slow(self.ports["w"], said),
        }  # fmt: skip

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        for slow in self.slow.values():
            slow.join()

    def client(self) -> hetsched.Client:
        return hetsched.Client(self.address, token_file=self.token_file)

    def serves(self) -> bool:
        """Whether it does others' work."""
        with self.client() as client:
            return client.submit(pow, 2, 5).result() == 32


@pytest.fixture(scope="module")
def guarded(tmp_path_factory) -> Iterator[Guarded]:
    with Guarded(tmp_path_factory.mktemp("guarded")) as guarded:
        yield guarded


@pytest.fixture(scope="module")
def open_door() -> Iterator[Site]:
    with Site() as site:
        site.scheduler()
        yield site


@pytest.fixture(params=["scheduler", "w"])
def port(guarded, request) -> str:
    return request.param


# S02


def test_s02_nothing_is_unpickled_before_the_peer_is_trusted(guarded, tmp_path, port):
    address = guarded.ports[port]
    bomb = pickle.dumps(Bomb(tmp_path / "mark"))
    assert len(bomb) < 255
    with Stranger(address) as stranger:
        stranger.say(bomb)
        assert b"This port is for hetsched" in stranger.rest()
        assert "does not speak hetsched" in guarded.until(port, f"turned away {stranger.name}")
    in_hellos = (hello(name=bomb), hello(nonce=bomb), hello(libraries={"a": bomb}))
    for said in (bomb, msgpack.packb({"role": bomb}), *in_hellos):
        with Stranger(address) as stranger:
            stranger.say(preface(said) + bomb)
            stranger.rest()
            assert "Hello" in guarded.until(port, f"turned away {stranger.name}")
    for proof, why in ((b"", b"a token is needed here"), (bytes(32), b"the token is not the one of this cluster")):
        with Stranger(address) as stranger:
            good, sentence = stranger.greet(hello(), proof)
            assert not good
            assert sentence.startswith(why)
            stranger.say(bomb)
            header = msgpack.packb([[["Asked", 1, "info", None]], [len(bomb)]])
            stranger.say(struct.pack(">I", len(header)) + header + bomb)
            assert stranger.rest() == b""
            assert why.decode() in guarded.until(port, f"turned away {stranger.name}")
    with Stranger(address) as stranger:
        stranger.say(preface(hello()))
        stranger.say(bytes([len(bomb)]) + bomb)
        assert b"a proof of" in stranger.rest()
        assert "gave a proof of" in guarded.until(port, f"turned away {stranger.name}")
    assert not (tmp_path / "mark").exists()
    assert guarded.serves()


def test_s02_a_proof_is_good_for_one_connection(guarded):
    # What another connection's peer has proven, sent back or again, opens nothing.
    with guarded.client() as client:
        assert client.submit(pow, 2, 3).result() == 8
    with Stranger(guarded.address) as first, Stranger(guarded.address) as second:
        said = hello()
        for stranger in (first, second):
            stranger.say(preface(said))
            length = struct.unpack(">8sHI", stranger.hear(14))[2]
            stranger.peer = stranger.hear(length)
        nonces = [msgpack.unpackb(stranger.peer)["nonce"] for stranger in (first, second)]
        assert nonces[0] != nonces[1]
    with Stranger(guarded.address) as mirror:
        mirror.say(preface(hello()))
        length = struct.unpack(">8sHI", mirror.hear(14))[2]
        heard = mirror.hear(length)
    with Stranger(guarded.address) as stranger:
        good, _ = stranger.greet(heard)
        assert not good


def test_s02_a_client_with_a_wrong_token_or_none(guarded, tmp_path):
    other = str(tmp_path / "other")
    assert finish(*SCHEDULER, "--new-token", other)[0] == 0
    with pytest.raises(Rejected, match="the token is not the one of this cluster"):
        hetsched.Client(guarded.address, token_file=other)
    with pytest.raises(Rejected, match="a token is needed here, and none was given"):
        hetsched.Client(guarded.address)
    for options, why in (((), "a token is needed here"), (("--token-file", other), "the token is not the one")):
        code, said = finish(*WORKER, guarded.address, "--no-nanny", *options)
        assert code == 2
        assert why in said
    assert stat.S_IMODE(os.stat(other).st_mode) == 0o600
    os.chmod(other, 0o644)
    with pytest.raises((OSError, ValueError), match="other"):
        hetsched.Client(guarded.address, token_file=other)
    assert guarded.serves()


def test_s02_behind_tls(tmp_path):
    import trustme

    from hetsched.comm.auth import client_tls

    files = {}
    for owner in ("ours", "theirs"):
        ca = trustme.CA()
        cert = ca.issue_cert("127.0.0.1")
        files[owner] = {name: str(tmp_path / f"{owner}-{name}") for name in ("cert", "key", "ca")}
        ca.cert_pem.write_to_path(files[owner]["ca"])
        cert.private_key_pem.write_to_path(files[owner]["key"])
        cert.cert_chain_pems[0].write_to_path(files[owner]["cert"])
    options = [part for name, file in files["ours"].items() for part in (f"--tls-{name}", file)]
    bomb = pickle.dumps(Bomb(tmp_path / "mark"))
    with Site() as site:
        address = site.scheduler(*options)
        plain = address.replace("tls://", "tcp://")
        silent = [Stranger(plain) for _ in range(20)]  # who waits for them would wait for ever
        with Stranger(plain) as stranger:
            stranger.say(bomb)
            stranger.rest()
            site.until("scheduler", "turned away")
        # Certificates of another authority, and none.
        theirs = client_tls(files["theirs"]["cert"], files["theirs"]["key"], files["ours"]["ca"])
        for context in (theirs, client_tls(None, None, files["ours"]["ca"])):
            with (
                Stranger(plain) as stranger,
                pytest.raises((ssl.SSLError, ConnectionError)),
                context.wrap_socket(stranger.socket, server_hostname="127.0.0.1") as wrapped,
            ):
                wrapped.sendall(bomb)
                assert wrapped.recv(1 << 16)  # in TLS 1.3 it hears of the refusal here
            site.until("scheduler", "turned away")
            with pytest.raises((ConnectionLost, Rejected)):
                hetsched.Client(address, tls=context, timeout=0.1)
            site.until("scheduler", "turned away")
        with hetsched.Client(address, tls=client_tls(*files["ours"].values())) as client:
            assert client.scheduler_info()["workers"] == {}
        for stranger in silent:
            stranger.socket.close()
    assert not (tmp_path / "mark").exists()


# S03


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.77", "tcp://0.0.0.0:0"])
def test_s03_open_to_the_network_without_credentials(host):
    code, said = finish(*SCHEDULER, "--host", host, "--port", "0")
    assert code == 2
    assert "can be reached by other machines" in said
    for option in ("--new-token", "--token-file", "--tls-cert", "--tls-key", "--tls-ca"):
        assert option in said
    assert said.count("\n") == 1


def test_s03_a_worker_too(open_door):
    for nanny in ("--nanny", "--no-nanny"):
        code, said = finish(*WORKER, open_door.address, "--host", "192.0.2.77", nanny)
        assert code == 2
        assert "can be reached by other machines" in said
        assert "--token-file" in said


def test_s03_a_certificate_alone_lets_everybody_in(tmp_path):
    import trustme

    cert = trustme.CA().issue_cert("127.0.0.1")
    files = []
    for name, blob in (("cert", cert.cert_chain_pems[0]), ("key", cert.private_key_pem)):
        blob.write_to_path(str(tmp_path / name))
        files += [f"--tls-{name}", str(tmp_path / name)]
    code, said = finish(*SCHEDULER, "--host", "0.0.0.0", "--port", "0", *files)
    assert code == 2
    assert "tls://0.0.0.0:0 can be reached by other machines" in said


# S05

HUGE = 2**60
RUBBISH = {
    "http": (b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", b"HTTP/1.0 400 "),
    "random": (b"\x93" + os.urandom(1 << 20), b"This port is for hetsched"),
    "zeros": (bytes(1 << 20), b"This port is for hetsched"),
    "tls": (b"\x16\x03\x01" + os.urandom(512), b"This port is for hetsched"),
    "a hello of 4 GiB": (struct.pack(">8sHI", b"HETSCHED", 1, 2**32 - 1) + os.urandom(1 << 16), b"HETSCHED"),
    "another version": (struct.pack(">8sHI", b"HETSCHED", 999, 40) + bytes(40), b"HETSCHED"),
    "a map of 2**32": (preface(b"\xdf" + b"\xff" * 4), b"HETSCHED"),
    "a text of 2**32": (preface(b"\x81\xa4name\xdb" + b"\xff" * 4), b"HETSCHED"),
    "a frame of 2**60": (preface(hello(max_frame=HUGE, max_header=HUGE)), b"HETSCHED"),
    "arrays in arrays": (preface(b"\x91" * 60_000), b"HETSCHED"),
}


def memory(site, port) -> int:
    return psutil.Process(site.processes[port].pid).memory_info().rss


def test_s05_rubbish_on_the_port(guarded, port):
    assert guarded.serves()
    before = memory(guarded, port)
    for _ in range(3):
        for data, answer in RUBBISH.values():
            with Stranger(guarded.ports[port]) as stranger:
                began = time.monotonic()
                stranger.say(data)
                assert stranger.rest().startswith(answer)
                assert time.monotonic() - began < GREETING_SECONDS / 2
            guarded.until(port, f"turned away {stranger.name}")
    assert memory(guarded, port) - before < MOST_GROWTH
    assert guarded.serves()


PACKETS = {
    "a header of 4 GiB": struct.pack(">I", 2**32 - 1),
    "a frame of 2**60": msgpack.packb([[["Asked", 1, "info", None]], [HUGE]]),
    "frames of 2**50": msgpack.packb([[["Asked", 1, "info", None]], [2**50] * 100_000]),
    "a frame of -1": msgpack.packb([[["Asked", 1, "info", None]], [-1]]),
    "a compressed frame": msgpack.packb([[["Asked", 1, "info", None]], [[10, HUGE]]]),
    "an array of 2**32": b"\x92\xdd" + b"\xff" * 4,
    "no array": msgpack.packb(HUGE),
    "no message": msgpack.packb([[[]], []]),
    "an unknown message": msgpack.packb([[["Exec", "rm"]], []]),
    "a worker's word": msgpack.packb([[["HeartBeat", {}]], []]),
    "random": os.urandom(1 << 20),
}


def test_s05_rubbish_of_one_who_was_let_in(open_door):
    with hetsched.Client(open_door.address) as client:
        before = memory(open_door, "scheduler")
        for name, packet in PACKETS.items():
            with Stranger(open_door.address) as stranger:
                assert stranger.greet(hello()) == (True, b"")
                length = b"" if name.endswith("GiB") else struct.pack(">I", len(packet))
                stranger.say(length + packet)
                began = time.monotonic()
                stranger.rest()  # to its end: it is turned out
                assert time.monotonic() - began < GREETING_SECONDS / 2, name
            open_door.until("scheduler", "is gone")
        assert memory(open_door, "scheduler") - before < MOST_GROWTH
        assert client.scheduler_info()["tasks"] == 0
        assert len(client.scheduler_info()["clients"]) == 1


def test_s05_many_who_say_nothing(guarded):
    crowd = [socket.create_connection(guarded.address.removeprefix("tcp://").rsplit(":", 1)) for _ in range(200)]
    assert guarded.serves()
    for one in crowd:
        one.close()
    assert guarded.serves()


def test_s05_peers_that_are_slow(guarded):
    assert guarded.serves()
    for name, slow in guarded.slow.items():
        if name != "silent":
            assert GREETING_SECONDS - 1 < slow.join() < GREETING_SECONDS + 5, name
    slow = guarded.slow["silent"]
    slow._stranger.rest()
    slow.join()
    assert guarded.serves()
