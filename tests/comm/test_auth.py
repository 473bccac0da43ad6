"""Tokens stay with their owner, a proof proves one thing once, TLS files that are wrong are named."""

from __future__ import annotations

import os
import socket
import ssl
import threading

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from hypothesis import given
from hypothesis import strategies as st

from hetsched.comm.auth import (
    client_tls,
    needs_secret,
    new_token_file,
    proof,
    read_token_file,
    server_tls,
    verify,
)

TOKEN = b"a token"


# --- token files


def test_a_new_token_can_be_read_back(tmp_path):
    old = os.umask(0)
    try:
        new_token_file(tmp_path / "a")
        os.umask(0o777)
        new_token_file(str(tmp_path / "b"))
    finally:
        os.umask(old)
    tokens = [read_token_file(tmp_path / name) for name in "ab"]
    assert [len(bytes.fromhex(token.decode())) for token in tokens] == [32, 32]
    assert tokens[0] != tokens[1]
    assert [(tmp_path / name).stat().st_mode & 0o7777 for name in "ab"] == [0o600, 0o600]


def test_a_token_in_use_is_not_overwritten(tmp_path):
    path = tmp_path / "token"
    path.write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for taken in (path, tmp_path / "link"):
        with pytest.raises(FileExistsError) as caught:
            new_token_file(taken)
        assert str(caught.value) == (
            f"{taken} exists already: a token in use is not overwritten; give another name or remove it first"
        )
    assert path.read_text() == "precious"
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(FileNotFoundError):
        new_token_file(tmp_path / "no" / "token")


def token_file(tmp_path, content=b"abc", mode=0o600):
    path = tmp_path / "token"
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_blanks_around_a_token_do_not_count(tmp_path):
    assert read_token_file(token_file(tmp_path, b" \t abc def\r\n\n", 0o400)) == b"abc def"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o644, 0o666, 0o610])
def test_a_token_that_others_can_reach(tmp_path, mode):
    path = token_file(tmp_path, mode=mode)
    with pytest.raises(PermissionError) as caught:
        read_token_file(path)
    assert str(caught.value) == (
        f"the token file {path} is open to other users (mode {mode:04o}): run `chmod 600 {path}`, "
        "and make a new token if they may have read it"
    )


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty: remove it and make one with `hetsched-scheduler --new-token {path}`"),
        (b" \n", "is empty: remove it and make one with `hetsched-scheduler --new-token {path}`"),
        (b"x" * 4097, "has more than 4096 bytes: this is not a token"),
    ],
    ids=["empty", "blank", "long"],
)
def test_a_token_that_is_none(tmp_path, content, says):
    path = token_file(tmp_path, content)
    with pytest.raises(ValueError) as caught:
        read_token_file(path)
    assert str(caught.value) == f"the token file {path} {says.format(path=path)}"


