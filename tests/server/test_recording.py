"""A recording holds every event, and none of the data."""

from __future__ import annotations

import pytest

from hetsched.core.events import ClientLeft, GraphSubmitted, TasksFailed, WorkerJoined
from hetsched.core.types import Capacity, TaskSpec
from hetsched.errors import ProtocolError
from hetsched.server.recording import Recorded, Recorder, read_recording


def test_what_is_written_is_read(tmp_path):
    task = TaskSpec(("x", 0), print, ("secret",), None, (), {"pool": "A"})
    with Recorder(tmp_path / "events") as record:
        record(1.0, WorkerJoined("w", Capacity({"cpu": 1})))
        record(1.5, GraphSubmitted("c", 1, [task], [0]))
        record(2.0, TasksFailed("w", "cpu", [(0, 1, ("raised", b"secret", "cpu", "t"), True)]))
        record(3.0, TasksFailed("w", "cpu", [(0, 1, ValueError("secret"), False)]))
        record(4.0, ClientLeft("c"))
    assert list(read_recording(tmp_path / "events")) == [
        Recorded(1.0, "WorkerJoined", ("w", ({"cpu": 1}, {}, None, 2, 0.0, None))),
        Recorded(1.5, "GraphSubmitted", ("c", 1, ((("x", 0), (), {"pool": "A"}),), (0,), 0, None, (), None, (), ())),
        Recorded(2.0, "TasksFailed", ("w", "cpu", ((0, 1, "raised", True),), ())),
        Recorded(3.0, "TasksFailed", ("w", "cpu", ((0, 1, "ValueError", False),), ())),
        Recorded(4.0, "ClientLeft", ("c",)),
    ]
    assert b"secret" not in (tmp_path / "events").read_bytes()


def test_one_that_breaks_off_is_read_as_far_as_it_goes(tmp_path):
    file = tmp_path / "events"
    with Recorder(file) as record:
        record(1.0, ClientLeft("c"))
        record(2.0, ClientLeft("d"))
    file.write_bytes(file.read_bytes()[:-3])
    assert list(read_recording(file)) == [Recorded(1.0, "ClientLeft", ("c",))]


def test_what_is_no_recording(tmp_path):
    (tmp_path / "x").write_bytes(b"\x93\x01\x02\x03")
    with pytest.raises(ProtocolError, match="is not a recording of this version of hetsched"):
        list(read_recording(tmp_path / "x"))
