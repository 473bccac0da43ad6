"""The program of a child process: reads tasks from its standard input, writes what came of them to its output."""

from __future__ import annotations

import os
import sys
from typing import Any

import cloudpickle
import tblib.pickling_support

from hetsched.core.types import EACH, TaskSpec
from hetsched.errors import RemoteError

from .child import read_frame, write_frame

__all__ = ["main"]


def main() -> None:
    """Serve calls until the standard input ends."""
    # A task may print: the answers get a descriptor of their own, and what tasks print goes to the error stream.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.path[:] = sys.argv[1:]
    while True:
        try:
            order = read_frame(sys.stdin.buffer)
        except EOFError:
            return
        write_frame(answers, _answer(order))


def _answer(order: bytes) -> bytes:
    try:
        func, args, kwargs, inputs = cloudpickle.loads(order)
        spec = TaskSpec(None, func, EACH if args is None else args, kwargs)
        return bytes(cloudpickle.dumps((True, spec(inputs))))
    except BaseException as error:  # user code: whatever it raises is the task's outcome
        return _pack_error(error)


def _pack_error(error: BaseException) -> bytes:
    try:
        tblib.pickling_support.install(error)
        packed = bytes(cloudpickle.dumps((False, error)))
        cloudpickle.loads(packed)
    except Exception:
        return bytes(cloudpickle.dumps((False, RemoteError(_describe(error)))))
    return packed


def _describe(error: Any) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


if __name__ == "__main__":
    main()