def test_a_token_file_that_is_no_file(tmp_path):
    path = tmp_path / "token"
    with pytest.raises(FileNotFoundError) as caught:
        read_token_file(path)
    assert str(caught.value) == (
        f"there is no token file {path}: make one with `hetsched-scheduler --new-token {path}`, "
        "or copy the one that the scheduler uses"
    )
    os.mkfifo(path, 0o600)
    for strange in (path, "/dev/null"):
        with pytest.raises(ValueError, match=f"the token file {strange} is not a plain file"):
            read_token_file(strange)
    with pytest.raises(OSError):
        read_token_file(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_token_of_another_user(tmp_path):
    path = token_file(tmp_path, mode=0o000)
    with pytest.raises(PermissionError, match="may not be read by this user"):
        read_token_file(path)


# --- proofs


def test_two_ends_with_the_same_token():
    mine, theirs = b"hello a", b"hello b"
    from_opener = proof(TOKEN, mine, theirs, "opener")
    from_acceptor = proof(TOKEN, theirs, mine, "acceptor")
    assert len(from_opener) == 32
    assert verify(TOKEN, theirs, mine, "acceptor", from_opener)
    assert verify(TOKEN, mine, theirs, "opener", from_acceptor)


@given(st.binary(), st.binary(), st.binary(min_size=1), st.sampled_from(["opener", "acceptor"]))
def test_what_came_from_us_proves_nothing(mine, theirs, token, role):
    for a, b in ((mine, theirs), (theirs, mine), (mine, mine)):
        # Our own proof sent back; and the peer's where its Hello is ours.
        assert not verify(token, a, b, role, proof(token, a, b, role))
    other = {"opener": "acceptor", "acceptor": "opener"}[role]
    assert verify(token, mine, theirs, role, proof(token, theirs, mine, other)) == (mine != theirs)
    # What we said as the same end of another connection, with the Hellos exchanged between the two.
    assert not verify(token, mine, theirs, role, proof(token, theirs, mine, role))


@given(st.binary(max_size=40))
def test_anything_else_is_no_proof(given_bytes):
    good = proof(TOKEN, b"b", b"a", "acceptor")
    for wrong in (
        given_bytes,
        good[:-1],
        good + b"\0",
        bytes([good[0] ^ 1]) + good[1:],
        proof(b"another token", b"b", b"a", "acceptor"),
        proof(TOKEN, b"b", b"another hello", "acceptor"),
        proof(TOKEN, b"another hello", b"a", "acceptor"),
        proof(TOKEN, b"", b"ba", "acceptor"),
    ):
        assert not verify(TOKEN, b"a", b"b", "opener", wrong)


def test_calls_that_are_wrong():
    with pytest.raises(ValueError, match="an empty token proves nothing"):
        proof(b"", b"a", b"b", "opener")
    with pytest.raises(ValueError, match="an empty token proves nothing"):
        verify(b"", b"a", b"b", "opener", bytes(32))
    with pytest.raises(ValueError, match="'worker' is no end of a connection: opener or acceptor"):
        proof(TOKEN, b"a", b"b", "worker")


# --- who can reach a listener


@pytest.mark.parametrize(
    ("address", "needed"),
    [
        ("tcp://127.0.0.1:0", False),
        ("tcp://127.9.8.7:1", False),
        ("tls://localhost:1", False),
        ("tcp://LocalHost:1", False),
        ("tcp://[::1]:1", False),
        ("tcp://[::ffff:127.0.0.1]:1", False),
        ("unix:///run/x:y", False),
        ("inproc://name", False),
        ("127.0.0.1", False),
        ("127.0.0.1:80", False),
        ("localhost", False),
        ("::1", False),
        ("[::1]", False),
        ("[::1]:80", False),
        ("", True),
        ("*", True),
        ("0.0.0.0", True),
        ("::", True),
        ("tcp://:1", True),
        ("tcp://0.0.0.0:1", True),
        ("tcp://[::]:1", True),
        ("tls://10.0.0.1:1", True),
        ("tcp://[::ffff:10.0.0.1]:1", True),
        ("tcp://localhost.example.org:1", True),
        ("tcp://127.0.0.1.example.org:1", True),
        ("tcp://unix:1", True),
        ("unix.example.org", True),
        ("example.org", True),
    ],
)
def test_who_can_reach_a_listener(address, needed):
    assert needs_secret(address) is needed


# --- TLS


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """PEM files: of two authorities, and of a certificate of each."""
    folder = tmp_path_factory.mktemp("tls")
    for name in ("ours", "foreign"):
        ca = trustme.CA()
        ca.cert_pem.write_to_path(folder / f"{name}-ca")
        leaf = ca.issue_cert("localhost")
        leaf.private_key_pem.write_to_path(folder / f"{name}-key")
        with open(folder / f"{name}-cert", "wb") as file:
            file.writelines(blob.bytes() for blob in leaf.cert_chain_pems)
    return folder


def shake(server, client, hostname="localhost"):
    """What each end gets of a TLS handshake over real sockets and a byte each way: the byte, or an error's type."""
    ours, theirs = socket.socketpair()
    got = {}

    def run(name, act):
        try:
            with act() as tls:
                tls.sendall(b"x")
                got[name] = tls.recv(1), tls.version()
        except (ssl.SSLError, OSError) as error:
            got[name] = type(error)

    thread = threading.Thread(target=run, args=("server", lambda: server.wrap_socket(ours, server_side=True)))
    with ours, theirs:
        for sock in (ours, theirs):
            sock.settimeout(5)
        thread.start()
        run("client", lambda: client.wrap_socket(theirs, server_hostname=hostname))
        theirs.close()
        thread.join()
    return got["server"], got["client"]


def pair(files, name):
    return files / f"{name}-cert", files / f"{name}-key"


WELL = (b"x", "TLSv1.3")


def test_tls_both_ways(files):
    ca = files / "ours-ca"
    one_way = server_tls(*pair(files, "ours"))
    mutual = server_tls(*pair(files, "ours"), ca)
    assert shake(one_way, client_tls(ca=ca)) == (WELL, WELL)
    assert shake(mutual, client_tls(*pair(files, "ours"), ca)) == (WELL, WELL)
    assert shake(mutual, client_tls(*map(str, pair(files, "ours")), str(ca))) == (WELL, WELL)


def test_tls_turns_strangers_away(files):
    ca = files / "ours-ca"
    mutual = server_tls(*pair(files, "ours"), ca)
    for client in (client_tls(ca=ca), client_tls(*pair(files, "foreign"), ca)):
        at_server, at_client = shake(mutual, client)
        assert issubclass(at_server, ssl.SSLError)
        assert issubclass(at_client, OSError)
    # the listener is not who it should be: of another authority, of none that the system knows, of another name
    for server, client, name in (
        (server_tls(*pair(files, "foreign")), client_tls(ca=ca), "localhost"),
        (server_tls(*pair(files, "ours")), client_tls(), "localhost"),
        (server_tls(*pair(files, "ours")), client_tls(ca=ca), "example.org"),
    ):
        assert shake(server, client, name)[1] is ssl.SSLCertVerificationError


def test_tls_older_than_1_3_is_not_spoken(files):
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.load_verify_locations(files / "ours-ca")
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    assert shake(server_tls(*pair(files, "ours")), old) == (ssl.SSLError, ssl.SSLError)


@pytest.mark.parametrize("what", ["cert", "key", "ca"])
def test_tls_files_that_are_not_there(files, tmp_path, what):
    given_files = {"cert": files / "ours-cert", "key": files / "ours-key", "ca": files / "ours-ca"}
    named = {"cert": "certificate", "key": "private key", "ca": "certificate"}[what]
    missing, nothing, broken = tmp_path / "missing", tmp_path / "nothing", tmp_path / "broken"
    nothing.write_text("nothing of the kind")
    good = given_files[what].read_text()
    broken.write_text(good.splitlines()[0] + "\nAAAA" + good.splitlines()[-1] + "\n")
    cases = [
        (missing, FileNotFoundError, f"the TLS {named} {missing} cannot be read (No such file or directory): "),
        (tmp_path, IsADirectoryError, f"the TLS {named} {tmp_path} cannot be read (Is a directory): "),
        (nothing, ValueError, f"the TLS {named} {nothing} holds no {named} in PEM form: "),
    ]
    for make in (server_tls, client_tls):
        for path, kind, says in cases:
            with pytest.raises(kind) as caught:
                make(**{**given_files, what: path})
            assert str(caught.value) == f"{says}check --tls-{what}"
        with pytest.raises(ValueError, match=" is damaged ") as caught:
            make(**{**given_files, what: broken})
        assert str(broken) in str(caught.value)


def test_tls_files_that_do_not_belong_together(files, tmp_path):
    cert, key = files / "ours-cert", files / "foreign-key"
    with pytest.raises(ValueError) as caught:
        server_tls(cert, key)
    assert str(caught.value) == (
        f"the TLS private key {key} does not belong to the certificate {cert}: check --tls-cert and --tls-key"
    )
    for half in ({"cert": cert}, {"key": key}):
        with pytest.raises(ValueError, match="a TLS certificate and its key go together"):
            client_tls(**half)
    secret = tmp_path / "secret"
    plain = load_pem_private_key((files / "ours-key").read_bytes(), None)
    secret.write_bytes(plain.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x")))
    with pytest.raises(ValueError) as caught:
        server_tls(cert, secret)
    assert str(caught.value) == (
        f"the TLS private key {secret} is protected by a password: write one without, readable by its owner alone"
    )
