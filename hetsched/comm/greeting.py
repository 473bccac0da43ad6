"""How two strangers come to speak.

::

    opener                                        acceptor
    "HETSCHED" u16 version, u32 length, Hello ->
                                               <- "HETSCHED" u16 version, u32 length, Hello
    u8 length, proof (nothing without a token) ->
                                               <- verdict: u8 1, u16 length, proof
                                                        or u8 0, u16 length, one sentence that says why not

Numbers are in network byte order. The version is that of this greeting; the protocol's is among what is agreed on.
Nothing but the two Hellos, which are small, is decoded before the proofs hold.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from typing import NamedTuple, NoReturn

import trio

from hetsched.errors import ConnectionLost, ProtocolError, Rejected

from .auth import proof, verify
from .handshake import HELLO_LIMIT, NONCE_BYTES, Hello, Terms, agree, decode_hello, encode_hello
from .reader import Reader, Target
from .transports import Stream

__all__ = ["GREETING", "MAGIC", "Greeted", "greet_acceptor", "greet_opener"]

MAGIC = b"HETSCHED"
"""The first bytes that each end sends."""

GREETING = 1
"""The version of the greeting."""

_PREFACE = struct.Struct(">8sHI")
_VERDICT = struct.Struct(">BH")
_PROOF_LIMIT = 64
_SENTENCE_LIMIT = 2000
_METHODS = (b"GET ", b"HEAD ", b"POST ", b"PUT ", b"DELETE ", b"OPTIONS ", b"CONNECT ", b"PRI * ")
_LAST_WORDS = 1.0  # seconds in which a peer can read them


class Greeted(NamedTuple):
    """What a connection starts with."""

    mine: Hello
    peer: Hello
    terms: Terms


async def greet_opener(stream: Stream, reader: Reader, hello: Hello, token: bytes | None) -> Greeted:
    """Greet as the one who opened the connection.

    Raises Rejected, ProtocolError where the other end does not speak hetsched, and ConnectionLost. Failed or cancelled,
    the stream is to be closed.
    """
    mine, said = _complete(hello)
    await stream.send_all([_preface(said), said])
    heard = await _receive_hello(stream, reader)
    theirs = _decode(stream, heard)
    terms = agree(mine, theirs)
    if isinstance(terms, str):
        raise Rejected(terms)
    proven = proof(token, said, heard, "opener") if token else b""
    await stream.send_all([bytes([len(proven)]) + proven])
    good, length = _VERDICT.unpack(await reader.peek(_VERDICT.size))
    if length > _SENTENCE_LIMIT:
        raise ProtocolError(f"{stream.peername} gave a verdict of {length} bytes")
    reader.skip(_VERDICT.size)
    answer = bytes(await Target(length).fill(reader))
    if not good:
        raise Rejected(f"{stream.peername} does not take us: {_printable(answer)}")
    if token and not verify(token, said, heard, "opener", answer):
        raise Rejected(f"{stream.peername} does not have the token of this cluster")
    return Greeted(mine, theirs, terms)


async def greet_acceptor(
    stream: Stream,
    reader: Reader,
    hello: Hello,
    token: bytes | None,
    suit: Callable[[Hello], Hello] | None = None,
) -> Greeted:
    """Greet as the one who accepted the connection, with what ``suit``, if given, says for the peer's Hello.

    Raises Rejected, which says who was turned away and why, and tells the peer why; ProtocolError where the peer does
    not speak hetsched, which is told if it can be guessed how; ConnectionLost. Failed or cancelled, the stream is to be
    closed.
    """
    mine, said = _complete(hello)
    try:
        heard = await _receive_hello(stream, reader)
    except ProtocolError:
        await _last_words(stream, await _answer_to_stranger(reader))
        raise
    try:
        theirs = _decode(stream, heard)
    except ProtocolError as error:
        await stream.send_all([_preface(said), said])
        await _last_words(stream, _no(str(error)))
        raise
    if suit is not None:
        mine, said = _complete(suit(theirs))
    await stream.send_all([_preface(said), said])
    terms = agree(mine, theirs)
    if isinstance(terms, str):
        await _turn_away(stream, theirs, terms)
    (length,) = await reader.peek(1)
    if length > _PROOF_LIMIT:
        await _last_words(stream, _no(f"a proof of {length} bytes"))
        raise ProtocolError(f"{stream.peername} gave a proof of {length} bytes")
    proven = bytes((await reader.peek(1 + length))[1:])
    reader.skip(1 + length)
    if why := _doubt(token, said, heard, proven):
        await _turn_away(stream, theirs, why)
    answer = proof(token, said, heard, "acceptor") if token else b""
    await stream.send_all([_VERDICT.pack(1, len(answer)) + answer])
    return Greeted(mine, theirs, terms)


def _complete(hello: Hello) -> tuple[Hello, bytes]:
    mine = hello._replace(nonce=os.urandom(NONCE_BYTES))
    return mine, encode_hello(mine)


def _preface(said: bytes) -> bytes:
    return _PREFACE.pack(MAGIC, GREETING, len(said))


async def _receive_hello(stream: Stream, reader: Reader) -> bytes:
    head = await reader.peek(len(MAGIC))
    if head != MAGIC:
        raise ProtocolError(f"{stream.peername} does not speak hetsched: {_guess(bytes(head))}")
    _, version, length = _PREFACE.unpack(await reader.peek(_PREFACE.size))
    if version != GREETING:
        raise ProtocolError(f"{stream.peername} greets in version {version}; this release knows version {GREETING}")
    if length > HELLO_LIMIT:
        raise ProtocolError(f"{stream.peername} announced a Hello of {length} bytes; {HELLO_LIMIT} are allowed")
    reader.skip(_PREFACE.size)
    return bytes(await Target(length).fill(reader))


def _decode(stream: Stream, heard: bytes) -> Hello:
    try:
        return decode_hello(heard)
    except ProtocolError as error:
        raise ProtocolError(f"{stream.peername}: {error}") from error


def _guess(head: bytes) -> str:
    if head.startswith(_METHODS):
        return "it sent an HTTP request"
    if head.startswith(b"HTTP/"):
        return "it is a web server"
    if head[:2] == b"\x16\x03":
        return "it speaks TLS, which a tcp:// address does not"
    if head[:2] == b"\x15\x03":
        return "it speaks TLS: connect to it by tls://"
    return f"it began with {head!r}"


async def _answer_to_stranger(reader: Reader) -> bytes:
    # Peeking at what was peeked at before does not wait.
    head = bytes(await reader.peek(len(MAGIC)))
    if head == MAGIC:
        return _PREFACE.pack(MAGIC, GREETING, 0)  # our version, in which no Hello is empty
    text = b"This port is for hetsched: connect with hetsched.Client or hetsched-worker.\n"
    if head.startswith(_METHODS):
        return b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n" + text
    return text


def _doubt(token: bytes | None, said: bytes, heard: bytes, proven: bytes) -> str | None:
    if token and not proven:
        return "a token is needed here, and none was given (--token-file)"
    if proven and not token:
        return "a token was given, and this end has none: both need the same"
    if token and not verify(token, said, heard, "acceptor", proven):
        return "the token is not the one of this cluster"
    return None


async def _turn_away(stream: Stream, theirs: Hello, why: str) -> NoReturn:
    await _last_words(stream, _no(why))
    raise Rejected(f"{stream.peername} was turned away ({theirs.role} {theirs.name!r}): {why}")


def _no(why: str) -> bytes:
    sentence = why.encode()[:_SENTENCE_LIMIT]
    return _VERDICT.pack(0, len(sentence)) + sentence


def _printable(sentence: bytes) -> str:
    # It comes from an end that has proven nothing, and goes to a terminal.
    return "".join(c if c.isprintable() else "?" for c in sentence.decode(errors="replace"))


async def _last_words(stream: Stream, words: bytes) -> None:
    with trio.move_on_after(_LAST_WORDS):
        try:
            await stream.send_all([words])
        except ConnectionLost:
            return
        await stream.linger()
