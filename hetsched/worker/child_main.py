"""The program of a child process: reads tasks from its standard input, writes what came of them to its output."""

from __future__ import annotations

import os
import pickle
import signal

import cloudpickle

from hetsched.comm.remote_errors import dump_error
from hetsched.core.types import EACH, TaskSpec

from .child import read_frame, write_frame
from .inside import set_in_child

__all__ = ["main"]


def main() -> None:
    """Serve calls until the standard input ends."""
    # A task may read and print, and so may programs it starts: orders and answers get descriptors of their own. What is
    # printed goes to the error stream, what is read is empty.
    orders = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    # Ctrl-C reaches the whole group of processes; what it means for tasks is the parent's to say.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            write_frame(answers, _answer(read_frame(orders)))
        except (EOFError, BrokenPipeError):
            os._exit(0)  # the parent is gone: nobody waits for anything


def _answer(order: bytes) -> bytes:
    try:
        func, args, kwargs, inputs, about = cloudpickle.loads(order)
        set_in_child(about)
        spec = TaskSpec(None, func, EACH if args is None else args, kwargs)
        return bytes(cloudpickle.dumps((True, spec(inputs))))
    except BaseException as error:  # user code: whatever it raises is the task's outcome
        return bytes(cloudpickle.dumps((False, dump_error(error, pickle.HIGHEST_PROTOCOL))))
