"""How long a worker was silent, as its connection counts it."""

from __future__ import annotations

from hetsched.server.links import WorkerLink


class Line:
    """What is looked at of a channel."""

    received = 100


def test_only_what_passes_without_a_byte_is_silence():
    line = Line()
    link = WorkerLink("w", line, 0.0)
    assert [link.listen(1.0) for _ in range(4)] == [0.0, 1.0, 2.0, 3.0]
    line.received += 1  # of a large message, which is not heard before it is whole
    assert [link.listen(0.5) for _ in range(3)] == [0.0, 0.5, 1.0]
