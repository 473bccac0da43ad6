"""A child process that runs tasks which hold the interpreter lock; one for each slot of the process executor."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Any

from hetsched.comm.remote_errors import load_error
from hetsched.core.types import EACH, TaskSpec
from hetsched.errors import RemoteError, WorkerLostError

__all__ = ["ChildProcess"]

_LENGTH = 8


_HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from hetsched.worker.child_main import main; main()"


class ChildProcess:
    """Starts at the first call, serves one call at a time, and is started anew if it dies.

    Functions and values cross by cloudpickle. A child that dies in a call fails that call alone, with a
    WorkerLostError that tells its exit status.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self.about: Any = None
        """What the next task may know of itself."""

    def call(self, spec: TaskSpec, inputs: Sequence[Any]) -> Any:
        """Run a task in the child and return its result.

        Raises what the task raises; RemoteError where that could not be carried over.
        """
        import cloudpickle

        args = None if spec.args is EACH else spec.args  # it is told by identity, which a pickle does not keep
        order = cloudpickle.dumps((spec.func, args, spec.kwargs, list(inputs), self.about))
        process = self._start()
        assert process.stdin is not None and process.stdout is not None
        try:
            write_frame(process.stdin, order)
            answer = read_frame(process.stdout)
        except (OSError, EOFError, ValueError):
            status = self._bury(process)
            raise WorkerLostError(
                f"the child process that ran the task {spec.key!r} died with exit status {status}"
            ) from None
        try:
            good, value = cloudpickle.loads(answer)
        except Exception as error:
            raise RemoteError(f"the outcome of the task {spec.key!r} could not be loaded: {error!r}") from error
        if good:
            return value
        raise load_error(value)

    def _start(self) -> subprocess.Popen[bytes]:
        process = self._process
        if process is not None and process.poll() is not None:
            self._bury(process)
            process = None
        if process is None:
            # The path goes along, with what is relative in it made whole: the child may look from another folder.
            path = [*(os.path.abspath(entry) for entry in sys.path), _HOME]
            process = self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, *path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        return process

    def _bury(self, process: subprocess.Popen[bytes]) -> int:
        self._process = None
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        return process.wait()

    def kill(self) -> None:
        """End the child at once, from any thread; a call under way fails."""
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """End the child, which is idle."""
        process = self._process
        if process is not None:
            self._bury(process)  # it ends where its orders do


def write_frame(stream: IO[bytes], data: bytes) -> None:
    """Write one length-prefixed frame."""
    stream.write(len(data).to_bytes(_LENGTH, "big"))
    stream.write(data)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes:
    """Read one length-prefixed frame; EOFError where the other side is gone."""
    head = stream.read(_LENGTH)
    if len(head) < _LENGTH:
        raise EOFError
    size = int.from_bytes(head, "big")
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data
